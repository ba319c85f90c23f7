"""The first four laws and their consequences, bit for bit, for every learner and every legal
composition.
"""

import numpy as np
import pytest

from learners.batch import Batch
from learners.jit import ACCEPTED, LARGEST_WEIGHT
from learners.registry import kind_class, make
from learners.state import flatten, restore, state_digest
from tests.learners.specs import (
    COMPOSITIONS,
    LEARNERS,
    ORDER,
    built,
    choices,
    chosen_specs,
    compositions,
    every_learner,
    leaves,
    nestings,
    on_each,
    specs,
    varied_fields,
)
from tests.learners.streams import SMALL, SPARSE, labels, seeded, suited

CHOSEN = chosen_specs()

LONG = seeded(1, 60, SMALL, hostile=True)
WIDE = seeded(2, 30, SPARSE, hostile=True)


def same(one, other):
    """Compare bit for bit; this distinguishes −0 from 0 and handles NaN."""
    return (
        one.shape == other.shape and one.dtype == other.dtype and one.tobytes() == other.tobytes()
    )


def learn_stream(learner, stream, cuts=()):
    """Learn a stream in pieces; return the scores and the digest."""
    stream = suited(learner, stream)
    y, state = labels(learner, stream), learner.init(stream.dim)
    ends = [*sorted(cuts), stream.X.size]
    pieces = zip([0, *ends], ends, strict=False)
    scores = [learner.learn(state, stream.X.rows(a, b), y[a:b]) for a, b in pieces]
    return np.concatenate(scores), state_digest(state)


def singles(stream):
    return [stream.X.rows(t, t + 1) for t in range(stream.X.size)]


@on_each({"stream": LONG}, {"stream": WIDE})
def test_learn_returns_what_scores_said_just_before(learner, stream):
    stream = suited(learner, stream)
    y, state = labels(learner, stream), learner.init(stream.dim)
    for t, event in enumerate(singles(stream)):
        said = learner.scores(state, event)
        assert same(learner.learn(state, event, y[t : t + 1]), said), f"at event {t}"


@on_each()
def test_any_cut_into_batches_gives_the_same(learner, stream, cuts):
    check_cuts(learner, stream, cuts)


@every_learner(
    CHOSEN,
    {
        "single": {"stream": LONG, "cuts": range(1, 60)},
        "pieces": {"stream": WIDE, "cuts": (7, 7, 20)},
    },
)
def test_any_cut_of_a_long_stream_gives_the_same_bits(learner, stream, cuts):
    check_cuts(learner, stream, cuts)


def check_cuts(learner, stream, cuts):
    whole, pieces = learn_stream(learner, stream), learn_stream(learner, stream, cuts)
    assert same(whole[0], pieces[0])
    assert whole[1] == pieces[1]


@on_each({"stream": LONG, "place": 0}, {"stream": LONG, "place": 41}, {"stream": WIDE, "place": 20})
def test_a_restored_state_goes_on_the_same(learner, stream, place):
    stream = suited(learner, stream)
    y, state = labels(learner, stream), learner.init(stream.dim)
    before = learner.learn(state, stream.X.rows(0, place), y[:place])
    saved = {path: (a.tobytes(), a.dtype.str, a.shape) for path, a in flatten(state).items()}
    arrays = {
        path: np.frombuffer(raw, kind).reshape(shape) for path, (raw, kind, shape) in saved.items()
    }
    state = restore(learner.init(stream.dim), arrays)
    after = learner.learn(state, stream.X.rows(place, stream.X.size), y[place:])
    whole = learn_stream(learner, stream)
    assert same(np.concatenate([before, after]), whole[0])
    assert state_digest(state) == whole[1]


@every_learner(CHOSEN, {"long": {"stream": LONG}, "wide": {"stream": WIDE}})
def test_scores_writes_nothing(learner, stream):
    stream = suited(learner, stream)
    state = learner.init(stream.dim)
    y, half = labels(learner, stream), stream.X.size // 2
    learner.learn(state, stream.X.rows(0, half), y[:half])
    X = read_only(stream.X)
    before = state_digest(state)
    batch = learner.scores(state, X)
    assert state_digest(state) == before
    assert same(batch, learner.scores(state, stream.X))
    assert same(batch, np.concatenate([learner.scores(state, event) for event in singles(stream)]))


@every_learner(CHOSEN)
def test_learn_does_not_write_to_its_input(learner):
    stream = suited(learner, LONG)
    state = learner.init(stream.dim)
    X, y = copy_batch(stream.X), labels(learner, stream)
    wanted = y.copy()
    learner.learn(state, X, y)
    assert same(y, wanted)
    assert flatten(X).keys() == flatten(stream.X).keys()
    assert all(same(a, flatten(stream.X)[path]) for path, a in flatten(X).items())


def copy_batch(X):
    return restore(X, flatten(X))


def read_only(X):
    X = copy_batch(X)
    for array in flatten(X).values():
        array.flags.writeable = False
    return X


@on_each({"stream": LONG})
def test_refused_rows_and_rows_of_weight_0_change_no_bit(learner, stream):
    stream = suited(learner, stream)
    y, state = labels(learner, stream), learner.init(stream.dim)
    refused = learner.row_refusals(stream.X) != ACCEPTED
    for t, event in enumerate(singles(stream)):
        before = state_digest(state)
        scores = learner.learn(state, event, y[t : t + 1])
        assert np.isnan(scores).all() == refused[t]
        if refused[t] or event.weights[0] == 0.0:
            assert state_digest(state) == before
    assert same(
        np.isnan(learner.scores(state, stream.X)).reshape(refused.size, -1).all(axis=1), refused
    )


@on_each({"stream": LONG}, {"stream": WIDE})
def test_hostile_rows_leave_everything_finite(learner, stream):
    stream = suited(learner, stream)
    y, state = labels(learner, stream), learner.init(stream.dim)
    scores = learner.learn(state, stream.X, y)
    accepted = scores[learner.row_refusals(stream.X) == ACCEPTED]
    unseen = np.isneginf(accepted) if scores.ndim == 2 else False
    assert (np.isfinite(accepted) | unseen).all()
    assert all(np.isfinite(array).all() for array in flatten(state).values())
    assert largest(inner(state)) <= LARGEST_WEIGHT * (1 + 1e-12)
    assert np.isfinite(learner.norm(state))
    assert 0 <= learner.updates(state) <= stream.X.size
    assert 0 <= learner.dropped_updates(state) <= stream.X.size


def largest(leaf):
    """Return the largest weight, or the largest coefficient of a stored row."""
    return np.abs(leaf.support.a if hasattr(leaf, "support") else leaf.w.scale * leaf.w.v).max()


def inner(state):
    """Return the leaf's own state; within one_vs_rest, that of all classes."""
    for part in ("base", "classes", "base"):
        state = getattr(state, part, state)
    return state


BEYOND = {
    "perceptron": {"eta": 1e200},
    "pa": {"epsilon": 1e200},
    "pa1": {"epsilon": 1e200, "C": 1e200},
    "pa2": {"epsilon": 1e200, "C": 1e200},
    "sgd-log": {"eta0": 1e200},
    "norma": {"eta": 1e200, "lam": 1e-300},
    "svm-dual": {"eta": 1e200, "C": 1e200},
    "winnow-exp": {"eta": 1e200},
    "winnow-norm": {"eta": 1e200},
    "lm-winnow": {"eta": 1e200, "C": 1e200},
    "lm-winnow-norm": {"eta": 1e200, "C": 1e200},
    "fs": {"eta0": 1e200},
    "fs1": {"eta0": 1e200},
    "fs2": {"eta0": 1e200},
    "fs3": {"eta0": 1e200},
}
"""Parameters with which the first step already leaves the safe range, for the rules that can."""


STEPPING_BEYOND = [
    learner
    for kind in BEYOND
    for spec in compositions({"kind": kind, **BEYOND[kind]})
    if (learner := built(spec)) is not None
]


@every_learner(STEPPING_BEYOND)
def test_dropped_updates_are_counted_and_change_no_weight(learner):
    state = learner.init(SMALL)
    X = seeded(3, 20).X._replace(weights=np.ones(20))
    scores = learner.learn(state, X, np.ones(20))
    assert np.isfinite(scores).any()
    assert not inner(state).w.v.any()
    assert (learner.updates(state), learner.dropped_updates(state)) == (0, 20)


def test_a_step_beyond_the_largest_weight_is_dropped_whole():
    learner = make("perceptron")
    state = learner.init(3)
    X = Batch.from_rows([([0, 1], [1.0, 9e49]), ([0, 1, 2], [1.0, -9e49, 1.0])], [1e50, 1e50])
    scores = learner.learn(state, X, np.array([1.0, 1.0]))
    assert scores.tolist() == [0.0, 1e50 - 9e49 * 9e99]
    assert state.w.v.tolist() == [1e50, 9e99, 0.0]
    assert (learner.updates(state), learner.dropped_updates(state)) == (1, 1)


def test_the_norm_is_finite_if_the_weights_are():
    learner = make("sgd-log:lam=1")
    state = learner.init(3)
    state.w.scale[0] = 1e-99
    state.w.v[:] = [3e198, 0.0, 4e198]
    assert learner.norm(state) == pytest.approx(5e99)


def test_only_one_order_of_compositions_is_legal():
    legal = {chain for chain in nestings() if any(built(nest(chain, kind)) for kind in LEARNERS)}
    ascending = {
        chain for chain in nestings() if list(chain) == [kind for kind in ORDER if kind in chain]
    }
    assert set(ORDER) == set(COMPOSITIONS)
    assert legal == ascending


def nest(chain, kind):
    spec = {"kind": kind}
    for outer in chain:
        spec = {"kind": outer, "base": spec}
    return spec


def test_vote_is_refused_only_on_learners_that_move_at_every_event():
    vote = {"kind": "averaged", "mode": "vote"}
    linear = [leaf for leaf in leaves() if not built(leaf).capabilities.stores_rows]
    refused = {leaf["kind"] for leaf in linear if built({**vote, "base": leaf}) is None}
    assert refused == {"norma", "sgd-log", "fs", "fs1", "fs2", "fs3", "ftrl", "adagrad"}
    with pytest.raises(ValueError, match="sgd-log updates at every event: use avg"):
        make({**vote, "base": "sgd-log"})


def test_scaling_is_refused_only_on_learners_that_learn_scales_themselves():
    refused = {
        kind
        for kind in LEARNERS
        if built({"kind": "scaled", "center": False, "base": kind}) is None
    }
    assert refused == {"fs", "fs1", "fs2", "fs3"}
    for base in (
        "fs2",
        {"kind": "averaged", "base": "fs2"},
        {"kind": "one_vs_rest", "base": "fs2"},
    ):
        with pytest.raises(
            ValueError, match="scaled: fs2 learns the scale of every feature itself: use it without"
        ):
            make({"kind": "scaled", "base": base})


def test_centring_is_refused_only_on_learners_that_refuse_negative_values():
    centred = {kind: built({"kind": "scaled", "center": True, "base": kind}) for kind in LEARNERS}
    divided = {kind: built({"kind": "scaled", "center": False, "base": kind}) for kind in LEARNERS}
    assert {kind for kind in LEARNERS if divided[kind] and not centred[kind]} == {
        "winnow",
        "winnow-balanced",
        "mbw",
    }
    for base in (
        "mbw",
        {"kind": "averaged", "base": "mbw"},
        {"kind": "one_vs_rest", "base": "mbw"},
    ):
        with pytest.raises(
            ValueError, match="scaled: center: true makes values negative, which the base does not"
        ):
            make({"kind": "scaled", "center": True, "base": base})


def parts(learner):
    """Return a learner and the learners within it."""
    base = getattr(learner, "base", None)
    return [learner, *(parts(base) if base else [])]


def test_specs_have_every_kind_and_every_choice():
    seen = set()
    for part in (part for learner in specs() for part in parts(learner)):
        seen |= {(part.kind, field, value) for field, value in part if field != "base"}
    for kind in LEARNERS | COMPOSITIONS:
        for choice in choices(kind):
            assert {(kind, field, value) for field, value in choice.items()} <= seen
        numeric = [f for f, info in varied_fields(kind).items() if info.annotation in (int, float)]
        for field in numeric if kind in LEARNERS else ():
            default = kind_class(kind).model_fields[field].default
            assert any(k == kind and f == field and v != default for k, f, v in seen)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda a: a | {"extra": np.zeros(1)}, "arrays do not fit this learner: extra"),
        (
            lambda a: {path: a[path] for path in a if path != "w/v"},
            "arrays do not fit this learner: w/v",
        ),
        (
            lambda a: a | {"w/v": np.zeros(4)},
            r"w/v is float64\(4,\), this learner has float64\(3,\)",
        ),
        (
            lambda a: a | {"updates": np.zeros(1)},
            r"updates is float64\(1,\), this learner has int64\(1,\)",
        ),
    ],
)
def test_arrays_of_another_learner_are_refused(change, words):
    learner = make("pa")
    with pytest.raises(ValueError, match=words):
        restore(learner.init(3), change(flatten(learner.init(3))))


def test_a_restored_state_shares_no_memory_with_its_source():
    learner = make("averaged:base=pa")
    state = learner.init(3)
    copy = restore(learner.init(3), flatten(state))
    assert not any(
        np.shares_memory(a, b)
        for a, b in zip(flatten(state).values(), flatten(copy).values(), strict=True)
    )
