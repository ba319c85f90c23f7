"""The dead-letter log of a life."""

from service.sources import open_source
from tests.chaos.events import BAD
from tests.integration.processes import wait_for


def expected(life):
    """How often each bad message was fed."""
    return {text: life.messages.count(text) for _, text in BAD}


def kept(life):
    """How often each is in the dead-letter log; waits for as many as were fed."""
    least = sum(expected(life).values())
    source = open_source(f"{life.log}.dead", "earliest")
    letters = []
    wait_for(lambda: letters.extend(source.poll(0.5, 1000)) or len(letters) >= least, 20, f"{least} dead letters")
    while more := source.poll(0.5, 1000):
        letters += more
    source.close()
    values = [letter.value for letter in letters]
    return {text: values.count(text) for text in expected(life)}
