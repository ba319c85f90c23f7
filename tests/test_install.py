"""`make install` reports its progress, and shows pip's output when it fails."""

import sys
from itertools import count

import pytest

import install

PIP = [
    "Collecting numpy==2.0 (from -r requirements.lock (line 3))\n",
    "  Downloading numpy-2.0.whl (16 MB)\n",
    "Requirement already satisfied: numba==0.60 in .venv\n",
    "Collecting redis==5.0\n",
    "Installing collected packages: numpy, redis\n",
]


def make_clock(step):
    times = iter(range(0, 1000, step))
    return lambda: float(next(times))


def test_each_progress_line_has_seconds_and_counts(capsys):
    progress = install.Progress(clock=make_clock(3))
    assert progress.follow(PIP, 7) == PIP
    said = capsys.readouterr().out.splitlines()
    assert all(line.startswith("[") and " s] " in line for line in said)
    assert any("of 7 packages found" in line for line in said)
    assert said[-1].endswith("3 packages found, installing them")


def test_progress_prints_at_most_once_in_five_seconds(capsys):
    install.Progress(clock=lambda: 0.0).follow(PIP, 7)
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_without_packages_nothing_is_printed(capsys):
    install.Progress().follow(["Installing collected packages: onepass\n"], 1)
    assert not capsys.readouterr().out


def test_packages_that_were_already_installed_are_not_counted(capsys):
    waits = count()

    class End:
        def wait(self, _seconds):
            return next(waits) == 2

    install.Progress(count(2).__next__, lambda: 0.0).count(9, End())
    said = capsys.readouterr().out.splitlines()
    assert [line.partition("] ")[2].strip() for line in said] == [
        "1 of 9 packages installed",
        "2 of 9 packages installed",
    ]


def test_a_failure_of_pip_is_shown_and_sets_the_status(capsys):
    with pytest.raises(SystemExit) as end:
        install.pip(
            install.Progress(), sys.executable, 1, "--no-index", "a-package-that-is-nowhere"
        )
    assert end.value.code == 1
    assert "No matching distribution found for a-package-that-is-nowhere" in capsys.readouterr().err
