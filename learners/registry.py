"""The registry of learners. It maps a kind to a class, which is imported on first use. `make`
builds a learner from a configuration.
"""

import difflib
import importlib
import json
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from learners.learner import Learner

Made = TypeVar("Made", bound=BaseModel)

LEARNERS = {
    "perceptron": "learners.linear.perceptron:Perceptron",
    "pa": "learners.linear.passive_aggressive:PassiveAggressive",
    "pa1": "learners.linear.passive_aggressive:PassiveAggressive1",
    "pa2": "learners.linear.passive_aggressive:PassiveAggressive2",
    "sgd-log": "learners.linear.sgd:SgdLog",
    "winnow": "learners.linear.winnow:Winnow",
    "winnow-balanced": "learners.linear.winnow:BalancedWinnow",
    "mbw": "learners.linear.winnow:ModifiedBalancedWinnow",
    "winnow-exp": "learners.linear.exponentiated:ExponentiatedWinnow",
    "winnow-norm": "learners.linear.exponentiated:NormalisedWinnow",
    "lm-winnow": "learners.linear.exponentiated:LargeMarginWinnow",
    "lm-winnow-norm": "learners.linear.exponentiated:LargeMarginNormalisedWinnow",
    "romma": "learners.linear.romma:Romma",
    "pa-l2obj": "learners.linear.regularised_pa:ObjectivePassiveAggressive",
    "pa-l2": "learners.linear.regularised_pa:BallPassiveAggressive",
    "pa-l1": "learners.linear.l1_pa:L1PassiveAggressive",
    "norma": "learners.linear.norma:Norma",
    "fs": "learners.linear.feature_scaling:FeatureScaling0",
    "fs1": "learners.linear.feature_scaling:FeatureScaling1",
    "fs2": "learners.linear.feature_scaling:FeatureScaling2",
    "fs3": "learners.linear.feature_scaling:FeatureScaling3",
    "svm-dual": "learners.linear.dual_svm:DualSvm",
    "arow": "learners.linear.arow:Arow",
    "scw1": "learners.linear.confidence_weighted:SoftConfidence1",
    "scw2": "learners.linear.confidence_weighted:SoftConfidence2",
    "ftrl": "learners.linear.ftrl:Ftrl",
    "adagrad": "learners.linear.adagrad:Adagrad",
    "k-perceptron": "learners.kernel.perceptron:KernelPerceptron",
    "k-averaged": "learners.kernel.averaged:KernelAveraged",
    "k-voted": "learners.kernel.voted:KernelVoted",
    "k-pa": "learners.kernel.passive_aggressive:KernelPassiveAggressive",
    "k-pa1": "learners.kernel.passive_aggressive:KernelPassiveAggressive1",
    "k-pa2": "learners.kernel.passive_aggressive:KernelPassiveAggressive2",
    "stoptron": "learners.kernel.stoptron:Stoptron",
    "rbp": "learners.kernel.rbp:RandomBudgetPerceptron",
    "forgetron": "learners.kernel.forgetron:Forgetron",
    "forgetron-tuned": "learners.kernel.forgetron:TunedForgetron",
    "forgetron-greedy": "learners.kernel.forgetron:GreedyForgetron",
    "projectron": "learners.kernel.projectron:Projectron",
    "projectron++": "learners.kernel.projectron:ProjectronPlus",
    "forgetful-projectron": "learners.kernel.projectron:ForgetfulProjectron",
}

COMPOSITIONS = {
    "averaged": "learners.compose.averaged:Averaged",
    "selected": "learners.compose.selected:Selected",
    "one_vs_rest": "learners.compose.one_vs_rest:OneVsRest",
    "scaled": "learners.compose.scaled:Scaled",
}

KINDS = LEARNERS | COMPOSITIONS


def kind_class(kind: str) -> type[Learner]:
    """Return the class of a kind of learner.

    The error for an unknown kind suggests the nearest one.
    """
    return class_of(kind, Learner, KINDS, "learner")


def make(spec: Any) -> Learner:
    """Make a learner from a mapping with `kind`, JSON text, or the shorthand
    `kind:name=value,name=value`. A learner is returned as it is.
    """
    return make_from(spec, Learner, KINDS, "learner", "pa1:C=0.1")


def class_of(kind: str, base: type[Made], kinds: Mapping[str, str], what: str) -> type[Made]:
    """Return the class of a kind from any registry."""
    if kind not in kinds:
        raise ValueError(f"unknown {what} '{kind}'{nearest(kind, list(kinds))}")
    module, name = kinds[kind].split(":")
    found: type[Made] = getattr(importlib.import_module(module), name)
    assert issubclass(found, base)
    return found


def make_from(
    spec: Any, base: type[Made], kinds: Mapping[str, str], what: str, example: str
) -> Made:
    """Make an object from any registry of kinds."""
    if isinstance(spec, base):
        return spec
    if isinstance(spec, str):
        spec = _parse(spec, what, example)
    if not isinstance(spec, Mapping) or not isinstance(spec.get("kind"), str):
        raise ValueError(
            f"a {what} is a mapping with a kind, or a shorthand such as {example}, "
            f"not a {type(spec).__name__}"
        )
    cls = class_of(spec["kind"], base, kinds, what)
    for name in spec:
        if name not in cls.model_fields:
            raise ValueError(
                f"{spec['kind']} has no parameter '{name}'{nearest(name, list(cls.model_fields))}"
            )
    try:
        return cls.model_validate(dict(spec))
    except RecursionError as error:
        raise ValueError(f"the {what} is nested too deeply") from error
    except ValidationError as error:
        raise ValueError(f"{spec['kind']}: {first_error(error)}") from error


def first_error(error: ValidationError) -> str:
    """Format pydantic's first error in one line, without long input values."""
    detail = error.errors(include_url=False, include_input=False)[0]
    # For a union, pydantic also names the branch, such as constrained-float. The user did not write
    # that.
    where = ".".join(
        str(part) for part in detail["loc"] if str(part).isdecimal() or str(part).isidentifier()
    )
    message = detail["msg"].removeprefix("Value error, ")
    if detail["type"] == "literal_error" and isinstance(given := error.errors()[0]["input"], str):
        hint = nearest(
            given[:40],
            [word.strip("'") for word in re.findall(r"'[^']*'", detail["ctx"]["expected"])],
        )
        message += hint if "did you mean" in hint else ""
    if detail["type"] == "model_type":
        message = (
            "this learner is not allowed here: "
            "compositions nest as scaled(one_vs_rest(selected(averaged(learner))))"
        )
    return f"{where}: {message}" if where else message


def nearest(name: str, known: list[str]) -> str:
    """Return a hint for a misspelt name: similar names, or all known names."""
    folded = {candidate.casefold(): candidate for candidate in known}
    close = difflib.get_close_matches(name.casefold(), folded, n=3, cutoff=0.5)
    best = [
        candidate
        for candidate in close
        if _likeness(name, candidate) >= _likeness(name, close[0]) - 0.05
    ]
    if not best:
        return f"; known: {', '.join(sorted(known))}"
    return f"; did you mean {' or '.join(repr(folded[candidate]) for candidate in best)}?"


def _parse(text: str, what: str, example: str) -> Any:
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(f"{what} is not JSON: {error}") from error
    kind, _, parameters = text.partition(":")
    spec: dict[str, Any] = {"kind": kind.strip()}
    for parameter in filter(None, parameters.split(",")):
        name, equals, value = parameter.partition("=")
        if not equals:
            raise ValueError(f"'{parameter}' is not name=value, as in {example}")
        spec[name.strip()] = _value(value.strip())
    return spec


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _likeness(name: str, candidate: str) -> float:
    return difflib.SequenceMatcher(None, name.casefold(), candidate).ratio()
