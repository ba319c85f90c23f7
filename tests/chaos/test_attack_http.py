"""Long texts: the learner notices SIGTERM within a batch, and one caller's long requests hold up
nobody else.
"""

import asyncio
import json
import random
import signal
import statistics
from contextlib import closing
from itertools import cycle

from service.sources import create_log, open_sink
from service.sources.base import Entry
from tests.chaos.measuring import Stopwatch
from tests.chaos.scale import CHAOS, FIGURES
from tests.integration.processes import START_SECONDS, free_port, running, write_config
from tests.waiting import HANG_SECONDS, wait_for

TEXTS = 120 if CHAOS else 24
BYTES = 900_000 if CHAOS else 300_000
ACCEPTED_BYTES = 30_000
"""Bytes; a longer text has more n-grams than an event may have features."""
SLEEP_SECONDS = 4
"""Seconds; less than the nine after which a process that has to stop ends itself with status 1."""
MODEL = {"features": {"columns": ["amount"], "text": ["note"], "ngrams": 5, "bits": 18}}
NEVER = {"interval_seconds": 3600, "interval_events": 10**9}
SHORT = b'{"features": {"amount": 5}}'


def text(number, size):
    """Return a text of many different words, of eight words, or of one word: rejected early,
    rejected late, or accepted.
    """
    draw = random.Random(number)
    words = (lambda: f"{draw.randrange(10**6):x}", lambda: draw.choice("abcdefgh"), lambda: "a")[
        number % 3
    ]
    made = []
    while size > 0:
        made.append(words())
        size -= len(made[-1]) + 1
    return " ".join(made)


def append_texts(log):
    create_log(log)
    kinds = [text(kind, ACCEPTED_BYTES if kind == 2 else BYTES) for kind in range(3)]
    with closing(open_sink(log)) as sink:
        for number in range(TEXTS):
            label = "fraud" if number % 2 else "fine"
            event = {"features": {"amount": number, "note": kinds[number % 3]}, "label": label}
            sink.append([Entry(json.dumps(event).encode())])


def read_progress(process, least):
    """Return the texts learned or rejected if they are more than `least` and two looks agree, else
    None.
    """
    looks = {
        status["events"] + status["rejects"]
        for _, status in (process.get("/status"), process.get("/status"))
        if status
    }
    return looks.pop() if len(looks) == 1 and max(looks) > least else None


def test_sigterm_stops_the_learner_within_a_batch_of_long_texts(
    make_life, redis_url, record_figures
):
    """The signal comes while the learner sleeps after the first piece of the batch."""
    log = f"{redis_url}/texts"
    append_texts(log)
    stopped, quiet = (
        make_life(log, redis_url, name, **MODEL, checkpoint=NEVER, max_poll_records=500)
        for name in ("stopped", "quiet")
    )
    taken = rounds = 0
    while taken < TEXTS and rounds < FIGURES.attack_rounds:
        process = stopped.start(failpoint=f"after_apply:sleep={SLEEP_SECONDS}")
        seen = wait_for(
            lambda one=process, least=taken: read_progress(one, least),
            "a piece is learned",
            START_SECONDS,
        )
        process.signal(signal.SIGTERM)
        assert process.ended() == 0
        snapshot = stopped.snapshot()
        taken, rounds = snapshot.events + sum(snapshot.rejects.values()), rounds + 1
        assert taken == seen, "it learned more than the first piece"
    one, other = stopped.finish(), quiet.finish()
    assert (one["events"], one["events"] + one["rejects"]) == (TEXTS // 3, TEXTS)
    assert one["checkpoint"]["state_digest"] == other["checkpoint"]["state_digest"]
    assert one["rejects_by_reason"] == other["rejects_by_reason"]
    record_figures("SIGTERM in a batch of texts of 0.9 MB", rounds=rounds, different=0)


def request(body, path):
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length:"
        f" {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def send(port, data):
    """Open a connection and send this data."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    await writer.drain()
    return reader, writer


async def receive(connection):
    """Return the status of the answer."""
    reader, writer = connection
    reply = await asyncio.wait_for(reader.read(), 2 * HANG_SECONDS)
    writer.close()
    return int(reply.split()[1])


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


async def count_overtaken(process, path, size, count):
    """Count the long requests, all sent before the short one, that are answered after it.

    The service is stopped until the end of each request has arrived. Answers are counted in the
    order of the event loop, so it does not matter when this process looks.
    """
    answered = []

    async def answer(connection, length):
        assert await receive(connection) in {200, 422}
        answered.append(length)

    data = request(long_body(2, size, path), path)
    connections = [await send(process.port, data[:-1]) for _ in range(count)]
    short = await send(process.port, request(SHORT, "/predict")[:-1])
    process.signal(signal.SIGSTOP)
    for _, writer in connections:
        writer.write(data[-1:])
    short[1].write(SHORT[-1:])
    process.signal(signal.SIGCONT)
    await asyncio.gather(*(answer(one, "long") for one in connections), answer(short, "short"))
    return len(answered) - 1 - answered.index("short")


async def measure_latencies(port, count, callers):
    """Measure short requests while this many connections send texts of 16 KB one after
    the other.
    """
    found = []

    async def press():
        bodies = cycle([long_body(kind, 16_000, "/predict") for kind in range(3)])
        while len(found) < count:
            await receive(await send(port, request(next(bodies), "/predict")))

    async def ask():
        while len(found) < count:
            watch = Stopwatch()
            assert await receive(await send(port, request(SHORT, "/predict"))) == 200
            found.append(watch.seconds)

    await asyncio.gather(ask(), *(press() for _ in range(callers)))
    return found


PATHS = ("/predict", "/explain", "/predict/batch", "/v2/models/payments/infer")


def test_long_texts_of_one_caller_hold_up_nobody_else(redis_url, tmp_path, record_figures):
    api = {"port": free_port(), "header_seconds": 600.0, "body_seconds": 600.0}
    config = write_config(tmp_path / "c.yaml", f"{redis_url}/none", redis_url, **MODEL, api=api)
    create_log(f"{redis_url}/none")
    with running("run", config) as process:
        process.answers("/readyz", 200)
        for path in PATHS:
            for size, count, least in ((16_000, 24, 6), (BYTES, 2, 1)):
                left = asyncio.run(count_overtaken(process, path, size, count))
                assert left >= least, (path, size, left)
        count = 1000 if CHAOS else 10
        alone, beside = (
            asyncio.run(measure_latencies(process.port, count, callers)) for callers in (0, 4)
        )
    figures = {
        f"{name}_{which}_ms": round(1000 * value, 1)
        for name, found in (("alone", alone), ("beside", beside))
        for which, value in (
            ("median", statistics.median(found)),
            ("p95", statistics.quantiles(found, n=20)[-1]),
        )
    }
    record_figures(
        "short requests beside one caller of texts of 16 KB", requests=len(beside), **figures
    )
