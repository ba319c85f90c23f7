"""Redis dies, forgets or returns to an older state: no event is counted twice, and no prediction
fails.
"""

import random
import shutil
import time

import pytest
from redis import Redis

from service.embedded.redis import RedisServer
from tests.chaos.lanes import side_by_side
from tests.chaos.scale import FIGURES
from tests.chaos.watcher import watch_predictions

APPEND_ONLY = "appendonly.aof"


class Victim(RedisServer):
    """A separate Redis for the checkpoints; the log is in another one."""

    def __init__(self, folder, fsync="always"):
        super().__init__(folder)
        self.command = tuple(fsync if word == "always" else word for word in self.command)
        self.data = folder / APPEND_ONLY
        self.kept = folder / "kept.aof"
        self.draw = random.Random(str(folder.name))

    def again(self, change=lambda: None):
        """Kill it with -9, change its files, and start it."""
        self.kill()
        change()
        time.sleep(self.draw.uniform(0.0, 0.6))
        self.start()


def killed(victim, life):
    """Every checkpoint was on disk before it was acknowledged, so none may be missing."""
    before = life.newest()
    victim.again()
    assert life.newest().generation >= before.generation


def cut_short(victim, life):
    """The end of the file never reached the disk, as after a power loss with
    appendfsync everysec.
    """
    on_disk = victim.data.stat().st_size
    time.sleep(victim.draw.uniform(0.2, 1.0))

    def tear():
        with victim.data.open("r+b") as file:
            file.truncate(victim.draw.randint(on_disk, victim.data.stat().st_size))

    victim.again(tear)
    del life


def flushed(victim, life):
    del life
    with Redis.from_url(victim.url) as client:
        client.flushall()


def restored(victim, life):
    """An operator restores an old copy."""
    shutil.copyfile(victim.data, victim.kept)
    life.feed()
    life.advance(500)
    victim.again(lambda: shutil.copyfile(victim.kept, victim.data))


FAULTS = {
    "kill -9, appendfsync always": (killed, "always"),
    "kill -9, appendfsync everysec, the end torn off": (cut_short, "everysec"),
    "FLUSHALL": (flushed, "always"),
    "an old dump restored": (restored, "always"),
}


@pytest.mark.parametrize("pair", [tuple(FAULTS)[:2], tuple(FAULTS)[2:]], ids=["dies", "forgets"])
def test_a_serving_learner_survives_failures_of_redis(
    pair, make_life, redis_url, tmp_path, record_figures
):
    def live(name):
        fault, fsync = FAULTS[name]
        word = fault.__name__
        victim = Victim(tmp_path / word, fsync)
        victim.start()
        answered = 0
        try:
            life = make_life(f"{redis_url}/{word}", victim.url, word)
            for turn in range(FIGURES.redis_rounds):
                life.feed(3000)
                process = life.start("run")
                with watch_predictions(process) as watcher:
                    life.advance()
                    fault(victim, life)
                    life.feed()
                    if turn % 2 == 0:
                        life.catch_up()  # in even turns the same learner continues
                # In odd turns it is killed while it recovers, and the next learner begins there.
                process.kill()
                answered += watcher.statuses[200]
            life.prove()
            life.close()
        finally:
            victim.stop()
        return answered

    answered = side_by_side(live, *pair)
    for name, predictions in zip(pair, answered, strict=True):
        record_figures(
            f"Redis: {name}",
            rounds=FIGURES.redis_rounds,
            different=0,
            predictions=predictions,
            failed=0,
        )
