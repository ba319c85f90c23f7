"""`make test` runs every test in one of two parts, and no failure of either is lost."""

import subprocess
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import durations, parts, run


@pytest.mark.parametrize(
    ("ends", "status"),
    [
        ((0, 0), 0),
        ((5, 0), 0),
        ((0, 5), 0),
        ((5, 5), 5),
        ((1, 0), 1),
        ((0, 1), 1),
        ((0, -11), -11),
        ((-9, 5), -9),
    ],
)
def test_the_status_is_that_of_the_part_that_failed(monkeypatch, ends, status):
    instead(monkeypatch, *ends)
    assert run.main([]) == status


@pytest.fixture(autouse=True)
def file_of_durations(monkeypatch, tmp_path):
    monkeypatch.setattr(run, "DURATIONS", tmp_path / "durations")
    return run.DURATIONS


def instead(monkeypatch, beside, alone):
    """Commands that end so, and say what they were."""
    lines = []

    class Background:
        def __init__(self, line, stdout, stderr):
            assert stderr == subprocess.STDOUT
            lines.append(line)
            write_durations(line, "a[x]", 2.5)
            stdout.write(b"said by the one beside\n")

        def wait(self):
            return beside

        def kill(self):
            lines.append("killed")

    def ran(line, check):
        assert not check
        lines.append(line)
        write_durations(line, "b", 3.25)
        return subprocess.CompletedProcess(line, alone)

    monkeypatch.setattr(subprocess, "Popen", Background)
    monkeypatch.setattr(subprocess, "run", ran)
    return lines


def write_durations(line, test, seconds):
    """As the plugin does."""
    (file,) = [word.partition("=")[2] for word in line if word.startswith("--durations-file=")]
    Path(file).write_text(durations.table(Counter({test: seconds})))


def test_the_slowest_tests_of_both_parts_are_in_one_file(monkeypatch, file_of_durations):
    instead(monkeypatch, 0, 0)
    run.main([])
    assert file_of_durations.read_text() == "     3.25 s  b\n     2.50 s  a[x]\n"


def test_a_test_takes_as_long_as_its_phases_and_the_slowest_are_told():
    report = SimpleNamespace(nodeid="tests/a.py::b[x@y]@pa1", when="call", duration=1.0)
    before = SimpleNamespace(nodeid="tests/a.py::b[x@y]@pa1", when="setup", duration=0.5)
    assert durations.spent({"passed": [report], "": [before], "warnings": [object()]}) == {
        "tests/a.py::b[x@y]": 1.5
    }
    many = Counter({f"test {number}": float(number) for number in range(200)})
    assert list(durations.read(durations.table(many))) == [
        f"test {199 - place}" for place in range(50)
    ]


def test_a_folder_is_left_out_where_it_has_no_test_of_the_part_and_none_is_named(
    monkeypatch, capsysbinary
):
    lines = instead(monkeypatch, 0, 0)
    run.main(["-k", "laws"])
    run.main([__file__])
    assert capsysbinary.readouterr().out.count(b"said by the one beside") == 2
    lines = [line for line in lines if line != "killed"]
    assert [sum("--ignore" in word for word in line) for line in lines] == [3, 1, 0, 0]
    assert lines[0][-2:] == ["-k", "laws"]


def test_what_is_said_to_run_beside_others_is_there():
    assert all(path.exists() for path in parts.FILES)


def test_whatever_needs_a_server_runs_alone(request):
    item = request.node
    assert parts.in_part(item, parts.BESIDE)
    assert not parts.in_part(item, parts.ALONE)
    item.fixturenames.append("kafka")
    try:
        assert parts.in_part(item, parts.ALONE)
    finally:
        item.fixturenames.remove("kafka")
