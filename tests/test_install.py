"""`make install` says what it does while it does it, and shows pip's words when it fails."""

import sys

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


def test_progress_has_seconds_and_counts(capsys):
    progress = install.Progress(make_clock(3))
    assert progress.follow(PIP, 7) == PIP
    said = capsys.readouterr().out.splitlines()
    assert all(line.startswith("[") and " s] " in line for line in said)
    assert any("of 7 packages found" in line for line in said)
    assert said[-1].endswith("3 packages are here, now they are installed")


def test_nothing_is_repeated_within_five_seconds(capsys):
    install.Progress(lambda: 0.0).follow(PIP, 7)
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_a_failure_of_pip_is_shown_and_is_the_status(capsys):
    with pytest.raises(SystemExit) as end:
        install.pip(
            install.Progress(), sys.executable, 1, "--no-index", "a-package-that-is-nowhere"
        )
    assert end.value.code == 1
    assert "No matching distribution found for a-package-that-is-nowhere" in capsys.readouterr().err
