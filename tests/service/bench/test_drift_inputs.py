"""The quick form of the benchmark of input drift has every figure and reaches both bars."""

from service.bench.drift.inputs import FEATURES, MOVE, SOON, Shift, _delay, measure_inputs


def test_the_quick_form_reaches_its_bars():
    figures, bars = measure_inputs(quick=True)
    assert [bar for bar in bars if not bar.ok] == []
    assert [(bar.op, bar.goal) for bar in bars] == [("<=", 0.05), (">=", 0.95)]
    inputs = figures["inputs"]
    assert [world["streams"] for world in inputs["worlds"].values()] == [20, 4, 4, 4]
    for world in inputs["worlds"].values():
        assert world["stationary"] <= 0.05
        assert 0 < world["median_delay"] <= SOON
    assert inputs["label rate 0.1 to 0.3"]["found"] == 1.0
    assert inputs["a KS test of each window at 0.05"]["stationary"] == 1.0, (
        "an uncontrolled test must alarm in every stream"
    )
    assert inputs["microseconds per event, 64 features"] > 0.0


def test_only_alarms_of_the_moved_feature_soon_after_the_move_count():
    def at(row, series=FEATURES + 1):
        return Shift(row, series, 0.5, 0.5)

    assert _delay([at(MOVE - 1), at(MOVE + 9), at(MOVE + 99)], FEATURES + 1) == [10]
    assert _delay([at(MOVE + SOON - 1)], FEATURES + 1) == [SOON]
    assert _delay([at(MOVE + SOON)], FEATURES + 1) == []
    assert _delay([at(MOVE + 9, FEATURES)], FEATURES + 1) == []
