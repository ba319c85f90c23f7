"""The dead-letter log of a life."""

from service.sources import open_source
from tests.chaos.events import BAD
from tests.integration.processes import wait_for


def count_fed(life):
    """How often each bad message was fed."""
    return {text: life.messages.count(text) for _, text in BAD}


def count_found(life):
    """How often each is in the dead-letter log; waits for as many as were fed."""
    least = sum(count_fed(life).values())
    source = open_source(f"{life.log}.dead", "earliest")
    records = []
    wait_for(
        lambda: records.extend(source.poll(0.5, 1000)) or len(records) >= least,
        20,
        f"{least} dead letters",
    )
    while more := source.poll(0.5, 1000):
        records += more
    source.close()
    values = [letter.value for letter in records]
    return {text: values.count(text) for text in count_fed(life)}
