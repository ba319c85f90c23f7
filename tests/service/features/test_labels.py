"""Labels are mapped to numbers and back."""

from hypothesis import given
from hypothesis import strategies as st

from service.config.settings import Label, canonical_label
from service.features.labels import Labels
from tests.examples import examples
from tests.looped import looped

some = examples(100)


@looped(
    ("label", "number"),
    [
        ("1", 1.0),
        ("2.5", 1.0),
        ("0.001", 1.0),
        ("true", 1.0),
        ("0", -1.0),
        ("-0", -1.0),
        ("-1", -1.0),
        ("-1e-300", -1.0),
        ("false", -1.0),
        ("fraud", None),
        ("", None),
        ("nan", None),
        ("True", None),
    ],
)
def test_the_sign_decides_without_a_positive_label(label, number):
    assert Labels(Label()).number(label) == number


def test_a_named_positive_label_has_all_others_as_negative():
    labels = Labels(Label(positive="fraud"))
    assert [labels.number(label) for label in ("fraud", "fine", "1", "Fraud")] == [
        1.0,
        -1.0,
        -1.0,
        -1.0,
    ]
    assert (labels.label(1), labels.label(-1)) == ("fraud", "not fraud")


def test_with_two_named_labels_others_are_refused():
    labels = Labels(Label(positive="fraud", negative="fine"))
    assert [labels.number(label) for label in ("fraud", "fine", "odd")] == [1.0, -1.0, None]
    assert (labels.label(1), labels.label(-1)) == ("fraud", "fine")


def test_without_names_the_answer_is_the_sign():
    assert (Labels(Label()).label(1), Labels(Label()).label(-1)) == (1, -1)


def test_binary_labels_leave_no_list():
    labels = Labels(Label())
    labels.number("1")
    assert labels.binary
    assert labels.names == []


def test_classes_count_by_first_appearance():
    labels = Labels(Label(classes="grow", max_classes=3))
    assert not labels.binary
    assert [labels.number(label) for label in "baabc"] == [0.0, 1.0, 1.0, 0.0, 2.0]
    assert labels.names == ["b", "a", "c"]
    assert [labels.label(place) for place in range(3)] == ["b", "a", "c"]


def test_one_class_too_many_is_refused_and_changes_nothing():
    labels = Labels(Label(classes="grow", max_classes=2))
    assert [labels.number(label) for label in "abcab"] == [0.0, 1.0, None, 0.0, 1.0]
    assert labels.names == ["a", "b"]


def test_before_the_first_class_there_is_no_label():
    assert Labels(Label(classes="grow")).label(-1) is None


@some
@given(st.lists(st.text(max_size=3)), st.lists(st.text(max_size=3)))
def test_a_restored_list_continues_with_the_same_numbers(before, after):
    settings = Label(classes="grow", max_classes=5)
    straight = Labels(settings)
    for label in before:
        straight.number(label)
    resumed = Labels(settings, straight.names)
    assert [resumed.number(label) for label in after] == [straight.number(label) for label in after]
    assert resumed.names == straight.names


def test_a_restored_list_is_copied():
    names = ["a"]
    Labels(Label(classes="grow"), names).number("b")
    assert names == ["a"]


@looped(
    ("value", "label"),
    [(True, "true"), (False, "false"), (1, "1"), (1.0, "1"), (-0.0, "0"), (0.5, "0.5"), ("1", "1")],
)
def test_each_label_has_one_spelling(value, label):
    assert canonical_label(value) == label
