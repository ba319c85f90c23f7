"""Two learners, an operator and every fault in any order, compared with a plain record of what must
be durable.
"""

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from redis import Redis

from service.checkpoint.snapshot import Snapshot
from service.checkpoint.store import (
    Acquired,
    CorruptCheckpointError,
    FencedError,
    StoreUnavailableError,
)
from service.embedded import redis as embedded_redis
from service.storage.lua import COMMIT
from service.storage.manifests import parse_entry as open_entry
from tests.examples import examples
from tests.service.storage.stores import (
    Broken,
    abandon,
    cut_off,
    delta,
    done_but_no_reply,
    keys,
    make_store,
    whole,
)

MORE = os.environ.get("ONEPASS_CHAOS") == "1"
SLOTS = 64
HEAD, TOKEN, LEASE, FROZEN = ("{m:m}:" + name for name in ("head", "token", "lease", "frozen"))
LEARNERS = st.integers(0, 1)


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory):
    """A Redis that does not wait for the disk: this test is about order, not durability."""
    with embedded_redis.redis_server(tmp_path_factory.mktemp("redis"), appendonly=False) as server:
        yield server


class Learner:
    def __init__(self, url: str) -> None:
        # The lease ends only when the test says so.
        self.store = make_store(url, keep=1000, lease_seconds=300)
        self.weights = np.zeros(SLOTS)
        self.events = 0
        self.dirty: set[int] = set()
        self.began = False
        self.past: set[str] = set()
        """Commits that led to its state."""
        self.seen_bad: set[bytes] = set()
        self.newest: bytes | None = None
        """Newest manifest that it believes Redis to have."""
        self.lost: set[bytes] = set()
        """Its commits that were not acknowledged."""

    def begin(self, state: tuple[int, np.ndarray], head: list[bytes], place: int) -> None:
        self.events, self.weights = state[0], state[1].copy()
        self.began, self.dirty, self.lost = True, set(), set()
        self.newest = head[0] if head else None
        self.past = {found.commit for raw in head if (found := open_entry(raw).manifest)}
        self.seen_bad = set(head[:place])

    def snapshot(self) -> Snapshot:
        """Return what it saves next: a delta, unless its store wants the whole."""
        snapshot = whole(self.events, weights=self.weights.copy())
        if not self.store.wants_whole:
            snapshot = delta(self.events, {slot: self.weights[slot] for slot in self.dirty | {0}})
        return snapshot

    def check_refused(self, how: str, snapshot: Snapshot, raised: Exception | None) -> None:
        assert isinstance(
            raised,
            StoreUnavailableError
            if how != "well" and self.store._token and self.began
            else FencedError,
        ) or (not snapshot.whole and isinstance(raised, StoreUnavailableError | FencedError))
        if isinstance(raised, FencedError) and self.store._token and self.began:
            assert self.store.disturbed


class Machine(RuleBasedStateMachine):
    url = ""

    def __init__(self) -> None:
        super().__init__()
        self.client = Redis.from_url(self.url)
        self.client.flushdb()
        self.eye = make_store(self.url)
        self.learners = [Learner(self.url), Learner(self.url)]
        self.states: dict[str, tuple[int, np.ndarray]] = {}
        """Commit -> the state that it must be read as."""
        self.damaged: set[str] = set()
        """Damaged blobs."""
        self.stray = False
        """Whether a manifest was made unreadable, so that the owner of its chunks is unknown."""
        self.serial = 0
        self.backup: tuple | None = None

    def head(self) -> list[bytes]:
        return self.client.lrange(HEAD, 0, -1)

    def good(self, raw: bytes) -> bool:
        manifest = open_entry(raw).manifest
        return manifest is not None and not {part.blob for part in manifest.parts} & self.damaged

    @rule(who=LEARNERS)
    def acquire(self, who: int) -> None:
        learner, head = self.learners[who], self.head()
        holder, token = self.client.get(LEASE), self.client.get(TOKEN)
        standing = learner.store.acquire()
        if holder not in {None, learner.store._lease.holder.encode()}:
            assert standing is Acquired.HELD_ELSEWHERE
            assert self.client.get(TOKEN) == token
            return
        assert not learner.store.disturbed
        assert learner.store.held
        newest = open_entry(head[0]).manifest if head else None
        if head and head[0] in learner.lost:
            learner.past.add(newest.commit)
        known = (
            not head
            or head[0] in learner.seen_bad
            or (newest is not None and newest.commit in learner.past)
        )
        if learner.began and known and not self.client.exists(FROZEN):
            assert standing is Acquired.CURRENT
            learner.newest, learner.lost = head[0] if head else None, set()
            return
        assert standing is Acquired.STALE
        learner.began = False
        self.load(learner, head)

    def load(self, learner: Learner, head: list[bytes]) -> None:
        place = next((place for place, raw in enumerate(head) if self.good(raw)), None)
        if head and place is None:
            with pytest.raises(CorruptCheckpointError):
                learner.store.load()
            learner.store.forget()
            learner.begin((0, np.zeros(SLOTS)), head, len(head))
            return
        loaded = learner.store.load()
        if not head:
            assert loaded is None
            learner.begin((0, np.zeros(SLOTS)), head, 0)
            return
        events, weights = self.states[loaded.manifest.commit]
        assert loaded.manifest == open_entry(head[place]).manifest
        assert len(loaded.broken) == place
        assert loaded.snapshot.events == events
        assert np.array_equal(loaded.snapshot.arrays["state/w"], weights)
        learner.begin((events, weights), head, place)

    @rule(who=LEARNERS, slots=st.lists(st.integers(0, SLOTS - 1), min_size=1, max_size=3))
    def learn(self, who: int, slots: list[int]) -> None:
        learner = self.learners[who]
        for slot in slots:
            self.serial += 1
            learner.weights[slot] = self.serial
            learner.dirty.add(slot)
            learner.events += 1

    @rule(who=LEARNERS, how=st.sampled_from(["well", "well", "well", "reply lost", "cut off"]))
    def save(self, who: int, how: str) -> None:
        learner, head = self.learners[who], self.head()
        store = learner.store
        snapshot = learner.snapshot()
        newest = head[0] if head else None
        ours = (self.client.get(TOKEN) or b"-").decode() == store._token
        may = learner.began and ours and (newest == learner.newest or newest in learner.lost)
        instead = {
            "well": {},
            "reply lost": {"eval": done_but_no_reply},
            "cut off": {"eval": cut_off},
        }[how]
        raised = None
        with Broken(store, **instead):
            try:
                manifest = store.save(snapshot)
            except (FencedError, StoreUnavailableError) as error:
                raised = error
        after = self.head()
        if how == "well" and may:
            assert raised is None
            assert open_entry(after[0]).manifest == manifest
            learner.newest, learner.lost, learner.dirty = after[0], set(), set()
            learner.past.add(manifest.commit)
        elif how == "reply lost" and may:
            assert isinstance(raised, StoreUnavailableError)
            learner.lost.add(after[0])
        else:
            learner.check_refused(how, snapshot, raised)
            assert after == head, "nothing is changed"
            return
        found = open_entry(after[0]).manifest
        self.states[found.commit] = (learner.events, learner.weights.copy())
        older = [raw for raw in after[1:] if raw not in head]
        assert not older
        assert all(raw in after for raw in head if self.good(raw) and raw not in learner.seen_bad)

    @rule(who=LEARNERS)
    def crash(self, who: int) -> None:
        if self.learners[who].store._lease._thread is not None:
            abandon(self.learners[who].store)
        else:
            self.learners[who].store.close()
        self.learners[who] = Learner(self.url)

    @rule(who=LEARNERS)
    def renew(self, who: int) -> None:
        store = self.learners[who].store
        holder, token = self.client.get(LEASE), self.client.get(TOKEN)
        store._lease.renew()
        if store._token and not store.disturbed:
            assert (token or b"").decode() == store._token
            assert self.client.get(LEASE) == store._lease.holder.encode()
        else:
            assert self.client.get(LEASE) == holder

    @rule()
    def lease_runs_out(self) -> None:
        self.client.delete(LEASE)

    @rule()
    def operator_restates(self) -> None:
        self.serial += 1
        weights = np.full(SLOTS, float(self.serial))
        manifest = self.eye.restate(whole(self.serial, weights=weights), origin="test")
        self.states[manifest.commit] = (self.serial, weights)

    @rule()
    def operator_freezes_or_not(self) -> None:
        if self.eye.unfreeze() is None:
            self.eye.freeze()

    @precondition(lambda self: self.client.exists(HEAD))
    @rule(place=st.integers(0, 2), how=st.sampled_from(["flip", "drop", "manifest"]))
    def damage(self, place: int, how: str) -> None:
        head = self.head()
        raw = head[place % len(head)]
        manifest = open_entry(raw).manifest
        if how == "manifest" or manifest is None:
            self.client.lset(
                HEAD, place % len(head), raw[:-1] + bytes([raw[-1] ^ 4]) if raw else b"x"
            )
            self.stray = True
            return
        blob = manifest.parts[place % len(manifest.parts)].blob
        if blob in self.damaged:
            return
        data = self.client.get(f"{blob}:0")
        self.damaged.add(blob)
        if how == "drop":
            self.client.delete(f"{blob}:0")
        else:
            self.client.set(f"{blob}:0", bytes([data[0] ^ 1]) + data[1:])

    @rule()
    def everything_is_lost(self) -> None:
        self.client.flushdb()

    @rule()
    def an_old_dump_is_made(self) -> None:
        kept = {
            key: (self.client.dump(key), max(0, self.client.pttl(key))) for key in keys(self.client)
        }
        self.backup = (kept, set(self.damaged))

    @precondition(lambda self: self.backup is not None)
    @rule()
    def an_old_dump_is_restored(self) -> None:
        self.client.flushdb()
        kept, damaged = self.backup
        for key, (value, ttl) in kept.items():
            self.client.restore(key, ttl, value)
        self.damaged = set(damaged)

    @invariant()
    def what_is_visible_is_whole_and_what_is_not_expires(self) -> None:
        entries = [open_entry(raw) for raw in self.head()]
        generations = [entry.manifest.generation for entry in entries if entry.manifest]
        assert generations == sorted(set(generations), reverse=True)
        for entry in [entry for entry in entries if self.good(entry.raw)][:2]:
            found = self.eye.read(entry.manifest)
            events, weights = self.states[entry.manifest.commit]
            assert found.events == events
            assert np.array_equal(found.arrays["state/w"], weights)
        named = {f"{part.blob}:0" for entry in entries for part in entry.named}
        for key in keys(self.client):
            if ":g:" in key and self.client.ttl(key) == -1:
                assert key in named or self.stray

    def teardown(self) -> None:
        for learner in self.learners:
            learner.store.close()
        self.eye.close()
        self.client.close()


@pytest.mark.hypothesis
def test_faults_in_any_order_lose_nothing_durable(redis_url):
    Machine.url = redis_url
    run_state_machine_as_test(
        Machine,
        settings=examples(
            400 if MORE else 30, stateful_step_count=30, suppress_health_check=list(HealthCheck)
        ),
    )


def test_the_machine_detects_a_store_without_fencing(redis_url, monkeypatch):
    """A store that lets a zombie write does not pass."""
    lax = COMMIT.replace("return 'FENCED'", "newest = newest")
    monkeypatch.setattr("service.storage.redis_keys.COMMIT", lax)
    Machine.url = redis_url
    quick = examples(200, stateful_step_count=30, phases=[Phase.generate], print_blob=False)
    with pytest.raises(Exception):  # noqa: B017, PT011 - whichever of its assertions
        run_state_machine_as_test(Machine, settings=quick)
