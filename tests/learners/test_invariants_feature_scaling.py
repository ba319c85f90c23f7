"""What learned feature scaling promises: each rule is the gradient of its loss. The table names one
test for each.
"""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from learners.batch import BIAS, Batch
from learners.linear.weights import current
from learners.registry import make
from learners.state import flatten, state_digest
from tests.examples import examples
from tests.learners.single_events import after, dense, one
from tests.learners.streams import SMALL, labels, seeded
from tests.looped import looped

INVARIANTS = {
    "fs": "test_fs_steps_down_the_gradient",
    "fs1": "test_fs1_steps_down_the_gradient",
    "fs2": "test_fs2_steps_down_the_gradient",
    "fs3": "test_fs3_steps_down_the_gradient",
}

KINDS = list(INVARIANTS)
every_kind = looped("kind", KINDS)
every_absent = looped("absent", ["zero", "skip"])
some = examples(40)

FEATURES = st.dictionaries(
    st.integers(1, SMALL - 1),
    st.one_of(st.floats(-5, 5), st.sampled_from([0.0, 1e-30, -40.0])),
    max_size=6,
)
EVENT = {
    "row": FEATURES,
    "y": st.sampled_from([-1.0, 1.0]),
    "c": st.sampled_from([1.0, 0.25, 4.0]),
    "eta0": st.sampled_from([0.03, 0.5, 1.0]),
    "history": st.integers(0, 20),
    "absent": st.sampled_from(["zero", "skip"]),
}
gradient_events = given(**EVENT)


def parameters(state):
    """Return b, w, α, β in one vector, as far as the variant has them."""
    return np.concatenate([current(state.w), current(state.alpha)[1:], current(state.beta)[1:]])


def sigma(s):
    return np.exp(-np.logaddexp(0.0, -s))


def score(kind, p, x, absent):
    """Return the score of eq. 5, 14, 19 or 24, from the parameters in one vector."""
    b, x = p[0], x[1:]
    part = (x != 0) | (absent == "zero")
    arrays = np.split(p[1:], (p.size - 1) // x.size)
    if kind == "fs":
        w, alpha, beta = arrays
        return b + np.sum((w * sigma(alpha * x - beta))[part])
    if kind == "fs1":
        w, beta = arrays
        return b + np.sum((w * sigma(x - beta))[part])
    if kind == "fs2":
        w, alpha, beta = arrays
        return b + np.sum((w * (alpha * x + beta))[part])
    alpha, beta = arrays
    return b + np.sum((alpha * x + beta)[part])


def check_gradient(kind, row, y, c, eta0, history, absent):
    learner = make({"kind": kind, "eta0": eta0, "horizon": 50, "absent": absent})
    state, x = after(learner, history), dense(row)
    p, k = parameters(state), int(state.events[0])
    assume(np.abs(p).max() < 1e3)
    s = learner.learn(state, one(row, c), np.array([y]))[0]
    # A sum of up to eight terms in another order, none of them above P·(P·X + P).
    X, P = max(1.0, np.abs(x).max()), max(1.0, np.abs(p).max())
    assert s == pytest.approx(score(kind, p, x, absent), rel=1e-9, abs=1e-13 * P * P * X)
    assume(abs(s) < 12)  # beyond, the loss is too flat for differences
    rate, h = c * eta0 / (1 + k / 50), 1e-6

    def loss(p):
        return np.logaddexp(0.0, -y * score(kind, p, x, absent))

    gradient = np.array([(loss(p + h * e) - loss(p - h * e)) / (2 * h) for e in np.eye(p.size)])
    # Central differences: h² of the third derivative, which grows with x and p, and 2⁻⁵³ of the
    # loss over 2h.
    assert np.allclose(
        parameters(state) - p, -rate * gradient, rtol=1e-4, atol=1e-6 * rate * (X * P) ** 2
    )


@some
@gradient_events
def test_fs_steps_down_the_gradient(row, y, c, eta0, history, absent):
    check_gradient("fs", row, y, c, eta0, history, absent)


@some
@gradient_events
def test_fs1_steps_down_the_gradient(row, y, c, eta0, history, absent):
    check_gradient("fs1", row, y, c, eta0, history, absent)


@some
@gradient_events
def test_fs2_steps_down_the_gradient(row, y, c, eta0, history, absent):
    check_gradient("fs2", row, y, c, eta0, history, absent)


@some
@gradient_events
def test_fs3_steps_down_the_gradient(row, y, c, eta0, history, absent):
    check_gradient("fs3", row, y, c, eta0, history, absent)


@every_absent
def test_fs3_is_logistic_regression_with_a_switch_for_every_feature(absent):
    """In α·x + β, α is the weight of the feature, and β that of a second feature that is 1 where
    the feature takes part.
    """
    stream = seeded(3, 80)
    fs3, log = make({"kind": "fs3", "absent": absent}), make("sgd-log")
    rows = np.zeros((80, SMALL))
    for t in range(80):
        entries = slice(*stream.X.indptr[t : t + 2])
        rows[t, stream.X.indices[entries]] = stream.X.values[entries]
    switches = (rows[:, 1:] != 0) | (absent == "zero")
    doubled = Batch.from_rows(
        [(range(2 * SMALL - 1), row) for row in np.hstack([rows, switches])], stream.X.weights
    )
    state, twin = fs3.init(SMALL), log.init(2 * SMALL - 1)
    y = labels(fs3, stream)
    assert np.allclose(
        fs3.learn(state, stream.X, y), log.learn(twin, doubled, y), rtol=1e-9, atol=1e-9
    )
    assert np.allclose(parameters(state), current(twin.w), rtol=1e-9, atol=1e-9)


def test_each_variant_starts_where_a_first_step_can_move_it():
    starts = {kind: make({"kind": kind, "absent": "skip"}).init(3) for kind in KINDS}
    w, alpha = (
        {kind: s.w.v.tolist() for kind, s in starts.items()},
        {k: s.alpha.v.tolist() for k, s in starts.items()},
    )
    # The w of FS-3 holds only b.
    assert w == {"fs": [0.0] * 3, "fs1": [0.0] * 3, "fs2": [0.0] * 3, "fs3": [0.0]}
    assert alpha == {"fs": [1.0] * 3, "fs1": [], "fs2": [1.0] * 3, "fs3": [0.0] * 3}
    assert all(state.beta.v.tolist() == [0.0] * 3 for state in starts.values())


@every_kind
@every_absent
def test_only_participating_features_move(kind, absent):
    learner = make({"kind": kind, "absent": absent})
    state = after(learner, 20)
    moved = {}
    for name in ("w", "alpha", "beta"):
        moved[name] = current(getattr(state, name)).copy()
    learner.learn(state, one({1: 0.0, 2: 2.0}), np.array([1.0]))
    for name, before in moved.items():
        part = {BIAS, 2} if absent == "skip" else set(range(SMALL))
        if name == "alpha":
            part &= {2}  # the gradient has the factor x
        elif name == "beta":
            part -= {BIAS}
        changed = set(np.flatnonzero(current(getattr(state, name)) != before).tolist())
        assert changed == part & set(range(before.size))


@every_kind
def test_a_written_zero_equals_an_absent_feature(kind):
    for absent in ("zero", "skip"):
        learner = make({"kind": kind, "absent": absent})
        written, left_out = after(learner, 20), after(learner, 20)
        learner.learn(written, one({1: 0.0, 2: 2.0, 3: 0.0}), np.array([-1.0]))
        learner.learn(left_out, one({2: 2.0}), np.array([-1.0]))
        assert state_digest(written) == state_digest(left_out)


@every_kind
def test_each_array_shrinks_by_its_own_factor_and_b_not_at_all(kind):
    """The rows have only the bias, and their label is nearly certain: only the shrinking moves
    parameters.
    """
    weights = {"lam": 3.0, "mu": 2.0, "nu": 1.0}
    fields = set(type(make(kind)).model_fields)
    assert set(weights) & fields == {"fs1": {"lam", "nu"}, "fs3": {"mu", "nu"}}.get(
        kind, set(weights)
    )
    learner = make(
        {
            "kind": kind,
            "absent": "skip",
            "horizon": 10,
            **{f: weights[f] for f in set(weights) & fields},
        }
    )
    state = learner.init(3)
    arrays = {"lam": state.w, "mu": state.alpha, "nu": state.beta}
    for array in arrays.values():
        array.v[:] = [800.0, 2.0, -3.0][: array.v.size]
    shrunk = dict.fromkeys(weights, 1.0)
    for k in range(40):
        learner.learn(state, one({}), np.array([1.0]))
        for field, factor in shrunk.items():
            shrunk[field] = factor * (1 - 2 * weights[field] * 0.1 / (1 + k / 10) / 10)
            wanted = shrunk[field] * np.array([2.0, -3.0])
            assert np.allclose(
                current(arrays[field])[1:], wanted[: max(0, arrays[field].v.size - 1)], rtol=1e-12
            )
        assert current(state.w)[BIAS] == pytest.approx(800.0, rel=1e-12)


@every_kind
def test_shrinking_by_orders_of_magnitude_keeps_the_mean_exact(kind):
    """The factors are at most a tenth, and 0 at first; the mean of all parameters continues."""
    fields = {
        field: 4900.0 for field in ("lam", "mu", "nu") if field in type(make(kind)).model_fields
    }
    learner = make(
        {"kind": "averaged", "base": {"kind": kind, "absent": "skip", "horizon": 900, **fields}}
    )
    state, kept = learner.init(3), []
    for k in range(300):
        learner.learn(state, one({1: 1.0 + k % 3, 2: -0.5}), np.array([1.0 - 2 * (k % 2)]))
        kept.append(parameters(state))
    means = np.mean(kept, axis=0)
    probe = np.array([1.0, 0.7, -0.2])
    wanted = score(kind, means, probe, "skip")
    assert learner.scores(state, one({1: 0.7, 2: -0.2}))[0] == pytest.approx(wanted, rel=1e-9)
    assert all(np.isfinite(array).all() for array in flatten(state).values())


@looped(
    ("kind", "parameters_of_slot_2", "x", "leaves"),
    [
        ("fs", {"w": 0.99e100, "alpha": 1.0}, 1e4, "w"),
        ("fs", {"w": 1.0, "alpha": 0.0}, 100.0, "alpha"),
        ("fs", {"w": 100.0, "alpha": 0.0}, 0.01, "beta"),
        ("fs1", {"w": 0.99e100}, 1e4, "w"),
        ("fs1", {"w": 100.0}, 0.01, "beta"),
        ("fs2", {"w": 1e-3, "alpha": 0.0, "beta": 100.0}, 1.0, "w"),
        ("fs2", {"w": 1.0, "alpha": 0.0}, 100.0, "alpha"),
        ("fs2", {"w": 100.0, "alpha": 0.0}, 0.01, "beta"),
        ("fs3", {"alpha": 0.0}, 100.0, "alpha"),
        ("fs3", {"beta": 0.99e100}, 0.01, "beta"),
    ],
)
def test_an_update_beyond_the_range_of_one_array_is_dropped_in_all(
    kind, parameters_of_slot_2, x, leaves
):
    learner = make({"kind": kind, "absent": "skip", "eta0": 5e99})
    state = learner.init(3)
    for name, value in parameters_of_slot_2.items():
        getattr(state, name).v[2] = value
    before = {path: array.copy() for path, array in flatten(state).items()}
    learner.learn(state, one({2: x}), np.array([-1.0]))
    changed = {
        path for path, array in flatten(state).items() if array.tobytes() != before[path].tobytes()
    }
    assert changed == {"dropped", "events"}, leaves
    assert learner.dropped_updates(state) == 1


@every_kind
@looped("value", [1e49, -1e49, 1e40, 1e-40, 5e-324])
def test_extreme_values_leave_everything_finite(kind, value):
    learner = make({"kind": "averaged", "base": {"kind": kind, "absent": "zero", "nu": 0.3}})
    state = learner.init(4)
    for k in range(30):
        scores = learner.learn(
            state, one({1: value, 2: (-1.0) ** k, 3: 0.0}, 1e20), np.array([1.0 - 2 * (k % 3 > 0)])
        )
        assert np.isfinite(scores).all()
    assert all(np.isfinite(array).all() for array in flatten(state).values())
    for array in (state.w, state.alpha, state.beta):
        assert np.abs(current(array)).max(initial=0.0) <= 1e100 * (1 + 1e-12)
    assert np.isfinite(learner.norm(state))


@every_kind
def test_a_single_class_and_rows_without_features_are_learned(kind):
    learner = make({"kind": kind, "absent": "skip"})
    state = learner.init(4)
    scores = [learner.learn(state, one({}), np.array([-1.0]))[0] for _ in range(50)]
    assert (np.diff(scores) < 0.0).all()
    assert learner.updates(state) == 50


class Layout:
    def __init__(self, *, dense, bias=True):
        self.dense, self.bias = dense, bias


@every_kind
def test_the_features_resolve_absent(kind):
    learner = make({"kind": "one_vs_rest", "base": {"kind": "averaged", "base": kind}})
    assert learner.bind(Layout(dense=True)).base.base.absent == "zero"
    assert learner.bind(Layout(dense=False)).base.base.absent == "skip"
    skips = make({"kind": kind, "absent": "skip"})
    assert skips.bind(Layout(dense=True)) == skips
    with pytest.raises(ValueError, match=f"{kind}: absent is not set"):
        learner.init(3)
    with pytest.raises(ValueError, match="absent: zero would let every hashed feature contribute"):
        make({"kind": kind, "absent": "zero"}).bind(Layout(dense=False))
    with pytest.raises(
        ValueError, match=f"{kind} keeps its bias in slot 0: set features.bias to true"
    ):
        learner.bind(Layout(dense=True, bias=False))


@every_kind
def test_feature_selection_over_scales_is_refused(kind):
    for selector in ("prune", "efs"):
        with pytest.raises(ValueError, match=f"{selector} makes no sense over {kind}"):
            make({"kind": "selected", "selector": selector, "base": kind})
