"""`onepass produce`: feed the events of a file to a topic or stream, as fast as it takes them or at a given rate."""

import argparse
import sys
import time
from itertools import islice

from tqdm import tqdm

from service.cli.shaping import add_file_flags, scanned
from service.cli.tables import counted
from service.errors import BadSettings, refused
from service.files import events
from service.log_settings import without_password
from service.sources import create_log, open_sink
from service.sources.contract import Entry, SourceDown

BATCH = 500


def configure(parser: argparse.ArgumentParser) -> None:
    add_file_flags(parser)
    parser.add_argument(
        "--to", required=True, metavar="URL", help="kafka://host:port/topic or redis://host:port/db/stream"
    )
    parser.add_argument("--rate", type=float, metavar="R", help="events per second (default: no limit)")
    parser.add_argument(
        "--partitions", type=int, metavar="N", help="of a Kafka topic if it has to be made (default: 1)"
    )
    parser.epilog = "example:\n  onepass produce payments.csv --to redis://localhost:6379/0/payments --rate 500"


def execute(command: str, arguments: argparse.Namespace) -> int:
    if arguments.rate is not None and not 0.001 <= arguments.rate <= 1e9:
        raise BadSettings("--rate must be from 0.001 to 1e9 events per second")
    if arguments.partitions is not None and not (arguments.to.startswith("kafka:") and arguments.partitions >= 1):
        raise BadSettings("--partitions is of a Kafka topic that has to be made, and at least 1")
    file = scanned(arguments.data, arguments)
    try:
        with refused():
            made = create_log(arguments.to, partitions=arguments.partitions or 1)
            sink = open_sink(arguments.to)
        _tell(command, arguments, made=made)
        sent, started = 0, time.monotonic()
        stream = events(file)
        most = BATCH if arguments.rate is None else max(1, min(BATCH, int(arguments.rate / 10)))
        with tqdm(total=file.rows, unit=" events", disable=not sys.stderr.isatty(), file=sys.stderr) as bar:
            while batch := [Entry(value) for value in islice(stream, most)]:
                sink.append(batch)
                sent += len(batch)
                bar.update(len(batch))
                if arguments.rate is not None:
                    time.sleep(max(0.0, started + sent / arguments.rate - time.monotonic()))
        sink.close()
    except SourceDown as error:
        print(f"onepass {command}: {error}", file=sys.stderr)
        return 1
    print(f"{sent:,} events to {without_password(arguments.to)}")
    return 0


def _tell(command: str, arguments: argparse.Namespace, *, made: bool) -> None:
    topic = arguments.to.rpartition("/")[2]
    if made:
        print(f"made topic {topic} with {counted(arguments.partitions or 1, 'partition')}")
    elif arguments.partitions is not None:
        print(f"onepass {command}: topic {topic} was there already: --partitions changes nothing", file=sys.stderr)
