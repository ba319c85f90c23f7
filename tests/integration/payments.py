"""A payment to ask about, and a function that appends events to a log."""

from service.sources import open_sink
from service.sources.base import Entry

PAYMENT = b'{"features": {"amount": 420.5, "attempts": 6, "country": "br"}}'


def fill(url, events):
    sink = open_sink(url)
    for first in range(0, len(events), 1000):
        sink.append([Entry(event) for event in events[first : first + 1000]])
    sink.close()
