"""Explanations: the parts sum to the score, by the names that were sent; and the weights of all,
over HTTP.
"""

import asyncio
import json
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import service.model.explain
from learners.hashing import SlotTable
from service.checkpoint.lineage import Lineage
from service.cli.catalog import execute
from service.config.loader import parse
from service.features.decoder import Decoder, instance_with_names
from service.features.slot_names import SlotNames
from service.model.explain import explain, summary, weights_of
from service.sources.base import BEGINNING
from tests.looped import looped
from tests.service.api.api_client import check_error, conforms
from tests.service.model.explained_model import BASE, COLUMNS, GROW, Client, row

ONE_VS_REST = {"kind": "one_vs_rest", "max_classes": 3, "base": "pa1"}
CASES = {
    "pa1": {"learner": "pa1"},
    "scaled, centred": {"learner": {"kind": "scaled", "base": "pa1"}, "features": COLUMNS},
    "scaled, hashed": {"learner": {"kind": "scaled", "base": "arow"}},
    "mbw": {"learner": "mbw"},
    "selected mbw": {
        "learner": {
            "kind": "selected",
            "selector": "efs",
            "every": 5,
            "K": 12,
            "base": {"kind": "averaged", "base": "mbw"},
        }
    },
    "fs": {"learner": "fs", "features": COLUMNS},
    "fs2, hashed": {"learner": "fs2"},
    "fs3": {"learner": "fs3", "features": COLUMNS},
    "averaged": {"learner": {"kind": "averaged", "base": "sgd-log"}},
    "one_vs_rest": {"learner": ONE_VS_REST, "label": GROW},
    "all": {
        "learner": {
            "kind": "scaled",
            "base": ONE_VS_REST | {"base": {"kind": "averaged", "base": "pa2"}},
        },
        "label": GROW,
        "features": COLUMNS,
    },
    "without bias": {"learner": "pa1", "features": BASE["features"] | {"bias": False}},
}
every_case = looped("case", CASES.values(), ids=CASES)


def total(parts):
    features = parts["features"]
    return (
        parts["bias"]
        + parts["constant"]
        + sum(f["contribution"] for f in features)
        + parts["omitted"]["contribution"]
    )


@every_case
def test_contributions_bias_and_constant_sum_to_the_score(case):
    client = Client(**case)
    document = client.ask("GET", "/openapi.json").json()
    for n in range(38, 46):
        features = row(n, client.settings.features)
        if n % 2:
            features.pop("age")  # absent, and yet of weight where zeros take part
        said = client.ask("POST", "/predict", {"features": features}).json()
        answer = client.explain(**features)
        explanation = answer["explanation"]
        assert conforms(answer, {"$ref": "#/components/schemas/Explained"}, document)
        assert {name: answer[name] for name in said if name != "model"} == {
            k: v for k, v in said.items() if k != "model"
        }
        assert explanation["score"] == answer["score"]
        assert total(explanation) == pytest.approx(answer["score"], rel=1e-9, abs=1e-12)
        for feature in explanation["features"]:
            assert feature["contribution"] == feature["scaled"] * feature["weight"]
        sizes = [abs(feature["contribution"]) for feature in explanation["features"]]
        assert sizes == sorted(sizes, reverse=True)
        sent = {f["name"]: f["value"] for f in explanation["features"]}
        assert sent["amount"] == features["amount"]
        assert any(sizes)


def test_names_are_those_that_were_sent():
    client = Client(features=BASE["features"] | {"bits": 20})
    explanation = client.explain(amount=2, note="Word1 new", kind="b", flag=True, n=3, age=0)[
        "explanation"
    ]
    found = {feature["name"]: feature for feature in explanation["features"]}
    assert found.keys() == {
        "amount",
        "note=word1",
        "note=new",
        "note=word1 new",
        "kind=b",
        "flag=true",
        "n",
    }
    assert {name: feature["value"] for name, feature in found.items()} == dict.fromkeys(
        found, 1
    ) | {
        "amount": 2,
        "n": 3,
    }
    assert found["note=new"]["weight"] == 0.0
    assert found["kind=b"]["weight"] != 0.0
    assert "bias" not in found
    assert not any("collides_with" in feature for feature in found.values())
    assert explanation["names_complete"] is True
    assert explanation["runner_up"] is None


def test_a_scaled_value_is_told_beside_the_one_that_was_sent():
    client = Client(**CASES["scaled, centred"])
    found = {f["name"]: f for f in client.explain(amount=100)["explanation"]["features"]}
    assert found["amount"]["value"] == 100
    assert 1 < found["amount"]["scaled"] < 50
    assert found["age"]["value"] == 0, "absent, but it takes part"
    assert found["age"]["scaled"] < 0


def test_collisions_are_told():
    """Of two names of the request in one slot, and of one with another that was learned."""
    client = Client(events=False, features={"bits": 1})
    slot = client.decoder.slots.compute_slot
    first, second, third, *_ = [
        name for name in (f"n{k}" for k in range(99)) if slot(name) == slot("n0")
    ]
    client.learn({"features": {first: 1}, "label": "x"})
    (met,) = client.explain(**{second: 2, third: 3})["explanation"]["features"]
    assert (met["name"], met["value"], met["collides_with"]) == (second, 5, [third, first])
    (one,) = client.explain(**{third: 3})["explanation"]["features"]
    assert (one["name"], one["collides_with"]) == (third, [first])
    (own,) = client.explain(**{first: 3})["explanation"]["features"]
    assert "collides_with" not in own, "a request adds no name"


def test_without_names_a_collision_could_be_missed_and_that_is_told():
    assert Client(max_feature_names=0).explain(kind="a")["explanation"]["names_complete"] is False
    assert Client(max_feature_names=2).explain(kind="a")["explanation"]["names_complete"] is False
    assert (
        Client(**CASES["fs"], max_feature_names=0).explain(amount=1)["explanation"][
            "names_complete"
        ]
        is True
    )


def test_the_runner_up_is_the_second_best():
    client = Client(**CASES["one_vs_rest"])
    for n in range(10):
        answer = client.explain(**row(n, client.settings.features))
        ranked = sorted(answer["scores"].items(), key=lambda pair: -pair[1])
        runner_up = answer["explanation"]["runner_up"]
        assert answer["label"] == ranked[0][0]
        assert (runner_up["label"], runner_up["score"]) == ranked[1]
        assert total(runner_up) == pytest.approx(runner_up["score"], rel=1e-9, abs=1e-12)


def test_before_there_are_classes():
    client = Client(events=False, **CASES["one_vs_rest"])
    nothing = {"bias": 0, "constant": 0, "features": [], "omitted": {"count": 0, "contribution": 0}}
    answer = client.explain(amount=1)
    assert answer["label"] is None
    assert answer["explanation"] == nothing | {
        "score": None,
        "runner_up": None,
        "names_complete": True,
    }
    client.learn({"features": {"amount": 1}, "label": "only"})
    assert client.explain(amount=1)["explanation"]["runner_up"] is None


def test_many_features_are_told_up_to_a_hundred_and_the_rest_as_a_sum():
    client = Client(events=False)
    client.learn({"features": {f"f{n}": n + 1 for n in range(150)}, "label": "x"})
    answer = client.explain(**{f"f{n}": 1 for n in range(150)})
    explanation = answer["explanation"]
    slots = {client.decoder.slots.compute_slot(f"f{n}") for n in range(150)}
    assert len(explanation["features"]) == 100
    assert explanation["omitted"]["count"] == len(slots) - 100
    assert explanation["omitted"]["contribution"] > 0
    assert total(explanation) == pytest.approx(answer["score"])


def test_predict_explains_when_it_is_asked_to():
    client = Client()
    request = {"features": {"amount": 3, "kind": "a"}}
    plain, explained = (
        client.ask("POST", f"/predict?explain={word}", request).json() for word in ("false", "true")
    )
    assert "explanation" not in plain
    assert explained["explanation"] == client.explain(**request["features"])["explanation"]
    document = client.ask("GET", "/openapi.json").json()
    for answer in (plain, explained):
        assert conforms(answer, {"$ref": "#/components/schemas/Predicted"}, document)


@pytest.mark.parametrize("query", ["explain=yes", "explain=", "explain=TRUE", "explain=1"])
def test_another_word_than_true_and_false_is_refused(query):
    assert check_error(Client().ask("POST", f"/predict?{query}", {"features": {}}), 422) == "query"


def test_a_batch_is_not_explained():
    for word in ("true", "false"):
        reply = Client().ask("POST", f"/predict/batch?explain={word}", {"instances": []})
        assert check_error(reply, 422) == "query"


@pytest.mark.parametrize(
    ("learner", "document", "code"),
    [
        ("pa1", {"features": {"amount": "canary-7f3a"}}, "type"),
        ("pa1", {"features": {"amount": 1e60}}, "numeric"),
        ("mbw", {"features": {"amount": -1}}, "negative"),
        ("pa1", {"features": {}, "canary-7f3a": 1}, "unknown_field"),
        ("pa1", [], "malformed"),
    ],
)
def test_what_cannot_be_predicted_is_not_explained(learner, document, code):
    client = Client(learner=learner)
    assert check_error(client.ask("POST", "/explain", document), 422) == code
    assert check_error(client.ask("POST", "/predict?explain=true", document), 422) == code


def test_a_model_that_is_not_ready_explains_nothing():
    client = Client()
    client.health.ready = False
    assert check_error(client.ask("POST", "/explain", {"features": {}}), 503) == "not_ready"


@every_case
def test_explaining_and_weighing_change_no_bit(case):
    client = Client(**case)

    def everything():
        snapshot = client.model.snapshot(BEGINNING, Lineage(), whole=True)
        return [(name, array.tobytes()) for name, array in snapshot.arrays.items()]

    before = everything()
    client.explain(amount=3, **({"brand": "new"} if client.settings.features.bits else {}))
    assert client.ask("GET", "/weights?top=1000").status_code == 200
    assert everything() == before


def test_an_explanation_is_of_the_state_that_answered():
    """While another thread learns."""
    client = Client(learner="perceptron", events=False)
    stop = threading.Event()

    def learn():
        n = 0
        while not stop.is_set():
            client.learn(
                {
                    "features": {"amount": 1 + n % 3, "kind": "ab"[n % 2]},
                    "label": "xy"[n * 7 % 5 % 2],
                }
            )
            n += 1

    thread = threading.Thread(target=learn)
    thread.start()
    try:
        named = instance_with_names(client.decoder, b'{"features": {"amount": 2, "kind": "a"}}')
        for _ in range(300):
            _, answer, explanation = explain(client.model, named)
            assert total(explanation) == pytest.approx(answer.score, rel=1e-9, abs=1e-12)
    finally:
        stop.set()
        thread.join()


VALUES = st.one_of(
    st.floats(-9, 9),
    st.sampled_from(["a", "b", "word other", "", "\n"]),
    st.booleans(),
    st.lists(st.sampled_from(["a", "b"]), max_size=3),
)


@settings(max_examples=100, derandomize=True, deadline=None)
@given(
    features=st.dictionaries(
        st.sampled_from(["amount", "note", "kind", "k=a", "k", "f", "g"]), VALUES, max_size=6
    )
)
def test_the_names_of_a_request_are_of_its_slots_and_its_event_is_the_same(features):
    parsed = parse(BASE | {"learner": "pa1"}, "test")
    decoder = Decoder(parsed.features.model_copy(update={"bits": 3}), parsed.label, parsed.limits)
    data = json.dumps({"features": features}).encode()
    named, event = instance_with_names(decoder, data), decoder.instance(data)
    if event != named:  # not a reject
        assert named.event == event
        hashed = {slot for slot in event.slots if slot >= 3}
        assert hashed <= named.names.keys()
        for slot, names in named.names.items():
            assert len(set(names)) == len(names) > 0
            assert all(decoder.slots.compute_slot(name) == slot for name in names)


def test_weights_of_two_classes():
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


def test_a_slot_without_a_name_and_one_with_two():
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


@pytest.mark.parametrize(
    "query", ["top=0", "top=1001", "top=-1", "top=x", "top=", "top=1.5", "top=²", "classes=0"]
)
def test_numbers_beyond_the_bounds_are_refused(query):
    assert check_error(Client().ask("GET", f"/weights?{query}"), 422) == "query"


@settings(max_examples=100, derandomize=True, deadline=None)
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
    assert told["norm"] == pytest.approx(np.linalg.norm(weights))


def test_weights_wait_for_each_other_and_nothing_waits_for_them(monkeypatch):
    client = Client()
    running, most, begun, gate = [], [], threading.Event(), threading.Event()

    def slow(*asked):
        running.append(1)
        most.append(len(running))
        begun.set()
        gate.wait(10)
        running.pop()
        return weights_of(*asked)

    monkeypatch.setattr("service.api.explain.weights_of", slow)

    async def ask():
        asking = [asyncio.create_task(client.send("GET", "/weights")) for _ in range(2)]
        await asyncio.to_thread(begun.wait, 5)
        predicted = await asyncio.wait_for(
            client.send("POST", "/predict", {"features": {"amount": 1}}), 5
        )
        assert not any(task.done() for task in asking)
        gate.set()
        return [predicted, *await asyncio.gather(*asking)]

    assert [reply.status_code for reply in asyncio.run(ask())] == [200] * 3
    assert most == [1, 1]


def test_the_lock_is_held_while_weights_are_copied_and_not_while_they_are_ranked(monkeypatch):
    client = Client()
    kind, held = type(client.model.learner), []
    weights, partition = kind.weights, np.argpartition

    def copied(*asked):
        held.append(("copied", client.model.lock.mine))
        return weights(*asked)

    def ranked(*asked):
        held.append(("ranked", client.model.lock.mine))
        return partition(*asked)

    monkeypatch.setattr(service.model.explain, "BLOCK", 1500)
    monkeypatch.setattr(kind, "weights", copied)
    monkeypatch.setattr(np, "argpartition", ranked)
    assert client.ask("GET", "/weights").status_code == 200
    assert held == [("copied", True), ("ranked", False)] * 3, "2^12 slots, bias and two columns"


def test_learners_are_those_of_the_command(capsys):
    client = Client()
    reply = client.ask("GET", "/learners")
    arguments = type("Arguments", (), {"json": True, "markdown": False})
    assert execute("learners", arguments) == 0
    assert reply.json() == json.loads(capsys.readouterr().out)
    assert conforms(
        reply.json(),
        {"$ref": "#/components/schemas/Learners"},
        client.ask("GET", "/openapi.json").json(),
    )


def test_queries_are_in_the_document():
    paths = Client().ask("GET", "/openapi.json").json()["paths"]
    told = {
        path: [one["name"] for one in paths[path][verb].get("parameters", [])]
        for path, verb in QUERIES
    }
    assert told == {"/predict": ["explain"], "/explain": [], "/weights": ["top", "classes"]}


QUERIES = [("/predict", "post"), ("/explain", "post"), ("/weights", "get")]
