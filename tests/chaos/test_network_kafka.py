"""The network between a learner and Kafka: its own broker, behind a proxy; only in `make chaos`."""

from service.embedded.kafka import kafka_broker
from service.embedded.process import free_port
from tests.chaos.network_faults import suffer
from tests.chaos.proxy import run_proxy

FETCH = b"\x00\x01"
"""The number of Kafka's fetch request, after four bytes of length."""


def is_fetch(request):
    return request[4:6] == FETCH


def test_faults_of_the_link_to_kafka_change_nothing(make_life, redis_url, tmp_path, record_figures):
    port = free_port()
    with (
        kafka_broker(tmp_path / "kafka", advertised=port) as broker,
        run_proxy(int(broker.bootstrap.rpartition(":")[2]), port) as proxy,
    ):
        life = make_life(f"kafka://127.0.0.1:{port}/events", redis_url, "broker")
        answered = suffer(life, proxy, is_fetch)
    record_figures(
        "network to Kafka: cut, silent, slow, reset, reply lost",
        different=0,
        predictions=answered,
        failed=0,
    )
