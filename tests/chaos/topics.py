"""A Kafka topic that a test writes, reads and damages."""

import gc
import threading
from contextlib import closing

from kafka import KafkaAdminClient

from service.sources import open_sink, open_source
from service.sources.base import Entry, Options, SourceUnavailableError
from tests.waiting import wait_for


class Topic:
    """A topic of one partition, given by its URL."""

    def __init__(self, url):
        self.url = url
        self.bootstrap, self.name = url.removeprefix("kafka://").split("/")

    def append(self, *values, batches=False):
        with closing(open_sink(self.url)) as sink:
            for group in [[value] for value in values] if batches else [values]:
                sink.append([Entry(value) for value in group])

    def open(self, client, on_data_loss="fail", **options):
        return closing(
            open_source(
                self.url, "earliest", Options(client=client, on_data_loss=on_data_loss, **options)
            )
        )

    def admin(self):
        return KafkaAdminClient(bootstrap_servers=self.bootstrap)

    def recreate(self, values):
        with self.admin() as admin:
            admin.delete_topics([self.name])
            wait_for(lambda: self.name not in admin.list_topics(), "the topic is gone")
            admin.create_topics(
                {self.name: {"num_partitions": 1, "replication_factor": 1}}, wait_for_metadata=True
            )
        self.append(*values)


def numbers(first, end):
    return [b"%d" % number for number in range(first, end)]


def read(source, count):
    """Read `count` records; retry while the source is unavailable."""
    values = []

    def enough():
        try:
            values.extend(record.value for record in source.poll(0.2, count - len(values)))
        except SourceUnavailableError:
            return False
        return len(values) >= count

    wait_for(enough, f"{count} records")
    return values


def read_to_end(source):
    values = []
    wait_for(
        lambda: values.extend(record.value for record in source.poll(0.2, 100)) or source.at_end,
        "the end",
    )
    return values


def collect_sockets():
    """Wait for the clients' threads and collect garbage: kafka-python leaves refused sockets to the
    collector, and a client's thread may hold the last one for a moment.
    """
    wait_for(
        lambda: not any(thread.name.startswith("kafka-io") for thread in threading.enumerate()),
        "the clients' threads end",
    )
    gc.collect()
