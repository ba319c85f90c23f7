"""`onepass checkpoints diff` shows what changed between two generations."""

import json

import numpy as np

from service.checkpoint.lineage import Lineage
from service.checkpoint.snapshot import Snapshot
from service.operations.inspect import compare_generations
from service.sources.base import BEGINNING
from tests.service.cli.five_generations import (  # noqa: F401  # fixtures
    ask_fixture,
    ask_json_fixture,
    world_fixture,
)


def test_diff_compares_two_generations(ask, ask_json):
    found = ask_json("diff", 2, 5)
    shown = {generation: ask_json("show", "--generation", generation) for generation in (2, 5)}
    assert found["events"] == shown[5]["events"] - shown[2]["events"] == 114
    assert found["errors"] == shown[5]["errors"] - shown[2]["errors"]
    assert found["error_rate"] == found["errors"] / 114
    assert found["positions"] == [
        {"partition": "file:events.jsonl/0", "from": "80", "to": "200", "moved": 120}
    ]
    assert found["rejects"] == {"malformed": 6}
    assert found["settings"] == {}
    assert {array["name"] for array in found["arrays"]} >= {"state/updates"}
    out = ask("diff", 2, 5)
    assert "events     +114" in out
    assert "80 -> 200 (+120)" in out
    assert "unchanged  " in out
    back = ask_json("diff", 5, 2)
    assert (back["events"], back["error_rate"]) == (-114, None)
    same = ask_json("diff", 3, 3)
    assert all(array["norm"] == 0.0 and array["changed"] == 0 for array in same["arrays"])


def small(model, **arrays) -> Snapshot:
    counts = {"progress/events": np.array([0]), "progress/errors": np.array([0])}
    arrays = {f"state/{name}": np.array(array) for name, array in arrays.items()}
    return Snapshot(model, ["a"], BEGINNING, Lineage(), {}, None, counts | arrays)


def test_diff_names_settings_slots_and_special_values():
    before = small(
        {"learner": {"C": 0.1, "kind": "pa1"}},
        w=[[0.0, 1.0, 2.0], [0.0, 0.0, np.nan]],
        n=[1],
        gone=[1.0],
        same=[np.nan, 0.0],
    )
    after = small(
        {"learner": {"C": 0.2, "kind": "pa1", "J": 1}},
        w=[[3.0, 1.0, 2.5], [0.0, 0.0, np.inf]],
        n=[5],
        new=[1.0, 2.0],
        same=[np.nan, 0.0],
    )
    found = compare_generations((1, before), (2, after))
    assert found["settings"] == {"learner.C": [0.1, 0.2], "learner.J": [None, 1]}
    arrays = {array["name"].removeprefix("state/"): array for array in found["arrays"]}
    assert arrays["w"]["changed"] == 2
    assert arrays["w"]["slots"] == 3
    assert [(one["row"], one["slot"]) for one in arrays["w"]["largest"]] == [(1, 2), (0, 0), (0, 2)]
    assert arrays["w"]["largest"][0] == {"row": 1, "slot": 2, "from": "nan", "to": "inf"}
    assert arrays["w"]["norm"] == "nan"
    assert arrays["n"]["norm"] == 4.0
    assert arrays["same"]["changed"] == 0
    assert arrays["gone"] == {"name": "state/gone", "from": "<f8[1]", "to": None}
    assert arrays["new"]["to"] == "<f8[2]"
    json.loads(json.dumps(found, allow_nan=False))


def test_diff_is_readable_without_json(ask, ask_json):
    """Arrays with a number per slot come first, with the names of columns; counters follow, one
    line each.
    """
    found = ask_json("diff", 2, 5)
    kinds = [array["per_slot"] for array in found["arrays"]]
    assert kinds == sorted(kinds, reverse=True)
    assert True in kinds
    names = {
        one.get("name")
        for array in found["arrays"]
        for one in array["largest"]
        if array["per_slot"]
    }
    assert "size" in names
    assert names <= {"bias", "size", None}, "a hashed slot has no name"
    lines = ask("diff", 2, 5).splitlines()
    assert any(line.strip().startswith("size (slot 1): ") for line in lines)
    assert any(line.strip().startswith("slot ") for line in lines), "a hashed slot has no name"
    updates = next(line for line in lines if "state/updates" in line)
    assert updates.startswith("number     state/updates: ")
    assert lines.index(updates) > max(
        n for n, line in enumerate(lines) if line.startswith("array ")
    )
