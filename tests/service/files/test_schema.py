"""The features and the label that follow from the files themselves."""

import json
from pathlib import Path

import pytest

from service.errors import SettingsError
from service.files import align_columns, events, features_of, label_of, scan
from tests.looped import looped


@pytest.fixture
def write(tmp_path):
    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


# Features of one or more files.


def test_features_of_svmlight_span_both_files(write):
    files = [scan(write("a.svm", "+1 2:1\n")), scan(write("b.svm", "+1 4:1\n"))]
    features = features_of(files, 18)
    assert (features.columns, features.bits) == (("1", "2", "3", "4"), 0)


def test_a_column_of_words_in_one_csv_is_words_in_both(write):
    learn, test = (
        scan(write("a.csv", "n,code,label\n1,7,1\n")),
        scan(write("b.csv", "n,code,label\n1,x,1\n")),
    )
    features = features_of([learn, test], 12)
    assert (features.columns, features.bits) == (("n",), 12)
    learn, test = align_columns([learn, test])
    assert json.loads(next(events(learn)))["features"] == {"n": 1, "code": "7"}
    assert features_of([scan(write("c.csv", "n,label\n1,1\n"))], 12).bits == 0


def test_json_lines_are_hashed(write):
    file = scan(write("x.jsonl", '{"note": "a b", "label": 1}'), text=["note"])
    features = features_of([file], 10)
    assert (features.columns, features.text, features.bits) == ((), ("note",), 10)
    with pytest.raises(SettingsError, match="--bits"):
        features_of([file], 0)


# Labels.


def csv_of(labels: list[str]) -> str:
    return "a,label\n" + "".join(f"1,{label}\n" for label in labels)


@looped("labels", [["1", "-1"], ["0", "1"], ["0", "2", "-3.5"], ["true", "false"], ["False", "1"]])
def test_the_signs_of_labels_decide_without_a_positive_label(write, labels):
    label = label_of(scan(write("x.csv", csv_of(labels))), positive=None, multiclass=False)
    assert (label.field, label.positive, label.classes) == ("label", None, "binary")


@looped(
    ("labels", "message"),
    [
        (["ham", "spam"], "ham, spam; give --positive V or --multiclass"),
        (["1", "spam"], "1, spam; give --positive"),
        (["1", "2"], "one sign only: 1, 2; give --positive V or --multiclass"),
        (["0", "-1"], "one sign only: 0, -1; give"),
        ([str(n) for n in range(1, 20)], "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …; give"),
        (["?"], "no row has a number, a word or true/false in the field label"),
    ],
)
def test_labels_without_a_sign_need_a_choice(write, labels, message):
    with pytest.raises(SettingsError, match=message):
        label_of(scan(write("x.csv", csv_of(labels))), positive=None, multiclass=False)


def test_a_chosen_label_is_positive_in_any_spelling(write):
    file = scan(write("x.csv", csv_of(["1", "2", "word"])))
    assert label_of(file, positive="+1.0", multiclass=False).positive == "1"
    assert label_of(file, positive="word", multiclass=False).positive == "word"
    with pytest.raises(SettingsError, match="no row has the label 3; the labels are 1, 2, word"):
        label_of(file, positive="3", multiclass=False)


def test_multiclass_makes_room_for_every_label(write):
    few = label_of(scan(write("x.csv", csv_of(["a", "b"]))), positive=None, multiclass=True)
    many = label_of(
        scan(write("x.csv", csv_of([f"c{n}" for n in range(99)]))), positive=None, multiclass=True
    )
    assert (few.classes, few.max_classes, many.max_classes) == ("grow", 64, 99)
    with pytest.raises(SettingsError, match="leave out --positive"):
        label_of(scan(write("x.csv", csv_of(["a", "b"]))), positive="a", multiclass=True)


def test_the_sample_of_labels_is_bounded_but_all_signs_are_seen(write):
    file = scan(write("x.csv", csv_of([str(n) for n in range(1, 3001)] + ["-1"])))
    assert (len(file.labels), file.labels[:2], file.more_labels) == (1000, ("1", "2"), True)
    assert file.signs == {"positive", "negative"}
