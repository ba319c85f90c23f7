"""Properties that only a file has as a log: an order drawn from a seed, a limit, further passes,
and rows that become events.
"""

import json

import numpy as np
import pytest

from service.errors import SettingsError
from service.files import events, scan
from service.sources.base import Bookmark, SourceLostError, SourceUnavailableError
from service.sources.file import FileSource

ROWS = 50


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("n,word,label\n" + "".join(f"{n},w{n % 3},{(-1) ** n}\n" for n in range(ROWS)))
    return path


def drain(source: FileSource, most: int = 7) -> list[int]:
    """Return the `n` of each delivered row."""
    numbers: list[int] = []
    while not source.at_end:
        numbers += [json.loads(record.value)["features"]["n"] for record in source.poll(0, most)]
    return numbers


def test_the_shuffle_is_the_documented_permutation(path):
    source = FileSource(scan(path), shuffle=3)
    draws = np.random.default_rng(3)
    assert drain(source) == draws.permutation(ROWS).tolist()
    source.again()
    assert source.lag() == {"0": ROWS}
    assert drain(source) == draws.permutation(ROWS).tolist()


def test_without_a_shuffle_every_pass_has_the_order_of_the_file(path):
    source = FileSource(scan(path))
    assert drain(source) == list(range(ROWS))
    assert source.poll(0, 5) == []
    source.again()
    assert drain(source) == list(range(ROWS))


@pytest.mark.parametrize("shuffle", [None, 5])
def test_the_limit_takes_the_first_of_the_order(path, shuffle):
    whole = drain(FileSource(scan(path), shuffle=shuffle))
    limited = FileSource(scan(path), shuffle=shuffle, limit=12)
    assert limited.lag() == {"0": 12}
    assert drain(limited) == whole[:12]
    assert drain(FileSource(scan(path), shuffle=shuffle, limit=1000)) == whole
    with pytest.raises(SourceLostError):
        limited.seek(Bookmark({"0": "13"}, {}))


@pytest.mark.parametrize("shuffle", [None, 5])
def test_another_source_resumes_where_the_first_stopped(path, shuffle):
    whole = drain(FileSource(scan(path), shuffle=shuffle))
    first = FileSource(scan(path), shuffle=shuffle)
    head = first.poll(0, 9) + first.poll(0, 9)
    assert first.bookmark().positions == {"0": "18"} == {head[-1].partition: head[-1].after}
    first.close()
    second = FileSource(scan(path), shuffle=shuffle)
    second.seek(first.bookmark())
    assert second.lag() == {"0": ROWS - 18}
    assert drain(second) == whole[18:]


@pytest.mark.parametrize(("shuffle", "other"), [(None, 5), (5, None), (5, 6)])
def test_a_bookmark_of_another_order_is_refused(path, shuffle, other):
    source = FileSource(scan(path), shuffle=shuffle)
    source.poll(0, 9)
    with pytest.raises(SourceLostError, match="first 9 rows"):
        FileSource(scan(path), shuffle=other).seek(source.bookmark())


def test_a_bookmark_of_a_file_with_another_past_is_refused(path):
    source = FileSource(path)
    source.poll(0, 9)
    bookmark = source.bookmark()
    path.write_text(path.read_text() + "50,w2,1\n")
    FileSource(path).seek(bookmark)
    path.write_text(path.read_text().replace("\n3,w0", "\n4,w0"))
    with pytest.raises(SourceLostError, match="first 9 rows"):
        FileSource(path).seek(bookmark)


def test_a_path_of_rows_is_converted_as_the_scan_converts_it(path):
    assert [record.value for record in FileSource(path).poll(0, ROWS)] == list(events(scan(path)))


def test_a_path_of_json_lines_passes_unchanged(tmp_path):
    path = tmp_path / "x.jsonl"
    lines = [b'{"features": {"a":  1}, "label": 1}', b'{"flat": 1}', b"no json"]
    path.write_bytes(b"\n".join(lines))
    assert [record.value for record in FileSource(path).poll(0, 9)] == lines


@pytest.mark.parametrize("position", ["51", "-1", "a"])
def test_a_position_outside_the_file_is_lost(path, position):
    with pytest.raises(SourceLostError):
        FileSource(path).seek(Bookmark({"0": position}, {}))


def test_a_file_that_disappears_or_shrinks_is_noticed(path):
    file = scan(path)
    source = FileSource(file)
    path.write_text("n,word,label\n1,x,1\n")
    with pytest.raises(SourceLostError, match="fewer rows"):
        source.poll(0, ROWS)
    with pytest.raises(SourceLostError, match="changed"):
        FileSource(file, shuffle=1)
    path.unlink()
    with pytest.raises(SourceUnavailableError):
        source.lag()
    with pytest.raises(SettingsError):
        FileSource(path)


# A file that is changed while it is read.


def make_lines(first, end):
    return b"".join(b'{"n": %08d}\n' % number for number in range(first, end))


@pytest.fixture
def growing(tmp_path):
    """A file larger than several read-ahead buffers, and a source that has delivered its first
    rows.
    """
    path = tmp_path / "x.jsonl"
    path.write_bytes(make_lines(0, 100_000))
    source = FileSource(path)
    source.poll(0, 10)
    return path, source


def rest_of(source):
    numbers = []
    while not source.at_end:
        numbers += [int(record.value[6:-1]) for record in source.poll(0, 5_000)]
    return numbers


@pytest.mark.parametrize("rows", [100_000, 150_000], ids=["as long", "longer"])
def test_a_file_rewritten_in_place_is_noticed(growing, rows):
    path, source = growing
    path.write_bytes(make_lines(500_000, 500_000 + rows))
    with pytest.raises(SourceLostError, match="changed while it was read"):
        rest_of(source)


def test_a_file_truncated_and_grown_again_is_noticed(growing):
    path, source = growing
    with path.open("r+b") as file:
        file.truncate(len(make_lines(0, 50_000)))
        file.seek(0, 2)
        file.write(make_lines(700_000, 780_000))
    with pytest.raises(SourceLostError, match="changed while it was read"):
        rest_of(source)


def test_a_growing_file_is_read_to_the_end_it_had_at_the_start(growing):
    path, source = growing
    with path.open("ab") as file:
        file.write(make_lines(100_000, 100_100))
    assert rest_of(source) == list(range(10, 100_000))


def test_a_replaced_file_is_read_to_its_old_end(growing):
    path, source = growing
    other = path.with_suffix(".new")
    other.write_bytes(make_lines(900_000, 900_010))
    other.rename(path)
    assert rest_of(source) == list(range(10, 100_000))
