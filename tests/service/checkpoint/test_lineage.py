"""The history records which events were applied in which order, whatever the timing of polls,
crashes and checkpoints.
"""

import hashlib
import itertools
import zlib
from collections import defaultdict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.checkpoint import lineage as module
from service.checkpoint.lineage import (
    Frozen,
    Lineage,
    LineageError,
    Lost,
    Recorder,
    Rolled,
    Run,
    gather_segments,
    history,
    segments_of,
)
from service.sources.base import Gap, Record
from tests.examples import examples
from tests.looped import looped

some = examples(150)


@st.composite
def logs(draw):
    """Records of up to three partitions in the order they were applied; positions have gaps, as in
    a compacted log.
    """
    order = draw(
        st.lists(
            st.tuples(st.sampled_from("012"), st.integers(1, 3), st.binary(max_size=4)), max_size=60
        )
    )
    at = dict.fromkeys("012", 0)
    records = []
    for partition, step, value in order:
        position = at[partition] + step
        at[partition] = position + 1
        records.append(Record(partition, str(position), str(position + 1), value))
    return records


def cut(records, places):
    edges = [0, *sorted(place % (len(records) + 1) for place in places), len(records)]
    return [records[first:last] for first, last in itertools.pairwise(edges)]


def record_polls(polls, sealed_after=10_000, *, checkpoints=False):
    """Return the lineage after these polls, and every sealed segment. With `checkpoints` the
    process dies after each poll.
    """
    recorder, store = Recorder(Lineage()), {}
    recorder.set_starts(dict.fromkeys("012", "0"))
    ends = dict.fromkeys("012", "0")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SEALED_AFTER", sealed_after)
        for poll in polls:
            recorder.record_applied(poll)
            ends |= {record.partition: record.after for record in poll}
            if checkpoints:
                lineage, segments = recorder.lineage()
                store |= segments
                recorder = Recorder(lineage)
                recorder.set_starts(ends)
        lineage, segments = recorder.lineage()
    return lineage, store | segments


def read_back(lineage, segments, records):
    """Return the records of the runs, read from the log itself."""
    partitions = defaultdict(list)
    for record in records:
        partitions[record.partition].append(record)
    found = []
    for run in history(lineage, segments.get):
        taken = partitions[run.partition][: run.records]
        del partitions[run.partition][: run.records]
        assert int(run.start) <= int(taken[0].position)
        assert taken[-1].after == run.end
        found += taken
    assert not any(partitions.values())
    return found


@some
@given(logs(), st.lists(st.integers(0, 100)), st.integers(1, 5), st.booleans())
def test_any_cut_into_polls_gives_the_same_history(records, places, sealed_after, checkpoints):
    lineage, segments = record_polls(cut(records, places), sealed_after, checkpoints=checkpoints)
    assert (lineage, segments) == record_polls([records], sealed_after)
    assert lineage.checksum == zlib.crc32(b"".join(record.value for record in records))
    assert len(lineage.entries) <= sealed_after
    assert read_back(lineage, segments, records) == records


@some
@given(logs())
def test_runs_are_as_long_as_possible(records):
    entries = record_polls([[record] for record in records])[0].entries
    assert sum(run.records for run in entries) == len(records)
    assert all(one.partition != next_one.partition for one, next_one in itertools.pairwise(entries))


def test_another_order_gives_another_checksum():
    records = [Record("0", "0", "1", b"a"), Record("1", "0", "1", b"b")]
    assert record_polls([records])[0] != record_polls([records[::-1]])[0]
    assert record_polls([records])[0].checksum != record_polls([records[::-1]])[0].checksum


def test_segments_are_returned_until_they_are_stored(monkeypatch):
    monkeypatch.setattr(module, "SEALED_AFTER", 1)
    recorder = Recorder(Lineage())
    recorder.record_applied([Record("0", "0", "1", b""), Record("1", "0", "1", b"")])
    _, first = recorder.lineage()
    assert recorder.lineage()[1] == first != {}
    recorder.record_applied([Record("0", "1", "2", b"")])
    _, both = recorder.lineage()
    assert both.items() > first.items()
    recorder.mark_stored(first)
    assert recorder.lineage()[1].keys() == both.keys() - first.keys()


def test_an_entry_that_is_no_record_ends_a_run():
    recorder = Recorder(Lineage())
    recorder.record_applied([Record("0", "0", "1", b"a")])
    recorder.record_lost(Gap("0", "1", "5", 4, "retention"))
    recorder.record_applied([Record("0", "5", "6", b"b")])
    recorder.note(Frozen(3, 1.0, 2.0))
    recorder.record_applied([Record("0", "6", "7", b"c")])
    lineage, _ = recorder.lineage()
    assert lineage.entries == (
        Run("0", "0", "1", 1),
        Lost("0", "1", "5", 4, "retention"),
        Run("0", "5", "6", 1),
        Frozen(3, 1.0, 2.0),
        Run("0", "6", "7", 1),
    )
    assert msgspec.json.decode(msgspec.json.encode(lineage), type=Lineage) == lineage


@pytest.fixture
def chain():
    """A lineage of ten runs in five segments of two; one more entry is open."""
    records = [Record("01"[n % 2], str(n // 2), str(n // 2 + 1), bytes([n])) for n in range(11)]
    return *record_polls([records], 2), records


def names(lineage, segments):
    """Return the segments' names, newest first."""
    found = list(segments_of(lineage, segments.get))
    assert set(found) == set(segments)
    return found


def test_a_rollback_keeps_the_chain_of_segments(chain, monkeypatch):
    """After a rollback the history is that of the earlier generation and what follows it; the
    segments are shared.
    """
    lineage, segments, records = chain
    earlier, shared = record_polls([records[:7]], 2)
    assert shared.items() < segments.items()
    monkeypatch.setattr(module, "SEALED_AFTER", 2)
    recorder = Recorder(earlier)
    recorder.set_starts({"0": "6", "1": "5"})
    recorder.note(Rolled(3, 5, 9.0))
    recorder.note(Lost("0", "4", "6", 2, "rolled_back"))
    recorder.record_applied([Record("0", "6", "7", b"new")])
    new, more = recorder.lineage()
    found = list(history(new, (shared | more).get))
    runs = [entry for entry in history(earlier, shared.get) if isinstance(entry, Run)]
    assert found == [
        *runs,
        Rolled(3, 5, 9.0),
        Lost("0", "4", "6", 2, "rolled_back"),
        Run("0", "6", "7", 1),
    ]
    assert new.checksum == zlib.crc32(b"new", earlier.checksum)
    assert read_back(lineage, segments, records) == records


@pytest.mark.parametrize("which", range(5))
@pytest.mark.parametrize("flip", [None, 0x01, 0xFF])
def test_a_lost_or_damaged_segment_is_named(chain, which, flip):
    lineage, segments, _ = chain
    order = names(lineage, segments)
    damaged = dict(segments)
    if flip is None:
        del damaged[order[which]]
    else:
        changed = bytearray(segments[order[which]])
        changed[len(changed) // 2] ^= flip
        damaged[order[which]] = bytes(changed)
    with pytest.raises(LineageError, match=order[which][:12]):
        list(history(lineage, damaged.get))
    assert list(segments_of(lineage, damaged.get)) == order[:which]
    assert order[which][:12] in gather_segments(lineage, damaged.get)[1]
    assert gather_segments(lineage, segments.get) == (segments, "")


OTHER_FORMS = [
    b"",
    b"no zlib",
    *map(
        zlib.compress,
        (
            b"{}",
            b'["", [["walk", 1]]]',
            b'["\xff", []]',
            b'["../x", []]',
            b'["%s\n", []]' % (b"0" * 64),
            b'["", [["run", "0", "0", "%s", 1]]]' % (b"9" * 1001),
            b'["", [["run", "0", "0", "1", -1]]]',
            b'["", [["run", "0", "0", "1", %s]]]' % (b"9" * 30),
        ),
    ),
]


@looped("content", OTHER_FORMS)
def test_a_segment_of_another_form_is_refused(content):
    name = hashlib.sha256(content).hexdigest()
    with pytest.raises(LineageError, match=name[:12]):
        list(history(Lineage(name), {name: content}.get))


def test_a_segment_that_would_fill_the_memory_is_refused(monkeypatch):
    monkeypatch.setattr(module, "LONGEST_SEGMENT", 1000)
    content = zlib.compress(b'["", [' + b" " * 100_000 + b"]]")
    name = hashlib.sha256(content).hexdigest()
    with pytest.raises(LineageError):
        list(history(Lineage(name), {name: content}.get))
