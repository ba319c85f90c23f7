"""The golden files fix the format, and a model can be restored from them."""

import json
from pathlib import Path

import numpy as np
import pytest

from learners.registry import make
from learners.state import state_digest
from service.checkpoint.lineage import Frozen, Lineage, Lost, Rolled, Run
from service.checkpoint.snapshot import Snapshot, SnapshotError, decode, merge
from service.config.settings import Features, Label, Limits
from service.features.decoder import Decoder
from service.model.model import Model
from service.sources.base import Bookmark
from tests.looped import looped
from tests.service.checkpoint.small_snapshot import check_same, in_bytes

GOLDEN = Path(__file__).parents[1] / "golden"
OLDER = GOLDEN / "snapshot-1.bin"
WHOLE = GOLDEN / "snapshot-2.bin"
DELTA = GOLDEN / "delta-2.bin"
STATE_AT_GOLDEN = "b0396bd5f3cd0ccf7997c6348ada6ec5f4aca708f3f24f47880ef11daffefecc"
STATE_AFTER_GOLDEN = "6cae335bc1efa481f58f8ec4f1efcba1ce7aebbfcc76ada742e612c8fa15c1ed"
RUNS = (
    Run("0", "0", "7", 7),
    Lost("1", "0", "4", 4, "retention"),
    Frozen(3, 1.5, 2.5),
    Rolled(2, 3, 4.25),
)


def make_whole() -> Snapshot:
    return Snapshot(
        {
            "learner": {"kind": "pa1", "C": 0.1},
            "features": {"bits": 2},
            "label": {"field": "label"},
        },
        ["ham", "späm"],
        Bookmark({"0": "7", "1": "4"}, {"": "topic-id", "0": "6:123"}),
        Lineage("ab" * 32, 0xDEADBEEF, RUNS),
        {"malformed": 2},
        "cd" * 32,
        {
            "state/w": np.array([[0.5, -0.0, 1e-300, np.inf], [1.0, 2.0, 3.0, np.nan]]),
            "state/updates": np.array([5]),
            "progress/events": np.array([6]),
            "progress/errors": np.array([2]),
            "progress/recent": np.array([1, 0, 1], np.uint8),
        },
    )


def make_golden() -> tuple[Snapshot, Snapshot]:
    """Return the content of the golden files of today's format: a whole snapshot and a delta that
    follows it.
    """
    whole = make_whole()
    changed = {
        "slots": np.array([0, 3]),
        "state/w": np.array([[0.25, 1.0], [-1.0, 4.0]]),
        "state/updates": np.array([6]),
        "progress/events": np.array([8]),
    }
    later = whole._replace(
        bookmark=Bookmark({"0": "9", "1": "4"}, {"": "topic-id", "0": "8:77"}),
        lineage=Lineage("ab" * 32, 0xCAFE, (*RUNS, Run("0", "7", "9", 2))),
        state_digest=None,
        arrays=whole.arrays | changed,
        sliced=("state/w",),
    )
    return whole, later


@pytest.mark.parametrize(("path", "which"), [(WHOLE, 0), (DELTA, 1)], ids=["whole", "delta"])
def test_the_format_matches_the_golden_files(path, which):
    """The golden files are never regenerated: a change of the format needs another version, with
    its own files.
    """
    assert in_bytes(make_golden()[which]) == path.read_bytes()
    check_same(decode(path.read_bytes()), make_golden()[which])


def test_the_golden_delta_follows_the_golden_whole():
    merged = merge(decode(WHOLE.read_bytes()), decode(DELTA.read_bytes()))
    assert merged.events == 8
    assert merged.bookmark.positions == {"0": "9", "1": "4"}
    expected = np.array([[0.25, -0.0, 1e-300, 1.0], [-1.0, 2.0, 3.0, 4.0]])
    assert merged.arrays["state/w"].tobytes() == expected.tobytes()


@looped(
    ("path", "flips"), [(OLDER, (0x01, 0x80, 0xFF)), (WHOLE, range(1, 256)), (DELTA, range(1, 256))]
)
def test_every_change_of_a_byte_of_a_golden_file_is_noticed(path, flips):
    whole = path.read_bytes()
    for place, byte in enumerate(whole):
        damaged = bytearray(whole)
        for flip in flips:
            damaged[place] = byte ^ flip
            with pytest.raises(SnapshotError):
                decode(bytes(damaged))


def golden_model() -> tuple[Model, Decoder]:
    features = Features(columns=("a", "b"), bits=2)
    label = Label(classes="grow", max_classes=3)
    learner = make(
        {"kind": "scaled", "base": {"kind": "one_vs_rest", "max_classes": 3, "base": "pa1:C=0.5"}}
    )
    decoder = Decoder(features, label, Limits())
    return Model(learner, features, label, decoder), decoder


def golden_events(first: int, last: int) -> list[bytes]:
    """Return events from plain arithmetic, so that no random generator has to stay the same."""
    return [
        json.dumps(
            {
                "features": {
                    "a": n * 37 % 11 - 5,
                    "b": n * 53 % 17 / 4,
                    "colour": "rgb"[n * 7 % 3],
                },
                "label": "xyz"[(n * 37 % 11 + n * 7) % 3],
            }
        ).encode()
        for n in range(first, last)
    ]


def learn(model: Model, decoder: Decoder, events: list[bytes]) -> None:
    outcome = model.learn([decoder.event(data) for data in events])
    assert outcome.learned == len(events)
    model.count_rejects(["type"])


def test_a_snapshot_of_the_first_format_is_restored():
    """The first format has no marks and no history."""
    snapshot = decode(OLDER.read_bytes())
    assert snapshot.bookmark == Bookmark({"0": "40"}, {})
    assert snapshot.lineage == Lineage()
    assert snapshot.whole
    assert snapshot.classes == ["x", "z", "y"]
    assert snapshot.rejects == {"type": 1}
    assert snapshot.events == 40
    assert snapshot.state_digest == STATE_AT_GOLDEN
    assert snapshot._replace(state_digest=None).with_digest() == snapshot
    check_same(decode(in_bytes(snapshot)), snapshot)
    model, decoder = golden_model()
    model.restore(snapshot)
    assert state_digest(model.state) == STATE_AT_GOLDEN
    learn(model, decoder, golden_events(40, 80))
    assert state_digest(model.state) == STATE_AFTER_GOLDEN


def test_the_same_events_give_the_state_of_the_first_snapshot():
    model, decoder = golden_model()
    learn(model, decoder, golden_events(0, 40))
    snapshot = decode(OLDER.read_bytes())
    assert state_digest(model.state) == snapshot.state_digest
    assert model.labels.names == snapshot.classes
    assert model.rejects == snapshot.rejects
    assert model.progress.errors == snapshot.errors
