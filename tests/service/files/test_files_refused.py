"""A wrong data file is refused in one line that names the wrong line."""

import gzip
from pathlib import Path

import pytest

from service.errors import SettingsError
from service.files import events, scan
from tests.looped import looped


@pytest.fixture
def write(tmp_path):
    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@looped(
    ("name", "content", "message"),
    [
        ("x.svm", "+1 1:2\n-1 0:1\n", r"x.svm:2: index 0"),
        ("x.svm", "# a\n+1 3:2 2:1\n", r"x.svm:2: indices must increase"),
        ("x.svm", "+1 2:2 2:1\n", r"x.svm:1: indices must increase"),
        ("x.svm", "+1 2:x\n", r"x.svm:1: 'x' is not a number"),
        ("x.svm", "+1 2:1_0\n", r"x.svm:1: '1_0' is not a number"),
        ("x.svm", "+1 2:nan\n", r"x.svm:1: 'nan' is not a finite number"),
        ("x.svm", "+1 2:1e400\n", r"x.svm:1: '1e400' is not a finite number"),
        ("x.svm", "+1 2\n", r"x.svm:1: '2' is not index:value"),
        ("x.svm", "+1 -2:1\n", r"x.svm:1: '-2:1' is not index:value"),
        ("x.svm", "spam 2:1\n", r"x.svm:1: 'spam' is not a number"),
        ("x.svm", "+1 5000000:1\n", r"x.svm:1: index 5000000 is over 4194304"),
        ("x.svm", "+1\n", r"x.svm: has no features"),
        ("x.svm", "\n# only\n", r"x.svm: is empty"),
        ("x.csv", "a,label\n1,1\n1,2,3\n", r"x.csv:3: 3 fields where the header has 2"),
        ("x.csv", 'a,label\n"1\n",1\n1\n', r"x.csv:4: 1 fields where the header has 2"),
        ("x.csv", 'a,label\n1,"1\n2,2\n', r"x.csv:2: a quote is opened and never closed"),
        ("x.csv", 'a,label\n"1"2,"1"\n', r"x.csv:2: not CSV"),
        ("x.csv", 'a,label\nx"y,"z\n1,1\n', r"x.csv:2: not CSV"),
        ("x.csv", b"a,label\n1,1\n\xff,1\n", r"x.csv:3: not CSV in UTF-8"),
        ("x.csv", "a,label\n1,1\n\nnan,1\n", r"x.csv:4: column a is not a finite number"),
        ("x.csv", "a,label\n1,1\n-Inf,1\n", r"x.csv:3: column a is not a finite number"),
        ("x.csv", "a,label\n1e400,1\n", r"x.csv:2: column a is not a finite number"),
        ("x.csv", "a,b\n1,1\n", r"x.csv: no column label for --label; its columns are a, b"),
        ("x.csv", "a,a,label\n1,1,1\n", r"x.csv: a column name twice"),
        ("x.csv", "label\n1\n", r"x.csv: no feature beside the label"),
        ("x.csv", "a,label\n", r"x.csv: a header and no rows"),
        ("x.csv", "", r"x.csv: empty"),
        ("x.jsonl", "\n", r"x.jsonl: empty"),
        ("x.txt", "", r"x.txt: empty"),
        ("x.txt", "one two\n", r"x.txt: neither svmlight, CSV nor JSON lines"),
        ("x.svm.gz", gzip.compress(b"+1 1:2\n" * 999, mtime=0)[:-12], r"x.svm.gz: cannot be read"),
        (
            "x.svm.gz",
            gzip.compress(b"+1 1:2\n", mtime=0)[:12] + b"\xff" * 9,
            r"x.svm.gz: cannot be read",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(write, name, content, message):
    with pytest.raises(SettingsError, match=message) as refused:
        scan(write(name, content))
    assert "\n" not in str(refused.value)


@looped(
    ("name", "content", "options", "message"),
    [
        ("x.csv", "a,label\n1,1\n", {"text": ["note"]}, "no column note for --text"),
        ("x.csv", "a,label\n1,1\n", {"drop": ["note"]}, "no column note for --drop"),
        ("x.csv", "a,label\n1,1\n", {"drop": ["label"]}, "label can be neither"),
        ("x.csv", "a,id\n1,1\n", {"label": "id"}, "rename the label"),
        ("x.svm", "+1 1:1\n", {"text": ["1"]}, "svmlight has no names"),
        ("x.jsonl", '{"a": 1, "label": 1}', {"text": ["note"]}, "no line has the text field note"),
    ],
)
def test_options_that_fit_no_column_are_refused(write, name, content, options, message):
    with pytest.raises(SettingsError, match=message):
        scan(write(name, content), **options)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises(SettingsError):
            scan(path)


def test_a_file_that_changes_after_the_scan_stops_the_conversion(write):
    file = scan(write("x.csv", "a,label\n1,1\n"))
    write("x.csv", "a,label\nword,1\n")
    with pytest.raises(SettingsError, match="changed since it was scanned"):
        list(events(file))
