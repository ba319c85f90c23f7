"""The commands of README.md and docs/ do what the pages show, in a shell, page by page."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from service.embedded.process import free_port
from tests.documents import PAGES, ROOT, blocks, commands, figures
from tests.looped import check_each
from tests.zygote import environment

PORTS = ("6380", "8000", "8001", "8002")
"""Ports of the pages. Each run takes free ones instead."""
WHOLE_PAGE_SECONDS = 400
"""Seconds; catches a hang."""
RUN = {page: [command for command in commands(page) if not command.why_not_run] for page in PAGES}
PLAIN = [page for page in PAGES if any(not each.needs_data for each in RUN[page])]
WITH_DATA = [page for page in PAGES if any(each.needs_data for each in RUN[page])]
BEGIN = """
# A page that says `sleep 8` waits for a checkpoint.
sleep() {
    case $1 in 0.*) command sleep "$1"; return;; esac
    until curl -s http://127.0.0.1:8001/status | grep -q '"generation":[1-9]'
    do command sleep 0.1; done
}
"""
END = "kill -9 $(jobs -p) 2> /dev/null; wait"


class Shell:
    """A folder with the files that the pages name, and a shell in it."""

    def __init__(self, folder):
        self.folder = folder
        self._ports = {port: str(free_port()) for port in PORTS}
        tour, programs = folder / "docs" / "tour", folder / "bin"
        shutil.copytree(ROOT / "docs" / "tour", tour)
        config = tour / "payments.yaml"
        config.write_text(self._translated(config.read_text()))
        programs.mkdir()
        onepass = programs / "onepass"
        onepass.write_text(f'#!/bin/sh\nexec {sys.executable} -m service "$@"\n')
        onepass.chmod(0o755)
        path = [programs, Path(sys.executable).parent, os.environ["PATH"]]
        self._environment = environment() | {
            "PATH": os.pathsep.join(map(str, path)),
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(folder),
        }

    @property
    def errors(self):
        return (self.folder / "errors").read_text()[-2000:]

    def write(self, name, text):
        (self.folder / name).write_text(self._translated(text))

    def run(self, statements):
        """Run the statements in one shell; (exit status, output) of each."""
        marked = "".join(
            f"{self._translated(text)}\nprintf '\\036%s\\036' $?\n" for text in statements
        )
        output, errors = self.folder / "output", self.folder / "errors"
        with output.open("w") as out, errors.open("w") as err:
            shell = subprocess.Popen(
                ["bash", "-c", self._translated(BEGIN) + marked + END],
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
            try:
                shell.wait(WHOLE_PAGE_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(shell.pid, signal.SIGKILL)
                shell.wait()
        parts = output.read_text().split("\036")
        return [(int(status), said) for said, status in zip(parts[::2], parts[1::2], strict=False)]

    def _translated(self, text):
        for port, free in self._ports.items():
            text = re.sub(rf"\b{port}\b", free, text)
        return text


@pytest.fixture
def shell(tmp_path):
    if shutil.which("curl") is None and os.environ.get("CI") == "true":
        pytest.fail("no curl: apt-get install curl", pytrace=False)
    if shutil.which("curl") is None:
        pytest.skip("THE COMMANDS OF THE DOCUMENTS WERE NOT RUN: apt-get install curl")
    return Shell(tmp_path)


@pytest.mark.parametrize("page", PLAIN, ids=lambda page: page.stem)
def test_commands(shell, page):
    check(shell, page, [command for command in RUN[page] if not command.needs_data])


@pytest.mark.parametrize("page", WITH_DATA, ids=lambda page: page.stem)
def test_commands_on_data(shell, page, data):
    del data
    check(shell, page, [command for command in RUN[page] if command.needs_data])


def check(shell, page, chosen):
    for block in blocks(page):
        if block.file:
            shell.write(block.file, block.text)
    ended = shell.run([command.text for command in chosen])
    assert len(ended) == len(chosen), f"{chosen[len(ended)].text} does not end: {shell.errors}"
    check_each(
        (command.text, lambda command=command, end=end: check_one(command, *end, shell.errors))
        for command, end in zip(chosen, ended, strict=True)
    )


def check_one(command, status, said, errors):
    assert status == 0, said + errors
    missing = set() if command.why_not_compared else figures(command.shown) - figures(said)
    assert not missing, f"the page shows {sorted(missing)}, the command says {said}"
