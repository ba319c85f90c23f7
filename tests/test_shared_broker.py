"""All processes of a run share one broker, which lives as long as one of them needs it."""

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from service.embedded.kafka import KafkaBroker
from tests import shared_broker

OTHER = """
import sys
from pathlib import Path
from tests.shared_broker import shared_broker
folder = Path(sys.argv[1])
with shared_broker(folder) as broker:
    print(broker.bootstrap, flush=True)
    sys.stdin.read()
    (folder / "left").touch()
"""


def test_the_first_process_starts_the_broker_and_stops_it_after_the_last(tmp_path, monkeypatch):
    folder, events = tmp_path / "kafka", []

    @contextmanager
    def broker(at):
        events.append(f"started in {at.name}")
        yield KafkaBroker("localhost:1")
        events.append("stopped after the other" if (folder / "left").exists() else "too early")

    monkeypatch.setattr(shared_broker, "kafka_broker", broker)
    with shared_broker.shared_broker(folder) as mine:
        other = start_other(folder)
        assert other.stdout.readline() == f"{mine.bootstrap}\n" == "localhost:1\n"
        other.stdin.close()
    other.stdout.close()
    assert other.wait() == 0
    assert events == ["started in broker", "stopped after the other"]


def start_other(folder):
    return subprocess.Popen(
        [sys.executable, "-c", OTHER, str(folder)],
        cwd=Path(__file__).parent.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
