"""A real Apache Kafka broker: one KRaft node run from its Maven jars on 127.0.0.1.

Invariant: a jar folder under its final name is whole: it gets that name only when Maven has succeeded.
"""

import base64
import logging
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from service.embedded.process import HOST, EmbeddedError, ServerProcess, free_port, tail
from service.kernel_cache import cache_root

VERSION = "4.3.1"
BOOTSTRAP = "KAFKA_BOOTSTRAP"
STARTED = b"Kafka Server started"
LISTENERS = {"listeners", "advertised.listeners"}

POM = f"""<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>onepass</groupId>
  <artifactId>embedded-kafka</artifactId>
  <version>{VERSION}</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{VERSION}</version>
    </dependency>
    <!-- The backend of the slf4j-api that this Kafka brings. -->
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-simple</artifactId>
      <version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"""

# Warnings only, and the one line that says that the broker serves.
LOGGING = [
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS",
]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class KafkaBroker:
    """A broker of ours, or without `process` the one that KAFKA_BOOTSTRAP names, which is left alone."""

    bootstrap: str
    process: ServerProcess | None = None

    @property
    def pid(self) -> int | None:
        return None if self.process is None else self.process.pid

    def start(self) -> None:
        """Start again on the same folder and port."""
        self._ours().start()

    def stop(self) -> None:
        self._ours().stop()

    def kill(self) -> None:
        self._ours().kill()

    def _ours(self) -> ServerProcess:
        if self.process is None:
            raise EmbeddedError(f"{BOOTSTRAP} names the broker {self.bootstrap}, which is not ours to start or stop")
        return self.process


@contextmanager
def kafka_broker(
    folder: Path, *, advertised: int | None = None, extra: Mapping[str, str] | None = None
) -> Iterator[KafkaBroker]:
    """Run a broker on `folder` and stop it at the end; with KAFKA_BOOTSTRAP set, only name that one.

    `advertised` is the port that clients are sent to, if something stands in front of the broker. `extra` are
    settings of a broker to be made, always one of ours: listeners among them stand beside the plain one.
    """
    theirs = os.environ.get(BOOTSTRAP)
    if theirs and advertised is None and extra is None:
        yield KafkaBroker(theirs)
        return
    broker = _prepare(folder.resolve(), advertised, extra or {})
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def jars() -> Path:
    """The folder of Kafka's jars, fetched by Maven when it is not there yet."""
    cache = cache_root()
    whole = cache / f"kafka-{VERSION}"
    if whole.is_dir():
        return whole
    maven = _tool("mvn", "Maven (mvn)")
    cache.mkdir(parents=True, exist_ok=True)
    _log.info("fetching Kafka %s into %s, once", VERSION, whole)
    with tempfile.TemporaryDirectory(prefix=f"{whole.name}.", dir=cache) as aside:
        pom, fetched = Path(aside, "pom.xml"), Path(aside, "jars")
        pom.write_text(POM)
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={fetched}"]
        done = subprocess.run(
            [maven, "-q", "-B", "-f", str(pom), *goal],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if done.returncode != 0:
            raise EmbeddedError(f"Maven cannot fetch Kafka {VERSION}: mend it or set {BOOTSTRAP}:\n{tail(done.stdout)}")
        try:
            fetched.rename(whole)
        except OSError:
            # Another process was first; its folder is as whole as this one.
            if not whole.is_dir():
                raise
    return whole


def _prepare(folder: Path, advertised: int | None, extra: Mapping[str, str]) -> KafkaBroker:
    """The broker of `folder`, not started; formats it unless it is, and a formatted one keeps its ports."""
    java = _tool("java", "a Java 17 runtime (java)")
    run = [
        java,
        "-Xmx1g",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",  # short-lived: quick to start counts more than the last bit of speed
        *LOGGING,
        "-cp",
        f"{jars()}/*",
    ]
    properties, data, address = folder / "server.properties", folder / "data", folder / "bootstrap"
    if not (data / "meta.properties").exists():  # the formatter writes this file last
        folder.mkdir(parents=True, exist_ok=True)
        port = free_port()
        address.write_text(f"{HOST}:{port}")
        settings = _settings(data, port, free_port(other_than=port), advertised or port)
        for key, value in extra.items():
            settings[key] = f"{settings[key]},{value}" if key in LISTENERS else value
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        formatting = ["kafka.tools.StorageTool", "format", "--standalone", f"--cluster-id={cluster}"]
        done = subprocess.run(
            [*run, *formatting, f"--config={properties}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if done.returncode != 0:
            raise EmbeddedError(f"Kafka could not format {data}; it says:\n{tail(done.stdout)}")
    server = ServerProcess(
        "Kafka",
        [*run, "kafka.Kafka", str(properties)],
        folder / "kafka.log",
        lambda logged: STARTED in logged,
    )
    return KafkaBroker(address.read_text(), server)


def _settings(data: Path, port: int, controller: int, advertised: int) -> dict[str, object]:
    return {
        "process.roles": "broker,controller",
        "node.id": 1,
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{advertised}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"{HOST}:{controller}",
        "log.dirs": data.as_posix(),
        "auto.create.topics.enable": "false",
        "num.partitions": 1,
        # Events keep the time they happened at, which may be years ago: never delete by age.
        "log.retention.ms": -1,
        "group.initial.rebalance.delay.ms": 0,
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 1,
        # One node elects itself: waiting for others to vote first is lost time.
        "controller.quorum.election.timeout.ms": 100,
        # After a kill the node is refused until its former life has timed out: 9 s unless told.
        "broker.session.timeout.ms": 2000,
        "broker.heartbeat.interval.ms": 200,
    }


def _tool(name: str, what: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise EmbeddedError(f"the embedded Kafka needs {what}: install it, or set {BOOTSTRAP} to a running broker")
    return path
