"""Real servers for the tests: one Redis and one Kafka per run, on loopback, fresh state
per test.
"""

import os
import uuid
import warnings
from pathlib import Path

import pytest
from redis import Redis

from service.embedded import redis as embedded_redis
from service.embedded.kafka import kafka_broker
from service.embedded.process import EmbeddedError
from service.kernel_cache import cache_root, use_kernel_cache
from tests.parts import ALONE, BESIDE, group, in_part

# Two processes that compile one kernel for different types at the same time may each overwrite what
# the other has kept. So each worker of those that run side by side has a folder of its own, beside
# the common one.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["ONEPASS_CACHE_DIR"] = str(
        cache_root() / "tests" / os.environ["PYTEST_XDIST_WORKER"]
    )
# Before any test module imports numba, which reads this once; nothing imported above does.
use_kernel_cache()

# kafka-python reads its schemas by a function that Python 3.11 calls deprecated (3.13 no longer
# does).
with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
    from kafka import KafkaAdminClient

NO_KAFKA = pytest.StashKey[str]()


def pytest_addoption(parser):
    parser.addoption(
        "--part", choices=(BESIDE, ALONE), help="only these tests; `make test` runs both parts"
    )


def pytest_collection_modifyitems(config, items):
    """Whoever uses the fixture carries the marker, so that `-m "not kafka"` leaves none out."""
    for item in items:
        for name in ("kafka", "data"):
            if name in item.fixturenames:
                item.add_marker(name)
    part = config.getoption("--part")
    if part is not None:
        config.hook.pytest_deselected(items=[item for item in items if not in_part(item, part)])
        items[:] = [item for item in items if in_part(item, part)]
    if part == BESIDE:
        for item in items:
            item.add_marker(pytest.mark.xdist_group(group(item)))


def pytest_terminal_summary(terminalreporter, config):
    why = config.stash.get(NO_KAFKA, None)
    if why is not None:
        terminalreporter.write_line(f"KAFKA TESTS DID NOT RUN: {why}", red=True, bold=True)


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory):
    """The run's RedisServer; a test that kills a server starts its own."""
    with embedded_redis.redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def redis_url(redis_server):
    with Redis.from_url(redis_server.url) as client:
        client.flushdb()
    return redis_server.url


@pytest.fixture(scope="session")
def system_redis():
    """The system's redis-server: newer than the packaged one, and with TLS."""
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
    """The run's KafkaBroker; a test that kills it starts it again, and skips when it is not ours
    (no pid).
    """
    broker = kafka_broker(tmp_path_factory.mktemp("kafka"))
    try:
        started = broker.__enter__()
    except EmbeddedError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error), pytrace=False)
        why = str(error).partition("\n")[0]
        request.config.stash[NO_KAFKA] = why
        pytest.skip(why)
    yield started
    broker.__exit__(None, None, None)


@pytest.fixture
def make_topic(kafka):
    """`make_topic(partitions=1)` creates a topic of a new name and returns
    `kafka://HOST:PORT/TOPIC`.
    """
    made = []

    # A client of its own for each step: one kept open would back off after a test that kills the
    # broker.
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
