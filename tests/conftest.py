"""Real servers for the tests: one Redis per process, one Kafka per run, on loopback; each test
begins with empty data.
"""

import os
import uuid
import warnings
from contextlib import ExitStack
from pathlib import Path

import pytest
from redis import Redis

from service.embedded import redis as embedded_redis
from service.embedded.process import EmbeddedError
from service.kernel_cache import use_kernel_cache
from tests.examples import fix_examples
from tests.shared_broker import shared_broker
from tests.slowest import write_slowest

fix_examples()
# Set before any test module imports numba, which reads it once; no import above imports numba.
use_kernel_cache()

from tests.lanes import Lanes, in_order  # noqa: E402  # imports numba
from tests.quick import is_quick  # noqa: E402

# kafka-python reads its schemas by a function that Python 3.11 calls deprecated (3.13 no longer
# does).
with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
    from kafka import KafkaAdminClient


def pytest_addoption(parser):
    parser.addoption(
        "--quick", action="store_true", help="only tests that need no server and little time"
    )


def pytest_itemcollected(item):
    """Mark each test that uses the fixture, so that `-m "not kafka"` deselects all of them."""
    for name in ("kafka", "data"):
        if name in item.fixturenames:
            item.add_marker(name)


def pytest_xdist_make_scheduler(config, log):
    return Lanes(config, log)


def pytest_collection_modifyitems(config, items):
    if config.getoption("--quick"):
        config.hook.pytest_deselected(items=[item for item in items if not is_quick(item)])
        items[:] = filter(is_quick, items)
    items[:] = in_order(items)


def pytest_terminal_summary(terminalreporter, config):
    write_slowest(terminalreporter, config)


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory):
    """The run's RedisServer. A test that kills a server starts its own."""
    with embedded_redis.redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def redis_url(redis_server):
    with Redis.from_url(redis_server.url) as client:
        client.flushdb()
    return redis_server.url


@pytest.fixture(scope="session")
def system_redis():
    """The path of the system's redis-server: newer than the packaged one, and with TLS."""
    found = [
        path
        for path in ("/usr/bin/redis-server", "/usr/local/bin/redis-server")
        if Path(path).exists()
    ]
    if not found and os.environ.get("CI") == "true":
        pytest.fail("no redis-server with TLS: apt-get install redis-server", pytrace=False)
    if not found:
        pytest.skip("TLS TO REDIS WAS NOT TESTED: apt-get install redis-server")
    return found[0]


@pytest.fixture(scope="session")
def kafka(request, tmp_path_factory):
    """The run's KafkaBroker, shared by all its processes. A test that kills a broker starts its
    own.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    stack = ExitStack()
    try:
        broker = stack.enter_context(shared_broker(folder / "kafka"))
    except EmbeddedError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error), pytrace=False)
        pytest.skip(f"KAFKA WAS NOT TESTED: {str(error).splitlines()[0]}")
    # Not in the teardown of the last test: stopping waits minutes for the other processes.
    request.config.add_cleanup(stack.close)
    return broker


@pytest.fixture
def make_topic(kafka):
    """`make_topic(partitions=1)` creates a topic of a new name and returns
    `kafka://HOST:PORT/TOPIC`.
    """
    made = []

    # Each step opens a new client: an open one would back off after a test that kills the broker.
    def make(partitions=1):
        topic = f"test-{uuid.uuid4().hex}"
        options = {"num_partitions": partitions, "replication_factor": 1}
        with KafkaAdminClient(bootstrap_servers=kafka.bootstrap) as admin:
            admin.create_topics({topic: options}, wait_for_metadata=True)
        made.append(topic)
        return f"kafka://{kafka.bootstrap}/{topic}"

    yield make
    if made:
        with KafkaAdminClient(bootstrap_servers=kafka.bootstrap) as admin:
            admin.delete_topics(made)


@pytest.fixture
def topic(make_topic):
    return make_topic()


@pytest.fixture(scope="session")
def data():
    """The folder of the data sets."""
    folder = os.environ.get("ONEPASS_DATA")
    if not folder:
        pytest.skip("set ONEPASS_DATA to the folder of the data sets")
    return Path(folder)
