"""Records polled from a source until there are enough."""

import time

SECONDS = 20


def take(source, count, most=7):
    """The next `count` records, polled `most` at a time."""
    deadline = time.monotonic() + SECONDS
    records = []
    while len(records) < count:
        assert time.monotonic() < deadline, f"{len(records)} of {count} records"
        batch = source.poll(0.2, min(most, count - len(records)))
        assert len(batch) <= most
        records += batch
    return records


def finish(source):
    """All records up to the end that `until_end` has set."""
    deadline = time.monotonic() + SECONDS
    records = []
    while not source.at_end:
        assert time.monotonic() < deadline, "not exhausted"
        records += source.poll(0.2, 7)
    assert source.poll(0, 7) == []
    return records


def values(records):
    return [record.value for record in records]
