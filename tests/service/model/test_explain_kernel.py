"""Explanations of kernel models: the stored rows whose sum is the score, by name, over HTTP; and
the counts of stored rows.
"""

import json

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

import service.model.explain
from learners.batch import Batch
from learners.kernel.tree_parser import flatten_tree
from learners.registry import make
from service.client import Client as Caller
from tests.service.api.api_client import conforms
from tests.service.api.serving import serve
from tests.service.model.explained_model import (
    BASE,
    COLUMNS,
    GROW,
    Client,
    check_explanations_while_it_learns,
    everything,
    row,
)
from tests.waiting import HANG_SECONDS

KERNEL = {"kind": "k-perceptron", "max_support": 30, "bias": "r2"}
ONE_VS_REST = {"kind": "one_vs_rest", "max_classes": 3, "base": KERNEL}
CASES = {
    "hashed": {"learner": KERNEL},
    "scaled": {"learner": {"kind": "scaled", "base": KERNEL}, "features": COLUMNS},
    "one_vs_rest": {"learner": ONE_VS_REST, "label": GROW},
    "all": {"learner": {"kind": "scaled", "base": ONE_VS_REST}, "label": GROW, "features": COLUMNS},
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def total(parts):
    rows = sum(one["contribution"] for one in parts["support"])
    return parts["constant"] + rows + parts["omitted"]["contribution"]


def check_parts(parts, score):
    assert parts["exact"] is True
    assert (parts["bias"], parts["features"]) == (0, [])
    assert parts["omitted"]["count"] == parts["stored"] - len(parts["support"])
    assert len(parts["support"]) == min(10, parts["stored"]) > 0
    assert total(parts) == pytest.approx(score, rel=1e-9, abs=1e-9)
    for one in parts["support"]:
        assert one["contribution"] == one["coefficient"] * one["similarity"]
        values = [abs(feature["value"]) for feature in one["features"]]
        assert values == sorted(values, reverse=True)
        assert 0.0 not in values
        assert one["tree_nodes"] == 0
    sizes = [abs(one["contribution"]) for one in parts["support"]]
    assert sizes == sorted(sizes, reverse=True)


@every_case
def test_contributions_of_rows_and_the_constant_sum_to_the_score(case):
    client = Client(**case)
    document = client.ask("GET", "/openapi.json").json()
    for n in range(38, 44):
        features = row(n, client.settings.features)
        said = client.ask("POST", "/predict", {"features": features}).json()
        answer = client.explain(**features)
        assert answer == client.ask(
            "POST", "/predict?explain=true", {"features": features}
        ).json() | {"model": answer["model"]}
        assert conforms(answer, {"$ref": "#/components/schemas/Explained"}, document)
        assert answer["score"] == answer["explanation"]["score"] == said["score"]
        check_parts(answer["explanation"], answer["score"])
        runner_up = answer["explanation"]["runner_up"]
        assert (runner_up is None) == ("scores" not in answer)
        if runner_up is not None:
            assert runner_up["score"] == sorted(answer["scores"].values())[-2]
            check_parts(runner_up, runner_up["score"])


def test_rows_that_are_not_listed_are_summed():
    client = Client(**CASES["hashed"])
    explanation = client.explain(**row(3, client.settings.features))["explanation"]
    assert explanation["stored"] > 10
    assert explanation["omitted"]["count"] > 0
    assert explanation["omitted"]["contribution"] != 0.0


def test_a_learned_row_is_listed_with_its_names():
    client = Client(events=False, learner=KERNEL, features=BASE["features"] | {"bits": 20})
    client.learn({"features": {"amount": 2, "kind": "b", "n": -5}, "label": "y"})
    client.learn({"features": {"amount": 70, "kind": "c"}, "label": "x"})
    (nearest, _) = client.explain(amount=2, kind="b", n=-5)["explanation"]["support"]
    assert (nearest["coefficient"], nearest["similarity"], nearest["contribution"]) == (
        -1.0,
        1.0,
        -1.0,
    )
    assert [(one["name"], one["value"]) for one in nearest["features"]] == [
        ("n", -5),
        ("amount", 2),
        ("kind=b", 1),
    ]
    assert nearest["features_omitted"] == 0


def test_an_explanation_shows_the_stored_values():
    client = Client(**CASES["scaled"])
    support = client.explain(amount=3)["explanation"]["support"]
    stored = client.model.state.base.support
    values = {round(value, 12) for value in stored.values[: stored.ends[stored.size[0]]].tolist()}
    told = [feature["value"] for one in support for feature in one["features"]]
    assert told
    assert all(round(value, 12) in values for value in told)
    assert min(told) < 0, "centred values must be listed, for no sent value is below 0"


def test_a_long_row_is_listed_with_its_20_largest_values():
    client = Client(events=False, learner=KERNEL, features={"bits": 20})
    client.learn({"features": {f"f{n}": n + 1 for n in range(30)} | {"nought": 0}, "label": "y"})
    (only,) = client.explain(f1=1)["explanation"]["support"]
    assert [one["value"] for one in only["features"]] == [*range(30, 10, -1)]
    assert only["features_omitted"] == 10


def test_slots_of_stored_rows_may_have_no_name_or_two():
    nameless = Client(learner=KERNEL, max_feature_names=0).explain(amount=1)["explanation"]
    told = [feature for one in nameless["support"] for feature in one["features"]]
    assert {feature["name"] for feature in told if feature["slot"] > 2} == {None}
    assert nameless["names_complete"] is False
    shared = Client(learner=KERNEL, features=BASE["features"] | {"bits": 2}).explain(amount=1)[
        "explanation"
    ]
    told = [
        feature for one in shared["support"] for feature in one["features"] if feature["slot"] > 2
    ]
    assert told
    assert all(len(feature["collides_with"]) == 1 for feature in told)


def test_before_the_first_row_an_explanation_is_empty():
    nothing = {"bias": 0, "constant": 0, "features": [], "support": [], "stored": 0, "exact": True}
    nothing |= {
        "omitted": {"count": 0, "contribution": 0},
        "runner_up": None,
        "names_complete": True,
    }
    for case, score in (("hashed", 0), ("one_vs_rest", None)):
        client = Client(events=False, **CASES[case])
        answer = client.explain(amount=1)
        assert answer["explanation"] == nothing | {"score": score}
        document = client.ask("GET", "/openapi.json").json()
        assert conforms(answer, {"$ref": "#/components/schemas/Explained"}, document)
        reply = client.ask("GET", "/weights").json()
        assert conforms(reply, {"$ref": "#/components/schemas/Weights"}, document)
        assert [one["support"] for one in reply["classes"]] == ([[]] if case == "hashed" else [])


@every_case
def test_weights_lists_the_largest_stored_rows(case):
    client = Client(**case)
    reply = client.ask("GET", "/weights").json()
    assert conforms(
        reply, {"$ref": "#/components/schemas/Weights"}, client.ask("GET", "/openapi.json").json()
    )
    names = client.model.labels.names if "label" in case else ["x"]
    assert [one["label"] for one in reply["classes"]] == list(names)
    for column, one in enumerate(reply["classes"]):
        stock = client.model.learner.support_usage(client.model.state, column)
        assert (one["top"], one["stored"], one["room"], one["norm"]) == (
            [],
            stock.rows,
            30,
            stock.norm,
        )
        assert len(one["support"]) == min(20, stock.rows) > 3
        assert [row["similarity"] for row in one["support"]] == [1.0] * len(one["support"]), (
            "an rbf row has similarity 1 with itself"
        )
        assert {abs(row["contribution"]) for row in one["support"]} == {1.0}, (
            "a perceptron's coefficients are 1 or -1"
        )
    few = client.ask("GET", "/weights?top=3&classes=1").json()["classes"]
    assert [one["support"] for one in few] == [reply["classes"][0]["support"][:3]]


def test_weights_lists_a_bounded_number_of_stored_rows(monkeypatch):
    client = Client(**CASES["hashed"])
    monkeypatch.setattr(service.model.explain, "MOST_SUMMARY_ROWS", 5)
    (only,) = client.ask("GET", "/weights?top=1000").json()["classes"]
    assert len(only["support"]) == 5 < only["stored"]


@every_case
def test_explain_weights_status_and_metrics_change_no_bit(case):
    client = Client(**case)
    before = everything(client)
    client.explain(amount=3)
    for path in ("/weights?top=1000", "/status", "/metrics"):
        assert client.ask("GET", path).status_code == 200
    assert everything(client) == before


def test_an_explanation_is_of_the_state_that_answered():
    client = Client(learner=KERNEL | {"max_support": 3000}, events=False)
    check_explanations_while_it_learns(client, total, near=1e-9)


def samples(client):
    text = client.ask("GET", "/metrics").text
    return {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@every_case
def test_status_and_metrics_count_the_stored_rows(case):
    client = Client(**case)
    status = client.ask("GET", "/status").json()
    assert conforms(
        status, {"$ref": "#/components/schemas/Status"}, client.ask("GET", "/openapi.json").json()
    )
    classes = client.ask("GET", "/weights").json()["classes"]
    assert status["support"] == {
        "rows": sum(one["stored"] for one in classes),
        "room": 30 * len(classes),
    }
    assert 0 < status["support"]["rows"] < status["support"]["room"]
    found = samples(client)
    assert found["onepass_support_rows"] == status["support"]["rows"]
    assert found["onepass_support_capacity_rows"] == status["support"]["room"]


def test_a_linear_model_reports_no_stored_rows():
    client = Client()
    assert client.ask("GET", "/status").json()["support"] is None
    assert not {"onepass_support_rows", "onepass_support_capacity_rows"} & samples(client).keys()


def test_the_typed_client_reads_kernel_explanations():
    client = Client(**CASES["one_vs_rest"])
    with serve(client.app) as address, Caller(f"http://{address}", timeout=HANG_SECONDS) as caller:
        features = row(40, client.settings.features)
        explanation = caller.explain(features)["explanation"]
        assert total(explanation) == pytest.approx(caller.predict(features).score)
        assert caller.status()["support"]["rows"] == sum(
            one["stored"] for one in caller.weights()["classes"]
        )


def test_a_stored_tree_is_listed_with_its_size():
    learner = make("k-perceptron:kernel=tree,gamma=1,width=1,nodes=9,max_support=4")
    state = learner.init(3)
    X = Batch.from_rows(
        [([0, 1], [1.0, 2.0])], trees=flatten_tree("(S (NP (N a)) (VP (V b)))", 100)
    )
    learner.learn(state, X, np.array([-1.0]))
    client = Client()
    told = service.model.explain.explain_support(
        learner.support_terms(state, X, 0, 3), client.model.names
    )
    (only,) = json.loads(json.dumps(told))["support"]
    assert (only["features"], only["tree_nodes"], only["contribution"]) == ([], 5, -1.0)
