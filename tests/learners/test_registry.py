"""From a configuration to a learner and back, and the messages of a wrong configuration."""

import json

import pytest
from pydantic import ValidationError

from learners.catalog import describe
from learners.kernel.learner import KernelLearner
from learners.registry import COMPOSITIONS, KINDS, LEARNERS, kind_class, make
from tests.learners.specs import name, specs
from tests.looped import looped


@looped("kind", KINDS)
def test_every_entry_of_the_registry_leads_to_its_class(kind):
    cls = kind_class(kind)
    assert cls.model_fields["kind"].default == kind
    assert all("base" in kind_class(outer).model_fields for outer in COMPOSITIONS)


@looped("kind", LEARNERS)
def test_every_leaf_needs_no_parameter(kind):
    assert make(kind) == make({"kind": kind}) == make(json.dumps({"kind": kind}))


@looped("learner", specs(), ids=name)
def test_a_learner_is_rebuilt_from_its_dump(learner):
    assert make(learner.model_dump()) == learner
    assert make(learner.model_dump_json()) == learner
    assert make(learner) is learner


@looped(
    ("shorthand", "spec"),
    [
        ("pa1:C=0.1", {"kind": "pa1", "C": 0.1}),
        (" pa1 : C = 0.1 , epsilon = 2 ", {"kind": "pa1", "C": 0.1, "epsilon": 2.0}),
        ("perceptron:bias=r2", {"kind": "perceptron", "bias": "r2"}),
        ("perceptron:", {"kind": "perceptron"}),
        ("sgd-log:lam=1e-4,horizon=500", {"kind": "sgd-log", "lam": 1e-4, "horizon": 500}),
        (
            "averaged:mode=vote,base=pa",
            {"kind": "averaged", "mode": "vote", "base": {"kind": "pa"}},
        ),
        (
            "scaled:center=false,base=pa",
            {"kind": "scaled", "center": False, "base": {"kind": "pa"}},
        ),
        (' {"kind": "pa1", "C": 0.1}', {"kind": "pa1", "C": 0.1}),
    ],
)
def test_shorthand_equals_the_mapping(shorthand, spec):
    assert make(shorthand) == make(spec)


def test_a_base_may_be_a_shorthand_at_any_depth():
    short = make(
        {"kind": "scaled", "center": True, "base": {"kind": "averaged", "base": "pa1:C=0.1"}}
    )
    long = {
        "kind": "scaled",
        "center": True,
        "base": {"kind": "averaged", "base": {"kind": "pa1", "C": 0.1}},
    }
    assert short == make(long)
    assert short.model_dump()["base"]["base"] == {
        "kind": "pa1",
        "C": 0.1,
        "epsilon": 1.0,
        "update_on": "margin",
        "J": 1.0,
    }


@looped(
    ("spec", "words"),
    [
        ("perceptrn", "unknown learner 'perceptrn'; did you mean 'perceptron'?"),
        ("zzz", f"unknown learner 'zzz'; known: {', '.join(sorted(KINDS))}"),
        ("pa1:c=1", "pa1 has no parameter 'c'; did you mean"),
        ("pa:C=1", "pa has no parameter 'C'; known: epsilon, kind"),
        ("sgd-log:eta=1", "sgd-log has no parameter 'eta'; did you mean 'eta0'?"),
        ("pa1:C=-1", "pa1: C: Input should be greater than 0"),
        ("pa1:C=lots", "pa1: C: Input should be a valid number"),
        ("pa1:C=NaN", "pa1: C: Input should be "),
        ("perceptron:bias=none", "perceptron: bias: Input should be 'feature' or 'r2'"),
        ("sgd-log:horizon=0", "sgd-log: horizon: Input should be greater than or equal to 1"),
        ("pa1:C", "'C' is not name=value, as in pa1:C=0.1"),
        ('{"kind": "pa1"', "learner is not JSON"),
        (
            {"kind": "averaged", "base": "pax:C=1"},
            "averaged: base: unknown learner 'pax'; did you mean 'pa",
        ),
        ({"kind": "averaged", "base": "pa1:D=1"}, "averaged: base: pa1 has no parameter 'D'"),
        ({"kind": "averaged"}, "averaged: base: Field required"),
        (
            {"kind": "averaged", "base": "k-perceptron"},
            (
                "averaged: base: k-perceptron stores rows and has no weights to average: take"
                " k-averaged"
            ),
        ),
        (
            {"kind": "selected", "base": "k-perceptron"},
            (
                "selected: base: k-perceptron stores rows and has no weights to select from: leave"
                " selected out"
            ),
        ),
        (
            {"kind": "scaled", "base": {"kind": "averaged", "base": "k-perceptron"}},
            "scaled: base: averaged: base: k-perceptron stores rows",
        ),
        (
            {"kind": "one_vs_rest", "max_classes": 1, "base": "pa"},
            "one_vs_rest: max_classes: Input should be greater",
        ),
        (
            {"kind": 3},
            "a learner is a mapping with a kind, or a shorthand such as pa1:C=0.1, not a dict",
        ),
        ({}, "a learner is a mapping with a kind"),
        (None, "a learner is a mapping with a kind"),
        (["pa"], "a learner is a mapping with a kind"),
    ],
)
def test_a_wrong_spec_is_refused_with_a_reason(spec, words):
    with pytest.raises(ValueError, match=r".") as error:
        make(spec)
    assert str(error.value).startswith(words)
    assert "\n" not in str(error.value)


def test_a_learner_is_immutable():
    with pytest.raises(ValidationError, match="frozen"):
        make("pa1").C = 2.0


class Layout:
    def __init__(self, *, dense, bias):
        self.dense, self.bias = dense, bias


def test_the_features_resolve_center_and_hashed_ones_refuse_it():
    learner = make({"kind": "scaled", "base": "pa"})
    assert learner.bind(Layout(dense=True, bias=True)).center is True
    assert learner.bind(Layout(dense=False, bias=True)).center is False
    with pytest.raises(ValueError, match="center is not set"):
        learner.init(3)
    with pytest.raises(ValueError, match="center: true would make every hashed feature non-zero"):
        make({"kind": "scaled", "center": True, "base": "pa"}).bind(Layout(dense=False, bias=True))
    assert (
        make({"kind": "scaled", "base": "winnow"}).bind(Layout(dense=True, bias=True)).center
        is False
    )


@looped("leaf", ["sgd-log", "perceptron:bias=r2", "winnow", "winnow-balanced", "mbw"])
@looped("outer", ["averaged", "one_vs_rest", "scaled"])
def test_a_rule_with_a_bias_needs_the_bias_slot_at_any_depth(outer, leaf):
    learner = make({"kind": outer, "base": leaf})
    learner.bind(Layout(dense=True, bias=True))
    with pytest.raises(ValueError, match="set features"):
        learner.bind(Layout(dense=True, bias=False))


def test_kernel_learners_form_separate_families():
    told = {kind: describe(kind) for kind in KINDS}
    assert told["k-perceptron"]["family"] == "kernel perceptron"
    assert told["perceptron"]["family"] == "perceptron"
    assert told["scaled"]["family"] == "composition"
    for kind, entry in told.items():
        assert entry["family"].startswith("kernel ") == issubclass(kind_class(kind), KernelLearner)
        assert entry["paper"], kind
        assert all(parameter["help"] for parameter in entry["parameters"]), kind


@looped(
    ("given", "end"), [("rbff", r"; did you mean 'rbf'\?$"), ("gaussian", r" or 'tree\+sigmoid'$")]
)
def test_a_misspelt_choice_gets_a_hint(given, end):
    with pytest.raises(ValueError, match="k-pa1: kernel: Input should be .*" + end):
        make(f"k-pa1:kernel={given}")


@looped("wrong", [{"kind": "forgetron", "budget": True}, {"kind": "k-perceptron", "gamma": True}])
def test_true_is_refused_as_a_number(wrong):
    with pytest.raises(ValueError, match="must not be true or false"):
        make(wrong)
    assert make({"kind": "romma", "aggressive": True}).aggressive


def test_budget_and_max_support_exclude_each_other():
    with pytest.raises(ValueError, match="budget takes the place of max_support"):
        make("projectron:budget=30,max_support=3")
    again = make(make("projectron:budget=30").model_dump())
    assert again.rows() == 30
