"""`onepass demo`: the whole service on embedded servers, with a stream that drifts."""

import argparse
import contextlib
import shutil
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from service.app import Service
from service.config.loader import parse
from service.config.settings import Settings
from service.embedded.kafka import kafka_broker
from service.embedded.payments import COLUMNS, payments
from service.embedded.process import EmbeddedError
from service.embedded.redis import redis_server
from service.errors import SettingsError
from service.private_files import make_folder
from service.sources import create_log, open_sink, open_source
from service.sources.base import Entry, SourceUnavailableError

SEED = 0
RATE = 2000
"""Events per second."""
BEAT = 0.05
"""Seconds between two batches of the producer."""
PAYMENT = (
    '{"features": {"amount": 420.5, "age_days": 30, "hour": 3, "distance_km": 2400, "attempts": 6, '
    '"country": "br"}}'
)


class Servers(NamedTuple):
    store: str
    log: str


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds", type=float, metavar="N", help="stop N seconds after the first learned event"
    )
    parser.add_argument(
        "--port",
        type=int,
        default=8000,
        metavar="P",
        help="port of the API (default: 8000; 0: any free port)",
    )
    parser.add_argument(
        "--dir",
        type=Path,
        metavar="D",
        help="keep the data in this folder and continue from it next time",
    )
    parser.add_argument(
        "--kafka",
        action="store_true",
        help="use a real Apache Kafka (KAFKA_BOOTSTRAP, or jars from Maven)",
    )
    parser.epilog = "example:\n  onepass demo --seconds 20"


def execute(command: str, arguments: argparse.Namespace) -> int:
    del command
    if arguments.seconds is not None and arguments.seconds <= 0:
        raise SettingsError("--seconds must be above 0")
    with contextlib.ExitStack() as stack:
        folder = arguments.dir or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="onepass-demo-"))
        )
        try:
            servers = stack.enter_context(_start_servers(folder, kafka=arguments.kafka))
        except EmbeddedError as error:
            print(f"onepass demo: {error}", file=sys.stderr)
            return 1
        settings = _make_settings(servers, arguments.port)
        service = Service(settings, "run")
        print(
            f"onepass demo: {settings.source.url} -> learner -> {settings.store.url}, "
            f"http://127.0.0.1:{service.port}"
        )
        stop = threading.Event()
        threads = [
            threading.Thread(target=_produce, args=(service, servers.log, stop), daemon=True),
            threading.Thread(target=_watch, args=(service, arguments.seconds, stop), daemon=True),
        ]
        for thread in threads:
            thread.start()
        status = service.run()
        stop.set()
        for thread in threads:
            thread.join(5)
        print(_format_summary(service))
    return status


@contextlib.contextmanager
def _start_servers(folder: Path, *, kafka: bool) -> Iterator[Servers]:
    with contextlib.ExitStack() as stack:
        make_folder(folder)
        redis = stack.enter_context(redis_server(folder / "redis"))
        if not kafka:
            yield Servers(redis.url, f"{redis.url}/payments")
            return
        print("onepass demo: starting Apache Kafka", file=sys.stderr)
        broker = stack.enter_context(kafka_broker(folder / "kafka"))
        yield Servers(redis.url, f"kafka://{broker.bootstrap}/{_read_topic(folder / 'topic')}")


def _read_topic(file: Path) -> str:
    """Return a topic name that is unique on a shared broker and stays the same for this folder."""
    if not file.exists():
        file.write_text(f"onepass-demo-{uuid.uuid4().hex[:8]}", encoding="utf-8")
    return file.read_text(encoding="utf-8")


def _make_settings(servers: Servers, port: int) -> Settings:
    values = {
        "name": "demo",
        "learner": {"kind": "scaled", "base": {"kind": "pa1", "C": 0.03}},
        "features": {"columns": list(COLUMNS), "bits": 10},
        "label": {"field": "label", "positive": "fraud", "negative": "fine"},
        "source": {"url": servers.log},
        "store": {"url": servers.store},
        "api": {"port": port},
    }
    return parse(values, "demo")


def _produce(service: Service, url: str, stop: threading.Event) -> None:
    """Append events at a steady rate after those in the log, as soon as the learner is ready."""
    try:
        create_log(url)
        while not service.health.ready:
            if stop.wait(BEAT):
                return
        print(f"try: curl -s http://127.0.0.1:{service.port}/predict -d '{PAYMENT}'", flush=True)
        log, sink = open_source(url, "earliest"), open_sink(url)
        sent = 0
        events = payments(SEED, sum(log.lag().values()))
        log.close()
        started = time.monotonic()
        while not stop.wait(BEAT):
            due = int((time.monotonic() - started) * RATE) - sent
            sink.append([Entry(value) for value in islice(events, due)])
            sent += due
        sink.close()
    except SourceUnavailableError as error:
        print(f"onepass demo: the producer stopped: {error}", file=sys.stderr)


def _watch(service: Service, seconds: float | None, stop: threading.Event) -> None:
    """Show a live line, and stop the demo after `seconds`."""
    before, began = 0, None
    live = sys.stdout.isatty()
    while not stop.wait(1.0 if live else 0.1):
        events = int(service.model.progress.events[0])
        now = time.monotonic()
        if began is None and events > before:
            began = now
        if live:
            # A line that wraps could not be overwritten.
            width = shutil.get_terminal_size().columns - 1
            print(f"\r{_format_line(service, events - before)[:width]}\x1b[K", end="", flush=True)
        before = events
        if seconds is not None and began is not None and now - began >= seconds:
            break
    if live:
        print()
    if not stop.is_set():
        service.stop()


def _format_line(service: Service, per_second: int) -> str:
    progress, health = service.model.progress, service.health
    age = health.checkpoint_age
    return (
        f"{int(progress.events[0]):,} events  {per_second:,}/s  error {progress.error_rate:.3f}  "
        f"last 1000 {progress.recent_error_rate:.3f}  lag {sum(health.lag.values()):,}  "
        f"checkpoint {'none yet' if age is None else f'{age:.1f} s ago'}"
        + (f"  waiting: {health.trouble}" if health.trouble else "")
    )


def _format_summary(service: Service) -> str:
    progress, saved = service.model.progress, service.health.checkpoint
    return (
        f"{int(progress.events[0]):,} events learned, error {progress.error_rate:.3f}, "
        f"last 1000 {progress.recent_error_rate:.3f}, "
        f"checkpoint generation {saved.generation if saved else 0}"
    )
