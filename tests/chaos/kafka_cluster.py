"""A Kafka of one controller and two brokers; each can be killed and restarted."""

import base64
import shutil
import subprocess
import uuid
from contextlib import contextmanager

from service.embedded.kafka import LOGGING, STARTED, jars
from service.embedded.process import HOST, ServerProcess, free_port

COMMON = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "log.retention.ms": -1,
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 1,
    "broker.session.timeout.ms": 2000,
    "broker.heartbeat.interval.ms": 200,
    "replica.lag.time.max.ms": 2000,
    "controller.quorum.election.timeout.ms": 100,
    "unclean.leader.election.enable": "true",
    "unclean.leader.election.interval.ms": 1000,
}


class Cluster:
    """The nodes by their ids: 1 is the controller, 2 and 3 are brokers."""

    def __init__(self, nodes, ports):
        self.nodes = nodes
        self.bootstrap = ",".join(f"{HOST}:{ports[node]}" for node in nodes if node != 1)


@contextmanager
def kafka_cluster(folder):
    ports = {}
    while len(ports) < 3:
        port = free_port()
        if port not in ports.values():
            ports[len(ports) + 1] = port
    identity = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
    nodes = {number: _node(folder / f"node-{number}", number, ports, identity) for number in ports}
    try:
        for node in nodes.values():
            node.start()
        yield Cluster(nodes, ports)
    finally:
        for node in reversed(nodes.values()):
            node.kill()


def _node(folder, number, ports, identity):
    folder.mkdir(parents=True)
    role, listener = ("controller", "CONTROLLER") if number == 1 else ("broker", "PLAINTEXT")
    settings = COMMON | {
        "process.roles": role,
        "node.id": number,
        "listeners": f"{listener}://{HOST}:{ports[number]}",
        "advertised.listeners": f"{listener}://{HOST}:{ports[number]}",
        "controller.quorum.bootstrap.servers": f"{HOST}:{ports[1]}",
        "log.dirs": folder / "data",
    }
    properties = folder / "server.properties"
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    run = [
        shutil.which("java"),
        "-Xmx400m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        *LOGGING,
    ]
    run += ["-cp", f"{jars()}/*"]
    form = "--standalone" if number == 1 else "--no-initial-controllers"
    formatting = [
        "kafka.tools.StorageTool",
        "format",
        form,
        f"--cluster-id={identity}",
        f"--config={properties}",
    ]
    subprocess.run([*run, *formatting], check=True, capture_output=True)
    command = [*run, "kafka.Kafka", str(properties)]
    return ServerProcess("Kafka", command, folder / "kafka.log", lambda logged: STARTED in logged)
