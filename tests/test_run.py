"""`make test` runs every test in one of two parts, and no failure of either is lost."""

import subprocess

import pytest

from tests import parts, run


@pytest.mark.parametrize(
    ("ends", "status"),
    [((0, 0), 0), ((5, 0), 0), ((0, 5), 0), ((5, 5), 5), ((1, 0), 1), ((0, 1), 1), ((0, -11), -11), ((-9, 5), -9)],
)
def test_the_status_is_that_of_the_part_that_failed(monkeypatch, ends, status):
    instead(monkeypatch, *ends)
    assert run.main([]) == status


def instead(monkeypatch, beside, alone):
    """Commands that end so, and say what they were."""
    lines = []

    class Background:
        def __init__(self, line, stdout, stderr):
            assert stderr == subprocess.STDOUT
            lines.append(line)
            stdout.write(b"said by the one beside\n")

        def wait(self):
            return beside

        def kill(self):
            lines.append("killed")

    def ran(line, check):
        assert not check
        lines.append(line)
        return subprocess.CompletedProcess(line, alone)

    monkeypatch.setattr(subprocess, "Popen", Background)
    monkeypatch.setattr(subprocess, "run", ran)
    return lines


def test_a_folder_is_left_out_where_it_has_no_test_of_the_part_and_none_is_named(monkeypatch, capsysbinary):
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
