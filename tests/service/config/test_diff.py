"""Each setting that differs is named with both values."""

from service.config.diff import diff_settings, diff_values

MINE = {
    "learner": {"kind": "scaled", "base": {"kind": "pa1", "C": 0.5}},
    "label": {"positive": "spam"},
}
THEIRS = {
    "learner": {"kind": "scaled", "base": {"kind": "pa1", "C": 0.03}},
    "label": {"positive": "spam"},
}


def test_equal_settings_have_no_differences():
    assert diff_settings(MINE, MINE) == []
    assert diff_values(MINE, MINE) == {}


def test_a_nested_setting_is_named_by_its_path():
    assert diff_settings(MINE, THEIRS) == [
        "learner.base.C is 0.5 in the configuration and 0.03 in the checkpoint"
    ]
    assert diff_values(MINE, THEIRS) == {"learner.base.C": [0.5, 0.03]}


def test_a_setting_that_one_side_lacks_is_named():
    assert diff_settings({"a": {"b": 1}, "d": "x"}, {"a": {"c": True}, "d": "x"}) == [
        "a.b is 1 in the configuration and not set in the checkpoint",
        "a.c is not set in the configuration and true in the checkpoint",
    ]
    assert diff_values({"a": {"b": 1}}, {"a": {}}) == {"a.b": [1, None]}


def test_for_another_kind_only_the_kind_is_named():
    assert diff_settings(
        {"learner": {"kind": "pa1", "C": 1.0}}, {"learner": {"kind": "arow", "r": 1.0}}
    ) == ['learner.kind is "pa1" in the configuration and "arow" in the checkpoint']


def test_lists_are_compared_up_to_the_first_difference():
    assert diff_settings({"columns": ["a", "b", "c"]}, {"columns": ["a", "x", "y"]}) == [
        'columns[1] is "b" in the configuration and "x" in the checkpoint'
    ]
    assert diff_settings({"columns": ["a"]}, {"columns": ["a", "b", "c", "d"]}) == [
        "columns has length 1 in the configuration and 4 in the checkpoint"
    ]
    assert diff_settings({"on_error": ["boost"]}, {"on_error": []}) == [
        'on_error is ["boost"] in the configuration and [] in the checkpoint'
    ]
    assert diff_values({"columns": ["a"]}, {"columns": ["b"]}) == {"columns": [["a"], ["b"]]}


def test_a_long_value_is_cut():
    (line,) = diff_settings({"a": "x" * 500}, {"a": 1})
    assert len(line) < 150
