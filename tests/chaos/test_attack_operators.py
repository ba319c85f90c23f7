"""Import, rollback and freeze at the same moment beside a learner: two histories are
never mixed.
"""

import random
import time
import uuid
from collections import Counter

import pytest
import yaml

from tests.chaos.scale import FIGURES
from tests.waiting import wait_for
from tests.zygote import Fork

OTHER = {"kind": "scaled", "base": {"kind": "averaged", "base": {"kind": "pa1", "C": 0.5}}}


class Command(Fork):
    """One `onepass` command beside others."""

    def __init__(self, folder, *words):
        self._output = folder / f"command-{uuid.uuid4().hex}.out"
        super().__init__(words, self._output, self._output)

    def said(self):
        return self._output.read_text()


@pytest.fixture
def command(tmp_path):
    return lambda *words: Command(tmp_path, "checkpoints", *words)


def test_simultaneous_import_rollback_and_freeze_never_mix_histories(
    make_life, command, redis_url, tmp_path, record_figures
):
    life = make_life(f"{redis_url}/words", redis_url, "words", checkpoint={"keep": 100})
    draw, config, carried = random.Random(6), life.config(), tmp_path / "early.onepass"
    life.feed(1000)
    process = life.start("run")
    life.catch_up()
    assert command("export", "--to", carried, "--config", config).ended() == 0
    answers = Counter()
    life.feed(1000)
    life.catch_up()  # a rollback needs an older generation than the newest
    for _ in range(FIGURES.attack_rounds):
        life.feed(1000)
        time.sleep(draw.random() * 0.3)
        earlier = draw.choice(life.generations()[1:20]).generation
        words = [
            ("import", carried, "--replace"),
            ("rollback", "--to", earlier, "--rewind"),
            ("freeze",),
        ]
        draw.shuffle(words)
        answers.update(ask_at_once(words, command, config))
        check_nothing_is_learned(life, process)
        assert command("unfreeze", "--config", config).ended() == 0
        life.catch_up()
        assert process.status is None, process.said()
    assert "Traceback" not in process.log.read_text()
    assert answers["freeze", 0] == FIGURES.attack_rounds
    process.kill()
    life.prove()
    life.prove_by_lineage()
    rounds = FIGURES.attack_rounds
    obeyed = sum(number for (_, status), number in answers.items() if status == 0)
    record_figures(
        "import, rollback and freeze at the same moment", rounds=rounds, obeyed=obeyed, different=0
    )


def ask_at_once(words, command, config):
    """Start all commands, then return the name and the exit status of each."""
    asked = [(word[0], command(*word, "--config", config)) for word in words]
    for word, one in asked:
        # A command is carried out, or refused because another was faster; never done in part.
        status = one.ended()
        assert status in {0, 1}, one.said()
        assert "Traceback" not in one.said()
        yield word, status


def check_nothing_is_learned(life, process):
    """While frozen, the newest generation stays the same, though the learner sees more events."""

    def left():
        status = process.get("/status")[1]
        return status["lag"] if status["frozen"] else None

    wait_for(lambda: left() is not None, "the learner is frozen and connected")
    newest = life.newest()
    for _ in range(2):
        before = left()
        life.feed(101)
        wait_for(lambda old=before: left() not in {None, old}, "the learner looks at its log")
    assert life.newest() == newest


def test_a_model_with_other_settings_is_never_mixed_in(
    make_life, command, redis_url, tmp_path, record_figures
):
    """The right configuration refuses the import; with the wrong one the running learner stops."""
    log = f"{redis_url}/events"
    life = make_life(log, redis_url, "mine")
    stranger = make_life(log, redis_url, "other", learner=OTHER)
    mine, theirs = tmp_path / "mine.onepass", tmp_path / "theirs.onepass"
    draw, config = random.Random(7), life.config()
    disguised = tmp_path / "disguised.yaml"
    disguised.write_text(yaml.safe_dump({**yaml.safe_load(config.read_text()), "learner": OTHER}))
    life.feed(1000)
    stranger.finish()
    assert command("export", "--to", theirs, "--config", stranger.config()).ended() == 0
    for _ in range(FIGURES.attack_rounds):
        life.feed(1000)
        process = life.start("run")
        life.advance()
        time.sleep(draw.random() * 0.3)
        refused = command("import", theirs, "--replace", "--config", config)
        assert refused.ended() == 2
        assert "other settings" in refused.said()
        life.catch_up()
        assert command("export", "--force", "--to", mine, "--config", config).ended() == 0
        life.feed(1000)
        assert command("import", theirs, "--replace", "--config", disguised).ended() == 0
        assert process.ended() == 3, process.said()
        assert "other settings" in process.log.read_text()
        assert "Traceback" not in process.log.read_text()
        assert life.events() == 980, "the learner of the old settings wrote over the import"
        assert command("import", mine, "--replace", "--config", config).ended() == 0
    life.prove()
    record_figures(
        "import of a model with other settings",
        rounds=2 * FIGURES.attack_rounds,
        mixed=0,
        different=0,
    )
