"""An explanation sums its parts to the score, under the names that were sent."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.cli.catalog import execute
from service.config.loader import parse
from service.features.decoder import Decoder, instance_with_names
from tests.examples import examples
from tests.looped import looped
from tests.service.api.api_client import check_error, conforms
from tests.service.model.explained_model import (
    BASE,
    CASES,
    Client,
    check_explanations_while_it_learns,
    everything,
    row,
)

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
            features.pop("age")  # absent, but it has weight where zeros take part
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


def test_an_explanation_uses_the_names_that_were_sent():
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


def test_an_explanation_shows_the_scaled_value_beside_the_sent_one():
    client = Client(**CASES["scaled, centred"])
    found = {f["name"]: f for f in client.explain(amount=100)["explanation"]["features"]}
    assert found["amount"]["value"] == 100
    assert 1 < found["amount"]["scaled"] < 50
    assert found["age"]["value"] == 0, "an absent feature that takes part has the value 0"
    assert found["age"]["scaled"] < 0


def test_collisions_are_reported():
    """Two names of the request may share a slot, and one may share it with a learned name."""
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
    assert "collides_with" not in own, "a request must not add a name"


def test_an_explanation_says_whether_names_are_complete():
    assert Client(max_feature_names=0).explain(kind="a")["explanation"]["names_complete"] is False
    assert Client(max_feature_names=2).explain(kind="a")["explanation"]["names_complete"] is False
    assert (
        Client(**CASES["fs"], max_feature_names=0).explain(amount=1)["explanation"][
            "names_complete"
        ]
        is True
    )


def test_the_runner_up_is_the_class_with_the_second_best_score():
    client = Client(**CASES["one_vs_rest"])
    for n in range(10):
        answer = client.explain(**row(n, client.settings.features))
        ranked = sorted(answer["scores"].items(), key=lambda pair: -pair[1])
        runner_up = answer["explanation"]["runner_up"]
        assert answer["label"] == ranked[0][0]
        assert (runner_up["label"], runner_up["score"]) == ranked[1]
        assert total(runner_up) == pytest.approx(runner_up["score"], rel=1e-9, abs=1e-12)


def test_before_the_first_class_an_explanation_is_empty():
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


def test_at_most_100_features_are_listed_and_the_rest_is_summed():
    client = Client(events=False)
    client.learn({"features": {f"f{n}": n + 1 for n in range(150)}, "label": "x"})
    answer = client.explain(**{f"f{n}": 1 for n in range(150)})
    explanation = answer["explanation"]
    slots = {client.decoder.slots.compute_slot(f"f{n}") for n in range(150)}
    assert len(explanation["features"]) == 100
    assert explanation["omitted"]["count"] == len(slots) - 100
    assert explanation["omitted"]["contribution"] > 0
    assert total(explanation) == pytest.approx(answer["score"])


def test_predict_explains_on_request():
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


@looped("query", ["explain=yes", "explain=", "explain=TRUE", "explain=1"])
def test_explain_accepts_only_true_and_false(query):
    assert check_error(Client().ask("POST", f"/predict?{query}", {"features": {}}), 422) == "query"


def test_a_batch_is_not_explained():
    for word in ("true", "false"):
        reply = Client().ask("POST", f"/predict/batch?explain={word}", {"instances": []})
        assert check_error(reply, 422) == "query"


@looped(
    ("learner", "document", "code"),
    [
        ("pa1", {"features": {"amount": "canary-7f3a"}}, "type"),
        ("pa1", {"features": {"amount": 1e60}}, "numeric"),
        ("mbw", {"features": {"amount": -1}}, "negative"),
        ("pa1", {"features": {}, "canary-7f3a": 1}, "unknown_field"),
        ("pa1", [], "malformed"),
    ],
)
def test_an_invalid_request_is_not_explained(learner, document, code):
    client = Client(learner=learner)
    assert check_error(client.ask("POST", "/explain", document), 422) == code
    assert check_error(client.ask("POST", "/predict?explain=true", document), 422) == code


def test_a_model_that_is_not_ready_explains_nothing():
    client = Client()
    client.health.ready = False
    assert check_error(client.ask("POST", "/explain", {"features": {}}), 503) == "not_ready"


@every_case
def test_explain_and_weights_change_no_bit(case):
    client = Client(**case)
    before = everything(client)
    client.explain(amount=3, **({"brand": "new"} if client.settings.features.bits else {}))
    assert client.ask("GET", "/weights?top=1000").status_code == 200
    assert everything(client) == before


def test_an_explanation_is_of_the_state_that_answered():
    check_explanations_while_it_learns(Client(learner="perceptron", events=False), total)


VALUES = st.one_of(
    st.floats(-9, 9),
    st.sampled_from(["a", "b", "word other", "", "\n"]),
    st.booleans(),
    st.lists(st.sampled_from(["a", "b"]), max_size=3),
)


@examples(100)
@given(
    features=st.dictionaries(
        st.sampled_from(["amount", "note", "kind", "k=a", "k", "f", "g"]), VALUES, max_size=6
    )
)
def test_decoding_with_names_gives_the_same_event(features):
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


def test_learners_equal_those_of_the_command(capsys):
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


def test_query_parameters_are_in_the_document():
    paths = Client().ask("GET", "/openapi.json").json()["paths"]
    told = {
        path: [one["name"] for one in paths[path][verb].get("parameters", [])]
        for path, verb in QUERIES
    }
    assert told == {"/predict": ["explain"], "/explain": [], "/weights": ["top", "classes"]}


QUERIES = [("/predict", "post"), ("/explain", "post"), ("/weights", "get")]
