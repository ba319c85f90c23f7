"""Twenty million events whose feature names never repeat: memory stays flat. An idle topic: hardly
any CPU.

The log is a real Redis stream, fed as fast as the learner learns and trimmed behind it.
"""

import socket
import time

from redis import Redis
from scipy.stats import theilslopes

from service.embedded.process import HOST
from service.embedded.redis import redis_server
from tests.chaos.events import MODEL
from tests.chaos.measuring import Stopwatch
from tests.chaos.memory import cpu_seconds, rss_mb
from tests.chaos.scale import IDLE_SECONDS, SOAK_EVENTS
from tests.integration.processes import Process, write_config
from tests.waiting import HANG_SECONDS, wait_for

SAMPLE_EVERY = 100_000
AHEAD, KEPT = 50_000, 100_000
"""Messages that the log may be ahead of the learner, and messages that it keeps."""
BATCH = 1_000
LONGEST_SECONDS = 2400.0
"""Seconds; a guard: on two free cores it takes less than half of that."""
SLOPE_MB = 5.0
"""MB per ten million events."""
IDLE_SHARE = 0.03
SETTLE_SECONDS = 5.0


class Feeder:
    """Append without waiting for a client library: the learner must be the slower one."""

    def __init__(self, port, stream):
        self._socket = socket.create_connection((HOST, port), timeout=HANG_SECONDS)
        self._replies = self._socket.makefile("rb")
        self._stream = stream
        self.fed = 0

    def feed(self):
        """Append one batch and read its acknowledgement."""
        serials = range(self.fed, self.fed + BATCH)
        values = [
            b'{"features": {"amount": %d, "name-%d": 1, "other-%d": 2}, "label": "%s"}'
            % (serial % 997, serial, serial, b"fraud" if serial % 997 > 700 else b"fine")
            for serial in serials
        ]
        command = b"*5\r\n$4\r\nXADD\r\n$%d\r\n%s\r\n$1\r\n*\r\n$5\r\nvalue\r\n" % (
            len(self._stream),
            self._stream,
        )
        self._socket.sendall(
            b"".join(b"%s$%d\r\n%s\r\n" % (command, len(value), value) for value in values)
        )
        for _ in range(2 * BATCH):  # each reply has a length and an id
            line = self._replies.readline()
            assert not line.startswith(b"-"), line
        self.fed += BATCH

    def close(self):
        self._replies.close()
        self._socket.close()


def events_after(process, least):
    """Wait until more than `least` events are learned; return their number."""

    def more():
        events = process.get("/status")[1]["events"]
        return events if events > least else None

    return wait_for(more, "one more event")


def learn_all(process, feeder, trimming):
    """Feed as fast as the learner learns; return the samples (events, MB) and the seconds that all
    took.
    """
    watch = Stopwatch()
    samples = []
    learned = 0
    while learned < SOAK_EVENTS:
        if feeder.fed < min(learned + AHEAD, SOAK_EVENTS):
            feeder.feed()
        if feeder.fed % 20_000 == 0 or feeder.fed >= learned + AHEAD:
            trimming.xtrim("events", maxlen=KEPT, approximate=True)
            learned = events_after(process, learned)
            if learned >= SAMPLE_EVERY * len(samples):
                samples.append((learned, rss_mb(process.pid)))
        assert watch.seconds <= LONGEST_SECONDS, f"only {learned} events"
    return samples, watch.seconds


def fit_slope(samples):
    """Return the MB per ten million events, with an interval around it."""
    slope, _, low, high = theilslopes(
        [rss for _, rss in samples], [events / 1e7 for events, _ in samples]
    )
    return slope, low, high


def test_memory_stays_flat(tmp_path, record_figures):
    with (
        redis_server(tmp_path / "log", appendonly=False) as log,
        redis_server(tmp_path / "store") as store,
    ):
        config = write_config(
            tmp_path / "soak.yaml",
            f"{log.url}/events",
            store.url,
            seconds=1.0,
            events=100_000,
            **MODEL,
            name="soak",
        )
        process = Process(["run"], config)
        feeder = Feeder(log.port, b"events")
        trimming = Redis.from_url(log.url)
        try:
            process.answers("/readyz", 200)
            samples, seconds = learn_all(process, feeder, trimming)
            status = process.get("/status")[1]
        finally:
            process.kill()
            feeder.close()
            trimming.close()
    assert status["rejects"] == 0
    later = [sample for sample in samples if sample[0] >= SOAK_EVENTS // 2]
    slope, low, high = fit_slope(later)
    record_figures(
        "soak: feature names that never repeat",
        events=SOAK_EVENTS,
        events_per_second=round(SOAK_EVENTS / seconds),
        samples=len(later),
        rss_mb=round(later[-1][1]),
        mb_per_10m_events=round(slope, 2),
        interval=f"{low:.2f} to {high:.2f}",
        checkpoints=status["checkpoint"]["generation"],
    )
    assert slope <= SLOPE_MB


def test_an_idle_log_costs_hardly_any_cpu(topic, redis_url, tmp_path, record_figures):
    logs = {"Kafka": topic, "Redis": f"{redis_url}/idle"}
    processes = {
        name: Process(
            ["run"], write_config(tmp_path / f"{name}.yaml", url, redis_url, seconds=1.0, name=name)
        )
        for name, url in logs.items()
    }
    try:
        for process in processes.values():
            process.answers("/readyz", 200)
        time.sleep(SETTLE_SECONDS)
        before = {name: cpu_seconds(process.pid) for name, process in processes.items()}
        time.sleep(IDLE_SECONDS)
        shares = {
            name: (cpu_seconds(process.pid) - before[name]) / IDLE_SECONDS
            for name, process in processes.items()
        }
    finally:
        for process in processes.values():
            process.kill()
    record_figures(
        "idle log",
        seconds_watched=IDLE_SECONDS,
        **{f"cpu_{name}": f"{share:.1%}" for name, share in shares.items()},
    )
    assert max(shares.values()) <= IDLE_SHARE, shares
