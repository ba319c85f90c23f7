"""The offsets at which reading resumes, decided from the broker's answers: every loss, every
policy, any numbers.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.sources.base import Gap, SourceLostError
from service.sources.kafka.client import Bounds, Message
from service.sources.kafka.resume import (
    TopicState,
    anchor_offset,
    make_anchor,
    merge_identities,
    resolve_positions,
    same_topic,
)
from tests.looped import looped

ME = "cluster/topic"
NONE = frozenset()


def resume(at, bounds, on_data_loss="fail", identity=ME, now=ME, strange=NONE):
    return resolve_positions(
        "t", {0: at}, identity, TopicState(now, {0: bounds}, strange), on_data_loss
    )


@given(
    first=st.integers(0, 50),
    size=st.integers(0, 50),
    at=st.integers(0, 120),
    policy=st.sampled_from(["earliest", "latest"]),
)
def test_reading_resumes_at_the_offset_or_reports_the_exact_gap(first, size, at, policy):
    bounds = Bounds(first, first + size)
    if bounds.first <= at <= bounds.last:
        assert resume(at, bounds) == ({0: at}, [])
        return
    with pytest.raises(
        SourceLostError, match=f"wanted {at}, it holds {bounds.first} to {bounds.last}"
    ):
        resume(at, bounds)
    target = bounds.first if policy == "earliest" else bounds.last
    positions, (gap,) = resume(at, bounds, policy)
    assert positions == {0: target}
    missing = len(set(range(at, target)))
    assert gap == Gap(
        "0", str(at), str(target), missing, "retention" if at < first else "truncated"
    )


@looped(("policy", "target"), [("earliest", 3), ("latest", 9)])
@looped(
    ("identity", "now", "strange", "reason"),
    [
        (ME, "other/topic", NONE, "recreated"),
        (ME, "cluster/other", NONE, "recreated"),
        ("", ME, frozenset({0}), "recreated"),
        (ME, ME, frozenset({0}), "truncated"),
    ],
)
def test_another_log_is_noticed_though_it_has_the_offset(
    policy, target, identity, now, strange, reason
):
    with pytest.raises(
        SourceLostError, match="another topic" if reason == "recreated" else "cut off"
    ):
        resume(5, Bounds(3, 9), "fail", identity, now, strange)
    positions, (gap,) = resume(5, Bounds(3, 9), policy, identity, now, strange)
    assert positions == {0: target}
    assert gap[:3] == ("0", "5", str(target))
    assert gap.reason == reason
    if reason == "recreated":
        assert gap.events == 0


def test_partitions_of_a_recreated_topic_start_by_the_policy():
    """One partition is gone and two are new; the new ones follow the policy, too."""
    seen = TopicState("cluster/other", {1: Bounds(0, 4), 2: Bounds(1, 6)}, NONE)
    positions, gaps = resolve_positions("t", {0: 7, 1: 2}, ME, seen, "earliest")
    assert positions == {1: 0, 2: 1}
    assert gaps == [Gap("0", "7", "7", 0, "recreated"), Gap("1", "2", "0", 0, "recreated")]
    assert resolve_positions("t", {0: 7, 1: 2}, ME, seen, "latest")[0] == {1: 4, 2: 6}


def test_an_identity_that_the_broker_omits_counts_as_equal():
    assert same_topic("", ME)
    assert same_topic("cluster/", ME)
    assert same_topic("/topic", ME)
    assert not same_topic("cluster/x", ME)
    assert not same_topic("x/topic", ME)


def test_a_known_identity_is_kept_when_the_broker_omits_it():
    assert merge_identities("", "cluster/") == "cluster/"
    assert merge_identities(ME, "cluster/") == ME
    assert merge_identities("cluster/", ME) == ME
    assert merge_identities(ME, "cluster/other") == "cluster/other"


def test_an_anchor_depends_on_every_part_of_its_record():
    record = Message(0, 7, 100, b"k", b"v")
    others = [
        record._replace(offset=8),
        record._replace(timestamp=101),
        record._replace(key=b"l"),
        record._replace(value=b"w"),
    ]
    assert len({make_anchor(message) for message in (record, *others)}) == 5
    assert make_anchor(record) == make_anchor(record._replace(partition=3))
    assert anchor_offset(make_anchor(record)) == 7
    assert anchor_offset("") is None
    assert anchor_offset("garbage") is None
