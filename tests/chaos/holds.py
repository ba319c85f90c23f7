"""Ways to keep a learner from its log while others write to the log."""

import signal
from contextlib import closing, contextmanager

from redis import Redis

from service.config.settings import StoreSettings
from service.storage import RedisStore
from tests.waiting import wait_for

MOST_AHEAD = 400
"""Events that the learner may be ahead of its checkpoint; few, so that it pauses soon."""
CHECKPOINT = {"max_uncheckpointed_events": MOST_AHEAD}


@contextmanager
def running(life, process):
    """The learner is not held."""
    del life, process
    yield


@contextmanager
def stopped(life, process):
    del life
    process.signal(signal.SIGSTOP)
    yield
    process.signal(signal.SIGCONT)


@contextmanager
def frozen(life, process):
    with closing(RedisStore(StoreSettings(url=life.store), life.name)) as operator:
        operator.freeze()
        wait_for(lambda: process.get("/status")[1]["frozen"], "the learner is frozen")
        yield
        operator.unfreeze()


@contextmanager
def without_lease(life, process):
    """Another learner holds the lease, and then gives it back."""
    lease = f"{{m:{life.name}}}:lease"
    with Redis.from_url(life.store) as client:
        client.set(lease, "another:60000", px=60_000)
        wait_for(lambda: process.metrics().get("lease_held") == 0, "the learner stands by")
        yield
        client.delete(lease)


@contextmanager
def paused(life, process):
    """The store refuses checkpoints, so learning pauses."""
    with Redis.from_url(life.store) as client:
        client.config_set("maxmemory", 1)
        try:
            life.feed(2 * MOST_AHEAD)
            wait_for(lambda: pause_reason(process), "learning pauses")
            yield
        finally:
            client.config_set("maxmemory", 0)


def pause_reason(process):
    """Return why learning pauses, from /status; empty while the learner learns."""
    trouble = process.get("/status")[1]["waiting_for"]
    return trouble if "learning pauses" in trouble else ""
