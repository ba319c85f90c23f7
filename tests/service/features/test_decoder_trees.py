"""Events with trees: how they are decoded, why and where one is rejected, and that no text crashes
the decoder.
"""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from learners.batch import NO_TREES
from learners.kernel.tree_parser import flatten_tree
from learners.registry import make
from service.checkpoint.lineage import Lineage
from service.config.settings import Features, Label, Limits
from service.features.decoder import Decoder, Event, batch
from service.features.reject import REASONS, Reject
from service.features.text import CHARACTERS_PER_NODE
from service.model.checkpoint_checks import MismatchError
from service.model.model import Model
from service.sources.base import BEGINNING
from tests.examples import examples
from tests.looped import looped
from tests.service.api.api_client import CANARY, Client, check_error
from tests.service.api.ingest_log import (  # noqa: F401  # fixtures
    client_fixture,
    log_fixture,
    make_client_fixture,
)
from tests.service.checkpoint.batches import comparable

some = examples(150)

TEXT = "(S (NP (PRP I)) (VP (VBP run)))"
NESTED = Decoder(Features(columns=("amount",), bits=4, tree="parse"), Label(), Limits(max_nodes=6))
FLAT = Decoder(
    Features(columns=("amount",), bits=4, tree="parse", flat=True), Label(), Limits(max_nodes=6)
)
ONLY = Decoder(Features(bits=0, tree="parse"), Label(), Limits(max_nodes=6))
PLAIN = Decoder(Features(columns=("amount",), bits=4), Label(), Limits())


def body(**fields):
    return json.dumps(fields).encode()


def same(found, row, text=TEXT):
    """Check that the event has this row and this tree."""
    assert isinstance(found, Event), found
    assert dict(zip(found.slots, found.values, strict=True)) == row
    for mine, wanted in zip(found.tree, flatten_tree(text, 100), strict=True):
        assert mine.tolist() == wanted.tolist()
    return True


ROW = {0: 1.0, 1: 2.0}


def test_a_tree_is_read_beside_the_features_in_every_form():
    nested, flat = {"features": {"amount": 2}, "parse": TEXT}, {"amount": 2, "parse": TEXT}
    for decode, document in ((NESTED, nested), (FLAT, flat)):
        assert same(decode.event(body(label=1, **document)), ROW)
        assert same(decode.posted(body(label=1, **document)), ROW)
        assert same(decode.instance(body(**document)), ROW)
        found = decode.instances(body(instances=[document]), 1)
        assert comparable(found) == comparable(batch([decode.instance(body(**document))]))


def test_an_event_with_a_tree_needs_no_features():
    for decode in (NESTED, FLAT, ONLY):
        assert same(decode.event(body(label=1, parse=TEXT)), {0: 1.0})
        assert same(decode.posted(body(label=1, parse=TEXT)), {0: 1.0})
        assert same(decode.instance(body(parse=TEXT)), {0: 1.0})
    assert NESTED.event(body(label=1, parse=TEXT, features=None)) == Reject("malformed")


def test_a_model_of_trees_alone_ignores_features_in_the_log():
    """The log may have features for other readers; in a request they are refused."""
    given = {"features": {"amount": [[]]}, "parse": TEXT}
    assert same(ONLY.event(body(label=1, **given)), {0: 1.0})
    assert ONLY.posted(body(label=1, features={"amount": 2}, parse=TEXT)) == Reject(
        "unknown_feature"
    )
    assert ONLY.instance(body(features={"amount": 2}, parse=TEXT)) == Reject("unknown_feature")


def test_without_trees_the_tree_field_is_unknown():
    given = {"features": {"amount": 2}, "tree": "((", "parse": 7}
    assert PLAIN.event(body(label=1, **given)) == Event([0, 1], [1.0, 2.0], "1", 1.0)
    assert PLAIN.posted(body(label=1, **given)) == Reject("unknown_field")
    assert PLAIN.instance(body(**given)) == Reject("unknown_field")


@looped(
    ("given", "character"),
    [
        ({}, None),
        ({"parse": None}, None),
        ({"parse": 7}, None),
        ({"parse": [TEXT]}, None),
        ({"tree": TEXT}, None),
        ({"parse": ""}, 0),
        ({"parse": "(S x"}, 0),
        ({"parse": f"{TEXT} {CANARY}"}, len(TEXT) + 1),
        ({"parse": "(日 (本 (語 x)) )😀"}, 14),
        ({"parse": "(A (B (C (D (E (F (G x)))))))"}, 18),
        ({"parse": "(" * 300}, 6),
    ],
)
def test_an_invalid_tree_is_rejected_with_its_character(given, character):
    wanted = Reject("tree", character=character)
    for decode in (NESTED, ONLY):
        assert decode.event(body(features={}, label=1, **given)) == wanted
    strict = Reject("unknown_field") if "tree" in given else wanted
    assert NESTED.posted(body(features={}, label=1, **given)) == strict
    assert NESTED.instance(body(features={}, **given)) == strict
    good = {"features": {}, "parse": TEXT}
    found = NESTED.instances(body(instances=[good, {"features": {}, **given}]), 5)
    assert found == strict._replace(place=1)


def test_a_tree_text_too_long_for_its_nodes_is_not_parsed():
    decode = Decoder(Features(bits=0, tree="parse"), Label(), Limits(max_nodes=3))
    fits, longer = (f"(S {'x' * (CHARACTERS_PER_NODE * 3 - 4 + more)})" for more in (0, 1))
    assert decode.instance(body(parse=fits)).tree is not None
    for text in (longer, "(" * 500_000, "(S " + "x " * 500_000 + ")"):
        assert decode.instance(body(parse=text)) == Reject(
            "tree", character=CHARACTERS_PER_NODE * 3
        )


def test_the_message_names_the_character_but_nothing_of_the_tree():
    assert Reject("tree").message == REASONS["tree"]
    assert Reject("tree", character=7).message == f"{REASONS['tree']}; it is wrong at character 7"
    assert (
        Reject("tree", 2, 7).message == f"instance 2: {REASONS['tree']}; it is wrong at character 7"
    )


def test_the_limit_of_nodes_is_exact():
    six, seven = ("(A " * n + "x" + ")" * n for n in (6, 7))
    assert same(NESTED.event(body(label=1, parse=six)), {0: 1.0}, six)
    assert NESTED.event(body(label=1, parse=seven)) == Reject("tree", character=18)
    assert Decoder(Features(tree="t"), Label(), Limits()).limits.max_nodes == 256


@some
@given(
    st.one_of(st.text(), st.text("() \nab\u00e9\U0001f333", max_size=60), st.none(), st.integers())
)
@example(TEXT)
def test_no_tree_text_crashes_the_decoder(text):
    for decode in (NESTED, FLAT, ONLY):
        for found in (decode.event(body(label=1, parse=text)), decode.instance(body(parse=text))):
            if isinstance(found, Reject):
                assert found.reason == "tree"
                assert found.character is None or 0 <= found.character <= len(text)
            else:
                batch([found]).validate(decode.slots.dim)
                assert found.tree.productions.size <= 6


def test_a_batch_has_one_tree_per_row_or_no_trees():
    texts = [TEXT, "(A b)", "(A (B c))"]
    X = batch([NESTED.event(body(label=1, parse=text)) for text in texts]).validate(
        NESTED.slots.dim
    )
    for t, text in enumerate(texts):
        for mine, wanted in zip(X.trees.rows(t, t + 1), flatten_tree(text, 100), strict=True):
            assert mine.tolist() == wanted.tolist()
    assert batch([PLAIN.event(body(label=1, features={}))]).trees is NO_TREES
    assert batch([]).trees is NO_TREES


# Settings that fit together.


TREES = Features(bits=0, tree="parse")
USUAL = Limits()


def model(features=TREES, learner="k-perceptron:kernel=tree", limits=USUAL):
    label = Label()
    return Model(make(learner), features, label, Decoder(features, label, limits))


OVR = {"kind": "one_vs_rest", "max_classes": 64, "base": "k-perceptron:kernel=tree"}


@looped(
    ("features", "label", "learner", "words"),
    [
        (
            Features(tree="t"),
            Label(),
            "pa1",
            "features.tree: pa1 takes no trees.*kernel such as tree",
        ),
        (Features(tree="t"), Label(), "k-perceptron:kernel=rbf", "k-perceptron takes no trees"),
        (Features(tree="t"), Label(), {"kind": "scaled", "base": "pa1"}, "pa1 takes no trees"),
        (
            Features(),
            Label(),
            "k-perceptron:kernel=tree",
            "k-perceptron has a tree kernel.*features.tree.*--tree",
        ),
        (Features(), Label(), "k-perceptron:kernel=tree+linear", "has a tree kernel"),
        (Features(), Label(classes="grow"), OVR, "k-perceptron has a tree kernel"),
        (Features(tree="t"), Label(field="t"), "k-perceptron:kernel=tree", "both 't'"),
    ],
)
def test_a_learner_that_does_not_fit_the_features_is_refused(features, label, learner, words):
    with pytest.raises(ValueError, match=words):
        Model(make(learner), features, label, Decoder(features, label, Limits()))


@looped(
    "wrong",
    [
        {"tree": ""},
        {"tree": "features"},
        {"tree": "weight"},
        {"tree": "t", "columns": ("t",), "flat": True},
        {"tree": "t", "text": ("t",), "flat": True},
        {"bits": 0},
    ],
)
def test_impossible_tree_settings_are_refused(wrong):
    with pytest.raises(ValueError, match=r"tree|bits"):
        Features(**wrong)


def test_checkpoints_from_before_trees_still_fit():
    features = Features(columns=("a",), bits=2)
    now = model(features, "pa1")
    snapshot = now.snapshot(BEGINNING, Lineage(), whole=True)
    older = {part: dict(made) for part, made in snapshot.model.items()}
    del older["features"]["tree"], older["limits"]["max_nodes"]
    model(features, "pa1").restore(snapshot._replace(model=older))
    with_trees = model(
        Features(columns=("a",), bits=2, tree="t"), "k-perceptron:kernel=tree+linear"
    )
    with pytest.raises(MismatchError, match=r"features\.tree"):
        with_trees.check(snapshot._replace(model=older))


def learn_texts(texts, limits=Limits()):  # noqa: B008  # frozen
    made = model(limits=limits)
    decode = Decoder(Features(bits=0, tree="parse"), Label(), limits)
    made.learn([decode.event(body(label=n % 2, parse=text)) for n, text in enumerate(texts)])
    return made


def test_a_model_of_trees_learns_and_is_restored_from_a_checkpoint():
    texts = [f"(S (A {'xy'[n % 2]}) (B {n % 3}))" for n in range(30)]
    made = learn_texts(texts)
    assert made.updates() > 0
    snapshot = made.snapshot(BEGINNING, Lineage(), whole=True)
    again = model()
    again.restore(snapshot)
    decode = Decoder(Features(bits=0, tree="parse"), Label(), Limits())
    asked = [decode.instance(body(parse=text)) for text in ("(S (A x) (B 0))", "(S (A y) (B 0))")]
    _, answers = made.predict(batch(asked))
    assert [answer.label for answer in answers] == [-1, 1]
    assert again.predict(batch(asked))[1] == answers


# Over HTTP.

TREES = {
    "features": {"columns": ["amount"], "bits": 4, "tree": "parse"},
    "learner": "k-perceptron:kernel=tree+linear",
}


def test_trees_are_predicted_over_http():
    asked = Client(**TREES)
    assert asked.post("/predict", {"features": {"amount": 1}, "parse": TEXT}).status_code == 200
    assert asked.post("/predict/batch", {"instances": [{"parse": TEXT}] * 2}).status_code == 200
    element = json.dumps({"parse": TEXT})
    tensor = {"name": "instances", "datatype": "BYTES", "shape": [1], "data": [element]}
    assert asked.post("/v2/models/m/infer", {"inputs": [tensor]}).status_code == 200


def test_a_wrong_tree_is_refused_with_its_character_alone():
    asked = Client(**TREES)
    wrong = f"{TEXT} {CANARY}"
    reply = asked.post("/predict", {"parse": wrong})
    assert check_error(reply, 422) == "tree"
    assert reply.json()["error"]["message"].endswith(f"character {len(TEXT) + 1}")
    reply = asked.post("/predict/batch", {"instances": [{"parse": TEXT}, {"parse": wrong}]})
    assert check_error(reply, 422) == "tree"
    message = reply.json()["error"]["message"]
    assert message.startswith("instance 1: ")
    assert message.endswith(f"character {len(TEXT) + 1}")
    assert check_error(asked.post("/predict", {"features": {}}), 422) == "tree"
    assert (
        check_error(Client().post("/predict", {"features": {}, "parse": TEXT}), 422)
        == "unknown_field"
    )


def test_a_tensor_of_columns_is_refused_by_a_model_of_trees():
    asked = Client(**TREES)
    assert [one["name"] for one in asked.get("/v2/models/m").json()["inputs"]] == ["instances"]
    tensor = {"name": "features", "datatype": "FP64", "shape": [1, 1], "data": [1.0]}
    reply = asked.post("/v2/models/m/infer", {"inputs": [tensor]})
    assert reply.status_code == 422
    assert "instances" in reply.json()["error"]
    assert [one["name"] for one in Client().get("/v2/models/m").json()["inputs"]] == [
        "features",
        "instances",
    ]


def test_a_posted_tree_is_appended_unchanged(make_client, log):
    asked = make_client(**TREES)
    data = body(parse=TEXT, label="fraud")
    assert asked.ask("POST", "/events", data).status_code == 202
    assert log.values == [data]
    assert check_error(asked.post("/events", {"parse": "(", "label": "fraud"}), 422) == "tree"
    assert log.values == [data]


def test_the_openapi_document_declares_the_tree():
    for features in (TREES["features"], TREES["features"] | {"flat": True}):
        shapes = (
            Client(**TREES | {"features": features})
            .get("/openapi.json")
            .json()["components"]["schemas"]
        )
        for shape in ("Instance", "Event"):
            assert shapes[shape]["properties"]["parse"]["type"] == "string"
            assert "parse" in shapes[shape]["required"]
            assert "features" not in shapes[shape]["required"]
        inputs = shapes["V2Request"]["properties"]["inputs"]["items"]["oneOf"]
        assert [one["properties"]["name"]["const"] for one in inputs] == ["instances"]
    shapes = Client().get("/openapi.json").json()["components"]["schemas"]
    assert "tree" not in shapes["Instance"]["properties"]
    assert shapes["Instance"]["required"] == ["features"]
