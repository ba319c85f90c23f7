"""Count the entries of a life's dead-letter log."""

from service.sources import open_source
from tests.chaos.events import BAD
from tests.waiting import wait_for


def count_fed(life):
    """Return how often each bad message was fed."""
    return {text: life.messages.count(text) for _, text in BAD}


def count_found(life):
    """Return how often each bad message is in the dead-letter log, once nobody writes to it."""
    source = open_source(f"{life.log}.dead", "earliest")
    source.stop_at_end()
    records = []
    wait_for(
        lambda: records.extend(source.poll(0.5, 1000)) or source.at_end, "the last dead letter"
    )
    source.close()
    values = [letter.value for letter in records]
    return {text: values.count(text) for text in count_fed(life)}
