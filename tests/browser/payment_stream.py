"""Append events to the stream that the page's learner reads."""

from service.sources import open_sink
from service.sources.base import Entry


def feed(url, events):
    sink = open_sink(f"{url}/payments")
    sink.append([Entry(event) for event in events])
    sink.close()
