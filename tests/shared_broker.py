"""One Kafka broker for all the processes of a test run."""

import fcntl
from contextlib import ExitStack, contextmanager

from service.embedded.kafka import KafkaBroker, kafka_broker


@contextmanager
def shared_broker(folder):
    """Share one broker. The first process starts it in this folder, and stops it after the last one
    has left. No process may kill it: its pid is not shared.
    """
    folder.mkdir(exist_ok=True)
    bootstrap = folder / "bootstrap"
    with ExitStack() as mine, (folder / "users").open("a") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        with (folder / "start").open("a") as start:
            fcntl.flock(start, fcntl.LOCK_EX)
            started_here = not bootstrap.exists()
            if started_here:
                broker = mine.enter_context(kafka_broker(folder / "broker"))
                bootstrap.write_text(broker.bootstrap)
        yield KafkaBroker(bootstrap.read_text())
        if started_here:
            fcntl.flock(users, fcntl.LOCK_EX)  # granted once every other process closed it
