"""One Kafka broker for all the processes of a test run."""

import fcntl
from contextlib import ExitStack, contextmanager

from service.embedded.kafka import KafkaBroker, kafka_broker


@contextmanager
def shared_broker(folder):
    """The first process that asks starts the broker in this folder, and stops it after the last one
    has left. It is nobody's to kill: it has no pid.
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
            fcntl.flock(users, fcntl.LOCK_EX)  # granted when every other process has closed it
