"""`/weights` lists the largest weights of each class, by name."""

import asyncio
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import service.model.explain
from learners.hashing import SlotTable
from service.features.slot_names import SlotNames
from service.model.explain import summary, weights_of
from tests.examples import examples
from tests.looped import looped
from tests.service.api.api_client import check_error, conforms
from tests.service.model.explained_model import BASE, CASES, Client
from tests.waiting import HANG_SECONDS


def test_weights_lists_the_largest_weights_of_a_binary_model():
    client = Client(features=BASE["features"] | {"bits": 20})
    reply = client.ask("GET", "/weights").json()
    assert conforms(
        reply, {"$ref": "#/components/schemas/Weights"}, client.ask("GET", "/openapi.json").json()
    )
    assert reply["model"]["version"] == 40
    (only,) = reply["classes"]
    weights = client.model.learner.weights(client.model.state, 0)
    assert only["label"] == "x"
    assert only["dimension"] == weights.size == 3 + 2**20
    assert only["nonzero"] == np.count_nonzero(weights)
    assert only["sparsity"] == pytest.approx(1 - only["nonzero"] / weights.size)
    assert only["norm"] == pytest.approx(np.linalg.norm(weights))
    assert [entry["weight"] for entry in only["top"]] == sorted(
        weights[weights != 0], key=lambda w: -abs(w)
    )[:20]
    for entry in only["top"]:
        name = entry["name"]
        slots = {"bias": 0, "amount": 1, "age": 2}
        assert entry["slot"] == (
            slots[name] if name in slots else client.decoder.slots.compute_slot(name)
        )
    assert len(only["top"]) == 20
    assert len(client.ask("GET", "/weights?top=3").json()["classes"][0]["top"]) == 3


def test_weights_of_several_classes_are_capped():
    client = Client(**CASES["one_vs_rest"])
    every = client.ask("GET", "/weights").json()
    assert [entry["label"] for entry in every["classes"]] == client.model.labels.names
    assert every["omitted_classes"] == 0
    two = client.ask("GET", "/weights?classes=2").json()
    assert (two["classes"], two["omitted_classes"]) == (every["classes"][:2], 1)


def test_slots_of_weights_may_have_no_name_or_two():
    nameless = Client(max_feature_names=0).ask("GET", "/weights").json()["classes"][0]["top"]
    assert {entry["name"] for entry in nameless if entry["slot"] > 2} == {None}
    client = Client(features=BASE["features"] | {"bits": 2})
    shared = [
        entry
        for entry in client.ask("GET", "/weights").json()["classes"][0]["top"]
        if entry["slot"] > 2
    ]
    assert shared
    assert all(len(entry["collides_with"]) == 1 for entry in shared)


def test_a_fresh_model_has_no_weights():
    (only,) = Client(events=False).ask("GET", "/weights").json()["classes"]
    assert (only["top"], only["nonzero"], only["sparsity"], only["norm"]) == ([], 0, 1.0, 0.0)


@looped("query", ["top=0", "top=1001", "top=-1", "top=x", "top=", "top=1.5", "top=²", "classes=0"])
def test_numbers_beyond_the_bounds_are_refused(query):
    assert check_error(Client().ask("GET", f"/weights?{query}"), 422) == "query"


@examples(100)
@given(
    weights=st.lists(
        st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0, -3.0, 0.5]), min_size=1, max_size=40
    ),
    top=st.integers(1, 12),
)
def test_weights_are_summed_up_block_by_block(weights, top):
    blocks = [np.array(weights[start : start + 7]) for start in range(0, len(weights), 7)]
    told = summary(blocks, top, SlotNames(0, SlotTable([], 6, bias=True)))
    sizes = sorted((abs(weight) for weight in weights if weight), reverse=True)
    assert [abs(entry["weight"]) for entry in told["top"]] == sizes[:top]
    assert len({entry["slot"] for entry in told["top"]}) == len(told["top"])
    assert all(weights[entry["slot"]] == entry["weight"] for entry in told["top"])
    assert (told["nonzero"], told["dimension"]) == (len(sizes), len(weights))
    # The product sums squares block by block, the test at once.
    assert told["norm"] == pytest.approx(np.linalg.norm(weights))


def test_weights_requests_wait_for_each_other_but_predictions_do_not(monkeypatch):
    client = Client()
    running, most, begun, gate = [], [], threading.Event(), threading.Event()

    def slow(*asked):
        running.append(1)
        most.append(len(running))
        begun.set()
        gate.wait(HANG_SECONDS)
        running.pop()
        return weights_of(*asked)

    monkeypatch.setattr("service.api.explain.weights_of", slow)

    async def ask():
        asking = [asyncio.create_task(client.send("GET", "/weights")) for _ in range(2)]
        await asyncio.to_thread(begun.wait, HANG_SECONDS)
        predicted = await asyncio.wait_for(
            client.send("POST", "/predict", {"features": {"amount": 1}}), HANG_SECONDS
        )
        assert not any(task.done() for task in asking)
        gate.set()
        return [predicted, *await asyncio.gather(*asking)]

    assert [reply.status_code for reply in asyncio.run(ask())] == [200] * 3
    assert most == [1, 1]


def test_the_lock_is_held_only_while_weights_are_copied(monkeypatch):
    client = Client()
    kind, held = type(client.model.learner), []
    weights, partition = kind.weights, np.argpartition

    def copy(*asked):
        held.append(("copied", client.model.lock.mine))
        return weights(*asked)

    def rank(*asked):
        held.append(("ranked", client.model.lock.mine))
        return partition(*asked)

    monkeypatch.setattr(service.model.explain, "BLOCK", 1500)
    monkeypatch.setattr(kind, "weights", copy)
    monkeypatch.setattr(np, "argpartition", rank)
    assert client.ask("GET", "/weights").status_code == 200
    assert held == [("copied", True), ("ranked", False)] * 3, (
        "each block must be copied under the lock and ranked without it"
    )
