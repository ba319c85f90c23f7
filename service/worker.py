"""The order of things: poll, decode, learn, count, keep rejected events, checkpoint. And nothing else.

State and positions move together: a checkpoint holds the state after exactly the records before its positions, so a
crash at any line costs a repetition, never a double count. Rejected events are in the dead-letter log before the
checkpoint that passes them.
"""

import contextlib
import threading
import time
from collections.abc import Callable

from service.checkpoints import Corrupt, StoreDown
from service.errors import Unfinished, Unsaved
from service.events import Decoder, Event
from service.failpoints import reach
from service.follower import Follower
from service.health import Health
from service.keeper import Keeper
from service.letters import Letters, SideDown
from service.metrics import Metrics
from service.model import Model
from service.places import named, own
from service.reasons import Reject
from service.sources.contract import Bookmark, Positions, Record, Source, SourceDown, SourceLost
from service.voice import Voice

POLL_SECONDS, LAG_SECONDS = 0.2, 1.0
FIRST_WAIT, LONGEST_WAIT = 0.2, 5.0
FINISH_SECONDS = 5.0
CONNECT_SECONDS = 300.0
"""A log may have much to look at before it can be read."""


class Worker:
    """One thread that turns the log into learned state."""

    def __init__(
        self,
        log_name: str,
        records: int,
        model: Model,
        decoder: Decoder,
        keeper: Keeper,
        follower: Follower | None,
        open_source: Callable[[], Source],
        letters: Letters,
        metrics: Metrics,
        health: Health,
        *,
        until_end: bool = False,
    ) -> None:
        self._log_name = log_name
        self._records = records
        self._model = model
        self._decoder = decoder
        self._keeper = keeper
        self._follower = follower
        self._open_source = open_source
        self._letters = letters
        self._metrics = metrics
        self._health = health
        self._until_end = until_end
        self._source: Source | None = None
        self._bookmark: Bookmark | None = None
        self._end: Positions | None = None
        self._renew = threading.Event()
        self._voice = Voice(health)
        self._lag_at = time.monotonic()

    def run(self, stop: threading.Event, after_round: Callable[[], None] = lambda: None) -> None:
        """Learn until told to stop (or until the end), whatever is away meanwhile; then leave a last checkpoint."""
        try:
            self._learn_on(stop, after_round)
            ended = self._finished()
            self._finish()
        except SourceLost:
            with contextlib.suppress(Unsaved):
                self._finish()  # what was learned is kept: the log cannot give it again
            raise
        finally:
            self._close()
        if self._until_end and not ended:
            raise Unfinished("stopped before the end that the log had at the start")

    def _learn_on(self, stop: threading.Event, after_round: Callable[[], None]) -> None:
        wait = FIRST_WAIT
        while not stop.is_set() and not self._finished():
            try:
                waiting = self.step()
                after_round()
                wait = FIRST_WAIT
            except (SourceDown, StoreDown) as error:
                if isinstance(error, SourceDown):
                    self._health.source_up &= isinstance(error, SideDown)
                    self._disconnect()
                else:
                    self._health.store_up = False
                self._voice.tell(failing=str(error))
                wait = min(LONGEST_WAIT, 2 * wait)
                stop.wait(wait)
                continue
            self._voice.tell(failing=self._keeper.trouble, waiting=waiting)
            if waiting:
                stop.wait(FIRST_WAIT)

    def renew_source(self) -> None:
        """From another thread: the log has more and nothing comes; connect anew."""
        self._renew.set()

    def step(self) -> str:
        """One round: records from the log into the state; why there was none, when there may be none now."""
        if not self._keeper.settled and not self._settled():
            return "standing by: another learner of this model holds the lease"
        self._save_if_due()
        source = self._source or self._connected()
        self._letters.deliver()  # nothing is polled or checkpointed while a rejected event has no safe place
        self._measure(source)
        if pause := self._keeper.pause:
            self._health.moved_at = time.monotonic()
            return pause
        most = self._health.requests.at_once(self._records)
        with self._health.in_log():
            records = source.poll(POLL_SECONDS, most)
        if records:
            self._learn(records)
            self._keeper.applied(records)
            reach("after_apply")
        self._look_around(source, moved=bool(records))
        self._letters.deliver()
        return ""

    def _settled(self) -> bool:
        """Become the one that learns; until then follow the one that does."""
        begin = self._keeper.settle()
        if not self._keeper.settled:
            self._disconnect()
            self._health.lag = {}
            if self._follower is not None:
                with contextlib.suppress(Corrupt):  # whoever holds the lease has to deal with that
                    self._follower.step()
            return False
        if begin is not None:
            self._disconnect()
            self._letters.forget()  # the records they are of will come again
            self._bookmark = own(self._log_name, begin)
            self._health.ready |= self._health.checkpoint is not None
            self._health.confirmed_at = None  # from here on what answers is the newest there is
        return True

    def _save_if_due(self) -> None:
        if self._bookmark is not None and not self._letters:
            durable = self._keeper.tend(named(self._log_name, self._bookmark))
            if durable is not None and self._source is not None:
                self._source.settled(own(self._log_name, durable).positions)

    def _connected(self) -> Source:
        """Reach the log, and go on where the state is."""
        assert self._bookmark is not None
        self._renew.clear()
        with self._health.in_log(CONNECT_SECONDS):
            source = self._open_source()
            try:
                source.seek(self._bookmark)
                reach("after_seek")
                if self._until_end:
                    self._end = source.until_end(self._end)
                self._health.lag = source.lag()
            except BaseException:
                source.close()
                raise
        self._source = source
        self._keeper.starts(source.bookmark().positions)
        self._look_around(source, moved=True)
        self._health.source_up = self._health.ready = True
        return source

    def _learn(self, records: list[Record]) -> None:
        events: list[Event] = []
        origins: list[Record] = []
        rejects: list[tuple[Record, Reject]] = []
        for record in self._health.requests.between(records):
            event = self._decoder.event(record.value)
            if isinstance(event, Reject):
                rejects.append((record, event))
            else:
                events.append(event)
                origins.append(record)
        outcome = self._model.learn(events, origins)
        rejects += [(origins[place], Reject(reason)) for place, reason in outcome.refused]
        reasons = [reject.reason for _, reject in rejects]
        self._model.count_rejects(reasons)
        self._metrics.learned(outcome, records[-1].written)
        self._metrics.rejected(reasons)
        self._health.rejected(rejects)
        self._letters.post(rejects, outcome.alarms)

    def _look_around(self, source: Source, *, moved: bool) -> None:
        """After each call to the log: what it passed over, where it stands, and whether it is to be left."""
        for gap in source.gaps():
            self._keeper.lost(gap)
            self._health.lost += gap.events
        self._bookmark = source.bookmark()
        if moved or not any(self._health.lag.values()):
            self._health.moved_at = time.monotonic()
        if self._renew.is_set():
            self._renew.clear()
            raise SourceDown("the log has more, but nothing comes; connecting anew")

    def _measure(self, source: Source) -> None:
        if time.monotonic() - self._lag_at >= LAG_SECONDS:
            self._lag_at = time.monotonic()
            with self._health.in_log():
                self._health.lag = source.lag()
            self._health.source_up = True

    def _disconnect(self) -> None:
        if self._source is not None:
            self._source.close()
        self._source = None
        self._letters.close()

    def _finished(self) -> bool:
        return self._until_end and self._source is not None and self._source.exhausted

    def _finish(self) -> None:
        """A last checkpoint of whatever has not had one; what cannot be written in time will be learned again."""
        self._health.ready = False
        reach("in_stop")
        if self._bookmark is None:
            return
        deadline = time.monotonic() + FINISH_SECONDS
        try:
            self._letters.deliver_before(deadline)
        except SourceDown as error:
            raise Unsaved(f"stopped without a last checkpoint: {error}") from error
        why = self._keeper.finish(named(self._log_name, self._bookmark), deadline, always=self._until_end)
        if why:
            raise Unsaved(f"stopped without a last checkpoint: {why}")
        if self._source is not None:
            self._source.settled(self._bookmark.positions)

    def _close(self) -> None:
        """However it ends: the log and the lease are let go, so that the next one need not wait."""
        self._health.ready = False
        if self._source is not None:
            with contextlib.suppress(SourceDown, SourceLost):
                self._health.lag = self._source.lag()
        self._disconnect()
        self._keeper.close()
