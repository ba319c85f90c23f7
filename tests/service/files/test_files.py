"""Files become events: numbers stay exact, formats are recognised, and the real files match their
manifest.
"""

import csv
import gzip
import json
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.files import converter, events, format_of, rows, scan
from tests.looped import looped

FINITE = st.floats(allow_nan=False, allow_infinity=False)
SPELLINGS = [str, repr, lambda v: f"{v:+}", lambda v: f"{v:.17e}", lambda v: f"{v:.3f}".rstrip("0")]
NUMBER = st.builds(lambda value, spell: spell(value), FINITE, st.sampled_from(SPELLINGS))
CELL = st.text(st.characters(codec="utf-8", exclude_characters="\r\x00"), min_size=1).map(
    lambda s: "w" + s
)


@pytest.fixture
def write(tmp_path):
    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def read_events(path: Path, **options: object) -> list[dict]:
    return [json.loads(event) for event in events(scan(path, **options))]


# Numbers and words are kept unchanged.


@given(st.lists(st.dictionaries(st.integers(1, 40), NUMBER, max_size=8), min_size=1).filter(any))
def test_svmlight_rows_keep_their_numbers(matrix):
    with TemporaryDirectory() as folder:
        path = Path(folder, "x.svm")
        lines = [" ".join(["+1", *(f"{i}:{row[i]}" for i in sorted(row))]) + "\n" for row in matrix]
        path.write_text("".join(lines))
        file = scan(path)
        assert file.columns == tuple(
            str(i + 1) for i in range(max(max(row, default=0) for row in matrix))
        )
        wanted = [
            {"features": {str(i): float(v) for i, v in row.items()}, "label": 1} for row in matrix
        ]
        assert read_events(path) == wanted


@given(
    st.lists(
        st.tuples(NUMBER, CELL, st.one_of(NUMBER, st.sampled_from(["", "?"])), CELL), min_size=1
    )
)
def test_csv_rows_keep_their_numbers_and_words(table):
    with TemporaryDirectory() as folder:
        path = Path(folder, "x.csv")
        with path.open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows([("n", 'a "word", or two', "maybe", "label"), *table])
        file = scan(path)
        assert (file.columns, file.words) == (("n", "maybe"), ('a "word", or two',))
        for (n, word, maybe, label), event in zip(table, read_events(path), strict=True):
            present = {} if maybe in {"", "?"} else {"maybe": float(maybe)}
            assert event == {
                "features": {"n": float(n), 'a "word", or two': word, **present},
                "label": label,
            }


@given(st.integers(1, 40), st.integers(1, 7))
def test_any_cut_into_chunks_gives_the_same_events(count, size):
    with TemporaryDirectory() as folder:
        path = Path(folder, "x.csv")
        body = (f'{i},w{i % 3},"say ""{i}""\n",{"ab"[i % 2]}\n' for i in range(count))
        path.write_text("n,word,quoted,label\n" + "".join(body))
        file = scan(path)
        raws, convert = list(rows(file)), converter(file)
        pieces = [convert(raws[at : at + size]) for at in range(0, count, size)]
        assert [event for piece in pieces for event in piece] == list(events(file))


def test_the_digits_of_numbers_are_kept(write):
    assert list(events(scan(write("x.csv", "a,b,label\n0.10,7,1\n")))) == [
        b'{"features":{"a":0.10,"b":7},"label":1}'
    ]
    assert list(events(scan(write("x.svm", "-1 2:0.10 9:7\n")))) == [
        b'{"features":{"2":0.10,"9":7},"label":-1}'
    ]


# Formats.


@looped(
    ("name", "content", "form"),
    [
        ("x.svm", "", "svmlight"),
        ("x.SVMLIGHT.gz", "", "svmlight"),
        ("x.libsvm", "", "svmlight"),
        ("x.csv.gz", "", "csv"),
        ("x.jsonl", "", "jsonl"),
        ("x.json", "", "jsonl"),
        ("x.ndjson.gz", "", "jsonl"),
        ("x.txt", "# remark\n+1 1:2 # b\n", "svmlight"),
        ("x.txt", "1 qid:3 1:2\n", "svmlight"),
        ("x", "a,label\n1,1\n", "csv"),
        ("x.data", '\n{"a": 1}\n', "jsonl"),
    ],
)
def test_the_format_follows_from_the_name_or_the_first_line(write, name, content, form):
    assert format_of(write(name, content)) == form


@looped(
    ("name", "content"),
    [
        ("x.svm", b"+1 1:2\n-1 2:3\n"),
        ("x.csv", b"a,label\n1,1\n2,-1\n"),
        ("x.jsonl", b'{"a": 1, "label": 1}\n{"a": 2, "label": -1}\n'),
    ],
)
def test_gzip_is_known_by_its_content(write, name, content):
    plain = read_events(write(name, content))
    assert read_events(write(f"packed.{name}", gzip.compress(content))) == plain
    assert read_events(write(f"{name}.gz", content)) == plain
    assert len(plain) == 2


def test_a_byte_order_mark_and_windows_line_ends_are_ignored(write):
    assert read_events(write("x.csv", b"\xef\xbb\xbfa,label\r\n1,1\r\n\r\n")) == [
        {"features": {"a": 1}, "label": 1}
    ]
    line = b'{"features": {"a": 1}, "label": 1}'
    assert list(events(scan(write("x.jsonl", b"\xef\xbb\xbf" + line + b"\r\n")))) == [line]


def test_svmlight_comments_and_queries_are_left_out(write):
    path = write("x.svm", "# head\n\n+1 qid:4 1:.5  3:1.\t# tail 9:9\n-1\n")
    wanted = [{"features": {"1": 0.5, "3": 1}, "label": 1}, {"features": {}, "label": -1}]
    assert read_events(path) == wanted


# CSV columns.


def test_csv_columns_become_numbers_words_or_text_or_are_dropped(write):
    path = write("x.csv", "id,n,code,note,y\n1,2,7,8,spam\n2,?,x,,ham\n")
    file = scan(path, label="y", text=["note"], drop=["id"])
    assert (file.columns, file.words, file.text, file.hashed) == (
        ("n",),
        ("code",),
        ("note",),
        True,
    )
    assert read_events(path, label="y", text=["note"], drop=["id"]) == [
        {"features": {"n": 2, "code": "7", "note": "8"}, "y": "spam"},
        {"features": {"code": "x"}, "y": "ham"},
    ]


def test_a_quoted_cell_may_span_lines(write):
    path = write("x.csv", 'a,note,label\n1,"two\nlines, ""quoted""",1\n2,x,-1\n')
    assert [event["features"]["note"] for event in read_events(path)] == [
        'two\nlines, "quoted"',
        "x",
    ]


def test_csv_labels_are_numbers_booleans_words_or_absent(write):
    path = write("x.csv", "a,label\n1,+1\n1,01.0\n1,True\n1,?\n1,nan\n1,1_0\n")
    labels = [event.get("label") for event in read_events(path)]
    assert labels == [1, 1, True, None, "nan", "1_0"]
    assert scan(path).labels == ("1", "true", "nan", "1_0")


def test_nan_among_words_is_a_word(write):
    path = write("x.csv", "a,label\nnan,1\nx,-1\n")
    assert [event["features"] for event in read_events(path)] == [{"a": "nan"}, {"a": "x"}]


# JSON lines.


@looped(
    "line",
    [
        b'{"label":  1, "features": {"a": 1.50, "a": 2}, "more": [1,  2]}',
        b'{"features": {}}',
        b'{"a": NaN, "label": 1}',
        b'{"a": 1',
        b"[1, 2]",
        b'{"\xff": 1}',
        b"not json",
    ],
)
def test_events_and_malformed_lines_pass_unchanged(write, line):
    path = write("x.jsonl", b'{"a": 1, "label": 1}\n' + line + b"\n\n" + line)
    assert list(events(scan(path)))[1:] == [line, line]


def test_flat_objects_become_events(write):
    flat = (
        '{"a": 0.10, "b": [1, "x"], "c": null, "label": ["earn"], "id": 7, "ts": 5, "weight": 2,'
        ' "split": "train"}'
    )
    path = write("x.jsonl", flat)
    first = next(events(scan(path)))
    assert b'"a":0.10' in first
    features = {"a": 0.1, "b": [1, "x"]}
    assert json.loads(first) == {
        "features": features,
        "label": ["earn"],
        "id": "7",
        "ts": 5,
        "weight": 2,
    }
    assert read_events(path, text=["b"], label="split")[0]["features"] == {"b": [1, "x"]}
    assert read_events(path, drop=["b"])[0]["features"] == {"a": 0.1}


def test_a_features_field_that_is_no_object_is_a_feature(write):
    assert read_events(write("x.jsonl", '{"features": 3, "label": 1}')) == [
        {"features": {"features": 3}, "label": 1}
    ]


# The real files match their manifest.


def classes(path: Path) -> Counter:
    return Counter(event["label"] for event in read_events(path))


@pytest.mark.data
def test_the_heart_file_matches_its_manifest(data):
    file = scan(data / "bollegala" / "heart.train.svm.gz")
    assert (file.rows, len(file.columns), file.labels) == (216, 13, ("1", "-1"))


@pytest.mark.data
def test_the_adult_file_matches_its_manifest(data):
    path = data / "adult_raw_train.csv.gz"
    file = scan(path)
    assert (file.rows, len(file.columns), len(file.words)) == (32561, 6, 8)
    assert classes(path) == {"<=50K": 24720, ">50K": 7841}
    complete = sum(len(event["features"]) == 14 for event in read_events(path))
    assert complete == 30162


@pytest.mark.data
def test_the_enron_file_matches_its_manifest(data):
    path = data / "enron_spam_1.jsonl.gz"
    file = scan(path, text=["text"])
    assert (file.rows, file.labels, file.hashed) == (5172, ("ham", "spam"), True)
    assert classes(path) == {"ham": 3672, "spam": 1500}
