"""Long texts: SIGTERM is heard whatever the batch holds, and one caller's long requests hold up
nobody else.
"""

import asyncio
import json
import random
import signal
import statistics
import time
from contextlib import closing
from itertools import cycle

import pytest

from service.config.settings import StoreSettings
from service.sources import create_log, open_sink
from service.sources.base import Entry
from service.storage import RedisStore
from tests.chaos.scale import CHAOS, FIGURES
from tests.integration.processes import Process, running, write_config

pytestmark = pytest.mark.timeout(1800 if CHAOS else 300)

TEXTS = 120 if CHAOS else 12
BYTES = 900_000 if CHAOS else 300_000
EXIT_SECONDS = 10.0
MODEL = {"features": {"columns": ["amount"], "text": ["note"], "ngrams": 5, "bits": 18}}
SHORT = b'{"features": {"amount": 5}}'


def text(number, size):
    """A text of many words, of eight, or of one: rejected early, rejected late, or accepted."""
    draw = random.Random(number)
    words = (lambda: f"{draw.randrange(10**6):x}", lambda: draw.choice("abcdefgh"), lambda: "a")[
        number % 3
    ]
    made = []
    while size > 0:
        made.append(words())
        size -= len(made[-1]) + 1
    return " ".join(made)


def test_sigterm_is_heard_within_a_batch_of_long_texts(redis_url, tmp_path, measured):
    log = f"{redis_url}/texts"
    create_log(log)
    sink = open_sink(log)
    kinds = [text(number, BYTES) for number in range(3)]
    for number in range(TEXTS):
        label = "fraud" if number % 2 else "fine"
        event = {"features": {"amount": number, "note": kinds[number % 3]}, "label": label}
        sink.append([Entry(json.dumps(event).encode())])
    sink.close()
    never = {"interval_seconds": 3600, "interval_events": 10**9}
    draw, slowest, least = random.Random(7), 0.0, 0
    with closing(RedisStore(StoreSettings(url=redis_url), "stopped")) as store:
        for number in range(FIGURES.attack_rounds):
            config = write_config(
                tmp_path / f"{number}.yaml",
                log,
                redis_url,
                **MODEL,
                name="stopped",
                checkpoint=never,
            )
            process = Process(["learn"], config)
            process.answers("/readyz", 200, 120)
            time.sleep(draw.uniform(0.0, 1.0))
            asked = time.monotonic()
            process.process.send_signal(signal.SIGTERM)
            assert process.finish(3 * EXIT_SECONDS)[0] == 0
            slowest = max(slowest, time.monotonic() - asked)
            assert slowest < EXIT_SECONDS
            newest = store.newest()
            events = newest.events if newest else 0
            assert events >= least
            least = events
    ends = []
    for name in ("stopped", "quiet"):
        config = write_config(
            tmp_path / f"{name}.yaml", log, redis_url, **MODEL, name=name, checkpoint=never
        )
        status, output = Process(["learn", "--until-end"], config).finish(900)
        assert status == 0
        ends.append(json.loads(output))
    stopped, quiet = ends
    assert stopped["events"] + stopped["rejects"] == TEXTS
    assert stopped["checkpoint"]["state_digest"] == quiet["checkpoint"]["state_digest"]
    assert stopped["rejects_by_reason"] == quiet["rejects_by_reason"]
    rounds, seconds = FIGURES.attack_rounds, round(slowest, 2)
    measured(
        "SIGTERM in a batch of texts of 0.9 MB",
        rounds=rounds,
        different=0,
        slowest_exit_seconds=seconds,
    )


async def send(port, body, path="/predict"):
    """A connection on which the whole request has been sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length:"
        f" {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    await writer.drain()
    return reader, writer


async def receive(connection):
    """The status of the answer."""
    reader, writer = connection
    reply = await asyncio.wait_for(reader.read(), 120)
    writer.close()
    return int(reply.split()[1])


async def asked(port, body, path="/predict"):
    """Seconds until the answer, and its status."""
    started = time.monotonic()
    status = await receive(await send(port, body, path))
    return time.monotonic() - started, status


def long_body(number, size, path):
    instance = {"features": {"note": text(number, size)}}
    if path == "/predict/batch":
        return json.dumps({"instances": [instance]}).encode()
    if path.startswith("/v2/"):
        tensor = {
            "name": "instances",
            "datatype": "BYTES",
            "shape": [1],
            "data": [json.dumps(instance)],
        }
        return json.dumps({"inputs": [tensor]}).encode()
    return json.dumps(instance).encode()


PATHS = ("/predict", "/explain", "/predict/batch", "/v2/models/payments/infer")


def test_one_callers_long_texts_hold_up_nobody_else(redis_url, tmp_path, measured):
    async def overtaken(port, path, size, count):
        """How many of the long requests, all sent before the short one, are answered after it."""
        body = long_body(2, size, path)
        sent = [await send(port, body, path) for _ in range(count)]
        answers = [asyncio.create_task(receive(connection)) for connection in sent]
        await asked(port, SHORT)
        left = sum(not answer.done() for answer in answers)
        assert set(await asyncio.gather(*answers)) <= {200, 422}
        return left

    async def latencies(port, seconds, callers):
        """Of short requests, while so many connections send texts of 16 KB one after the other."""
        until, found = time.monotonic() + seconds, []

        async def press():
            bodies = cycle([long_body(kind, 16_000, "/predict") for kind in range(3)])
            while time.monotonic() < until:
                await asked(port, next(bodies))

        pressing = [asyncio.create_task(press()) for _ in range(callers)]
        while time.monotonic() < until:
            found.append((await asked(port, SHORT))[0])
            await asyncio.sleep(0.02)
        await asyncio.gather(*pressing)
        return found

    config = write_config(tmp_path / "c.yaml", f"{redis_url}/none", redis_url, **MODEL)
    create_log(f"{redis_url}/none")
    with running("run", config) as process:
        process.answers("/readyz", 200, 120)
        for path in PATHS:
            for size, count, least in ((16_000, 24, 6), (BYTES, 2, 1)):
                left = asyncio.run(overtaken(process.port, path, size, count))
                assert left >= least, (path, size, left)
        seconds = 2.0 * FIGURES.attack_rounds if CHAOS else 1.0
        alone, beside = (
            asyncio.run(latencies(process.port, seconds, callers)) for callers in (0, 4)
        )
    figures = {
        f"{name}_{which}_ms": round(1000 * value, 1)
        for name, found in (("alone", alone), ("beside", beside))
        for which, value in (
            ("median", statistics.median(found)),
            ("p95", statistics.quantiles(found, n=20)[-1]),
        )
    }
    measured("short requests beside one caller of texts of 16 KB", requests=len(beside), **figures)
