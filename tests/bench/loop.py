"""`make bench`: events per second in each part of the loop, on this machine: medians of interleaved
runs.
"""

import json
import platform
import statistics
import tempfile
import threading
import time
from itertools import islice
from pathlib import Path

import numpy as np

from learners.registry import make
from learners.warmup import warm
from service.config.settings import CheckpointSettings, Features, Label, Limits, StoreSettings
from service.consumer.checkpointer import CheckpointPolicy
from service.consumer.dead_letters import SideOutputs
from service.consumer.wiring import Learning, Parts, build_worker
from service.consumer.worker import Reading
from service.embedded.payments import COLUMNS, payments
from service.embedded.redis import redis_server
from service.features.decoder import Decoder, batch
from service.model.model import Model
from service.model.scheduling import RequestGate
from service.monitoring import Monitoring
from service.monitoring.health import Health
from service.monitoring.metrics import Metrics, Registry
from service.sources import open_sink, open_source
from service.sources.base import Entry
from service.storage import RedisStore

EVENTS = 20_000
ROUNDS = 5
FEATURES = Features(columns=COLUMNS, bits=18)
LABEL = Label(positive="fraud")
LEARNERS = ("pa1", "sgd-log", {"kind": "scaled", "center": False, "base": "pa1"})


def seconds(run):
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def main():
    lines = list(islice(payments(0, 0), EVENTS))
    decoder = Decoder(FEATURES, LABEL, Limits())
    decoded = [decoder.event(line) for line in lines]
    X = batch(decoded).validate(decoder.slots.dim)
    y = np.array([1.0 if event.label == "fraud" else -1.0 for event in decoded])
    jobs = {"decode": lambda: [decoder.event(line) for line in lines]}
    for spec in LEARNERS:
        learner = make(spec)
        warm(learner)
        jobs[f"learn {learner.kind}"] = lambda learner=learner: learner.learn(
            learner.init(decoder.slots.dim), X, y
        )
    with tempfile.TemporaryDirectory() as folder, redis_server(Path(folder)) as server:
        sink = open_sink(f"{server.url}/events")
        sink.append([Entry(line) for line in lines])
        sink.close()
        number = iter(range(10**6))
        jobs["redis stream to checkpoint"] = lambda: run_worker(server.url, f"run-{next(number)}")
        times = {name: [] for name in jobs}
        for _ in range(ROUNDS):
            for name, job in jobs.items():
                times[name].append(seconds(job))
    results = {name: round(EVENTS / statistics.median(taken)) for name, taken in times.items()}
    print(
        json.dumps(
            {
                "machine": f"{platform.machine()} Python {platform.python_version()}",
                "events/s": results,
            },
            indent=2,
        )
    )


def run_worker(url, name):
    decoder = Decoder(FEATURES, LABEL, Limits())
    model = Model(make({"kind": "scaled", "base": "pa1"}), FEATURES, LABEL, decoder)
    parts = Parts(
        log_name="redis:events",
        reading=Reading(lambda: open_source(f"{url}/events", "earliest"), 500, until_end=True),
        store=RedisStore(StoreSettings(url=url), name, CheckpointSettings(keep=1)),
        policy=CheckpointPolicy(1.0, 100_000),
        outputs=SideOutputs(name),
        gate=RequestGate(),
    )
    worker = build_worker(
        Learning(decoder, model), parts, Monitoring(Metrics(Registry(), name), Health())
    )
    worker.run(threading.Event())


if __name__ == "__main__":
    main()
