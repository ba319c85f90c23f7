"""A real Apache Kafka broker: one KRaft node run from its Maven jars on 127.0.0.1.

Invariant: a jar folder with its final name is complete, because Maven's success comes first.
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

# Only warnings, and the one line that says that the broker is ready.
LOGGING = [
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS",
]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class KafkaBroker:
    """A broker of ours; without `process` the one at KAFKA_BOOTSTRAP, which we never stop."""

    bootstrap: str
    process: ServerProcess | None = None

    @property
    def pid(self) -> int | None:
        return None if self.process is None else self.process.pid

    def start(self) -> None:
        """Restart on the same folder and port."""
        self._own_process().start()

    def stop(self) -> None:
        self._own_process().stop()

    def kill(self) -> None:
        self._own_process().kill()

    def _own_process(self) -> ServerProcess:
        if self.process is None:
            raise EmbeddedError(
                f"the broker {self.bootstrap} comes from {BOOTSTRAP}: "
                "it cannot be started or stopped here"
            )
        return self.process


@contextmanager
def kafka_broker(
    folder: Path, *, advertised: int | None = None, extra: Mapping[str, str] | None = None
) -> Iterator[KafkaBroker]:
    """Run a broker on `folder` and stop it at the end; with KAFKA_BOOTSTRAP set, return that one.

    `advertised`: the port that clients connect to, if a proxy stands in front of the broker.
    `extra`: further settings; with them a broker of ours is started in any case. Listeners in
    `extra` are added to the plain one.
    """
    given = os.environ.get(BOOTSTRAP)
    if given and advertised is None and extra is None:
        yield KafkaBroker(given)
        return
    broker = _prepare(folder.resolve(), advertised, extra or {})
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def jars() -> Path:
    """Return the folder of Kafka's jars; Maven downloads them the first time."""
    cache = cache_root()
    folder = cache / f"kafka-{VERSION}"
    if folder.is_dir():
        return folder
    maven = _find_tool("mvn", "Maven (mvn)")
    cache.mkdir(parents=True, exist_ok=True)
    _log.info("downloading Kafka %s to %s; this happens once", VERSION, folder)
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}.", dir=cache) as temporary:
        pom, fetched = Path(temporary, "pom.xml"), Path(temporary, "jars")
        pom.write_text(POM)
        goal = [
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
            f"-DoutputDirectory={fetched}",
        ]
        maven_run = subprocess.run(
            [maven, "-q", "-B", "-f", str(pom), *goal],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if maven_run.returncode != 0:
            raise EmbeddedError(
                f"Maven cannot download Kafka {VERSION}: repair it or set {BOOTSTRAP}:\n"
                f"{tail(maven_run.stdout)}"
            )
        try:
            fetched.rename(folder)
        except OSError:
            # Another process was faster; its folder is complete too.
            if not folder.is_dir():
                raise
    return folder


def _prepare(folder: Path, advertised: int | None, extra: Mapping[str, str]) -> KafkaBroker:
    """Return the broker of `folder`, not started; a new folder is formatted first."""
    java = _find_tool("java", "a Java 17 runtime (java)")
    java_command = [
        java,
        "-Xmx1g",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",  # a short-lived JVM: start-up time matters most
        *LOGGING,
        "-cp",
        f"{jars()}/*",
    ]
    properties = folder / "server.properties"
    if not (folder / "data" / "meta.properties").exists():  # the formatter writes this file last
        _format(java_command, folder, advertised, extra)
    server = ServerProcess(
        "Kafka",
        [*java_command, "kafka.Kafka", str(properties)],
        folder / "kafka.log",
        lambda logged: STARTED in logged,
    )
    return KafkaBroker((folder / "bootstrap").read_text(), server)


def _format(
    java_command: list[str], folder: Path, advertised: int | None, extra: Mapping[str, str]
) -> None:
    """Write the settings of a new broker and format its data folder."""
    data = folder / "data"
    properties = folder / "server.properties"
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    (folder / "bootstrap").write_text(f"{HOST}:{port}")
    settings = _settings(data, port, free_port(other_than=port), advertised or port)
    for key, value in extra.items():
        settings[key] = f"{settings[key]},{value}" if key in LISTENERS else value
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
    formatting = ["kafka.tools.StorageTool", "format", "--standalone", f"--cluster-id={cluster}"]
    format_run = subprocess.run(
        [*java_command, *formatting, f"--config={properties}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if format_run.returncode != 0:
        raise EmbeddedError(f"Kafka could not format {data}; it says:\n{tail(format_run.stdout)}")


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
        # Events keep their own time, which may be years ago: never delete by age.
        "log.retention.ms": -1,
        "group.initial.rebalance.delay.ms": 0,
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 1,
        # A single node elects itself and need not wait for other votes.
        "controller.quorum.election.timeout.ms": 100,
        # After a kill the node is refused until its old session times out; the default is 9 s.
        "broker.session.timeout.ms": 2000,
        "broker.heartbeat.interval.ms": 200,
    }


def _find_tool(name: str, what: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise EmbeddedError(
            f"the embedded Kafka needs {what}: install it, or set {BOOTSTRAP} to a running broker"
        )
    return path
