"""`onepass produce`: append the events of a file to a topic or stream."""

import argparse
import sys
import time
from itertools import islice

from tqdm import tqdm

from service.cli.file_args import add_file_flags, scan_file
from service.cli.tables import count_words
from service.config.settings import without_password
from service.errors import SettingsError, as_settings_error
from service.files import events
from service.sources import create_log, open_sink
from service.sources.base import Entry, SourceUnavailableError

BATCH = 500
"""Events appended by one call."""


def configure(parser: argparse.ArgumentParser) -> None:
    add_file_flags(parser)
    parser.add_argument(
        "--to",
        required=True,
        metavar="URL",
        help="kafka://host:port/topic or redis://host:port/db/stream",
    )
    parser.add_argument(
        "--rate", type=float, metavar="R", help="events per second (default: no limit)"
    )
    parser.add_argument(
        "--partitions",
        type=int,
        metavar="N",
        help="partitions of the Kafka topic if it is created (default: 1)",
    )
    parser.epilog = (
        "example:\n  onepass produce payments.csv --to redis://localhost:6379/0/payments --rate 500"
    )


def execute(command: str, arguments: argparse.Namespace) -> int:
    if arguments.rate is not None and not 0.001 <= arguments.rate <= 1e9:
        raise SettingsError("--rate must be from 0.001 to 1e9 events per second")
    if arguments.partitions is not None and not (
        arguments.to.startswith("kafka:") and arguments.partitions >= 1
    ):
        raise SettingsError(
            "--partitions must be at least 1 and applies only when a Kafka topic is created"
        )
    file = scan_file(arguments.data, arguments)
    try:
        with as_settings_error():
            created = create_log(arguments.to, partitions=arguments.partitions or 1)
            sink = open_sink(arguments.to)
        _report_topic(command, arguments, created=created)
        sent, started = 0, time.monotonic()
        stream = events(file)
        batch_size = (
            BATCH if arguments.rate is None else max(1, min(BATCH, int(arguments.rate / 10)))
        )
        with tqdm(
            total=file.rows, unit=" events", disable=not sys.stderr.isatty(), file=sys.stderr
        ) as bar:
            while batch := [Entry(value) for value in islice(stream, batch_size)]:
                sink.append(batch)
                sent += len(batch)
                bar.update(len(batch))
                if arguments.rate is not None:
                    time.sleep(max(0.0, started + sent / arguments.rate - time.monotonic()))
        sink.close()
    except SourceUnavailableError as error:
        print(f"onepass {command}: {error}", file=sys.stderr)
        return 1
    print(f"{sent:,} events to {without_password(arguments.to)}")
    return 0


def _report_topic(command: str, arguments: argparse.Namespace, *, created: bool) -> None:
    topic = arguments.to.rpartition("/")[2]
    if created:
        print(f"created topic {topic} with {count_words(arguments.partitions or 1, 'partition')}")
    elif arguments.partitions is not None:
        print(
            f"onepass {command}: topic {topic} exists already: --partitions has no effect",
            file=sys.stderr,
        )
