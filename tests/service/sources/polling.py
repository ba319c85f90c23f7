"""Poll a source until there are enough records."""

from tests.waiting import wait_for


def take(source, count, most=7):
    """Return the next `count` records, polled `most` at a time."""
    records = []

    def enough():
        if len(records) < count:
            batch = source.poll(0.2, min(most, count - len(records)))
            assert len(batch) <= most
            records.extend(batch)
        return len(records) >= count

    wait_for(enough, f"{count} records")
    return records


def finish(source):
    """Return all records up to the end that `stop_at_end` has set."""
    records = []

    def ended():
        if not source.at_end:
            records.extend(source.poll(0.2, 7))
        return source.at_end

    wait_for(ended, "the end")
    assert source.poll(0, 7) == []
    return records


def values(records):
    return [record.value for record in records]
