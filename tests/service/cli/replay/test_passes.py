"""Several passes over a file: the first is the prequential one, dual variables persist, statistics
count each row once.
"""

import json

import numpy as np
import pytest

from learners.registry import make
from learners.state import state_digest
from service.cli.replay.passes import further_passes
from service.config.settings import Limits
from service.features.decoder import Decoder
from service.files import events, features_of, label_of, scan
from service.model.model import Model
from tests.looped import looped


@pytest.fixture
def file(tmp_path):
    draws = np.random.default_rng(0)
    rows = draws.normal(size=(120, 3))
    labels = np.where(rows @ [1.0, -2.0, 0.5] > 0, 1, -1)
    path = tmp_path / "d.svm"
    path.write_text(
        "".join(
            f"{y} 1:{a!r} 2:{b!r} 3:{c!r}\n"
            for y, (a, b, c) in zip(labels, rows.tolist(), strict=True)
        )
    )
    return scan(path)


def replay(file, spec, passes, shuffle=0):
    features, label = features_of([file], 18), label_of(file, positive=None, multiclass=False)
    decoder = Decoder(features, label, Limits())
    first, fresh = (Model(make(spec), features, label, decoder) for _ in range(2))
    order = (
        np.arange(file.rows)
        if shuffle is None
        else np.random.default_rng(shuffle).permutation(file.rows)
    )
    rows = [decoder.event(value) for value in events(file)]
    first.learn([rows[place] for place in order])
    return first, further_passes(
        first, fresh, decoder, file, passes=passes, shuffle=shuffle, limit=None
    )


def test_the_first_pass_is_that_of_the_stream(file):
    once, done = replay(file, "pa1", 1)
    assert done[0]["errors"] == int(once.progress.errors[0])


@looped("spec", ["svm-dual", "lm-winnow", {"kind": "scaled", "base": "svm-dual:eta=auto"}])
def test_later_passes_err_less_on_separable_rows(file, spec):
    _, done = replay(file, spec, 30)
    assert done[-1]["errors"] < done[0]["errors"]
    assert [part["events"] for part in done] == [120] * 30


def test_dual_variables_are_kept_per_row(file):
    """Each row's dual variable is capped over all passes together, so the weights stay bounded by
    C·Σ‖x‖.
    """
    model, _ = replay(file, "svm-dual:eta=10,C=0.01", 50)
    rows = np.random.default_rng(0).normal(size=(120, 3))
    bound = 0.01 * np.sqrt(1 + np.square(rows).sum(axis=1)).sum()
    assert model.norm() <= bound


def test_statistics_count_each_row_once(file):
    model, _ = replay(file, {"kind": "scaled", "base": "pa1"}, 5)
    rows = np.random.default_rng(0).normal(size=(120, 3))
    assert model.state.events[0] == 120
    assert np.allclose(model.state.mean[1:], rows.mean(axis=0))


def test_passes_are_deterministic_with_and_without_a_shuffle(file):
    digests = {
        state_digest(replay(file, "perceptron", 3, shuffle)[0].state)
        for shuffle in (None, None, 0, 0)
    }
    assert len(digests) == 2
    json.dumps(replay(file, "perceptron", 2)[1])
