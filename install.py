"""`make install`: install the locked packages and the command onepass into .venv, and print
progress every few seconds.
"""

import os
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).parent
LOCK = ROOT / "requirements.lock"
SECONDS_BETWEEN_LINES = 5.0


class Progress:
    """Prints progress lines, each with the seconds since the start."""

    def __init__(
        self, installed: Callable[[], int] = lambda: 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._installed = installed
        self._clock = clock
        self._began = clock()

    def say(self, text: str) -> None:
        print(f"[{self._clock() - self._began:4.0f} s] {text}", flush=True)

    def follow(self, lines: Iterable[str], packages: int) -> list[str]:
        """Read pip's lines and return them all. Every few seconds, print how many packages pip has
        found, and later how many it has installed.
        """
        kept: list[str] = []
        found, said, end = 0, self._clock(), threading.Event()
        for line in lines:
            kept.append(line)
            found += line.startswith(("Collecting ", "Requirement already satisfied: "))
            if found and line.startswith("Installing collected packages"):
                self.say(f"  {found} packages found, installing them")
                threading.Thread(target=self.count, args=(found, end), daemon=True).start()
                found = 0
            elif found and self._clock() - said >= SECONDS_BETWEEN_LINES:
                said = self._clock()
                self.say(f"  {found} of {packages} packages found")
        end.set()
        return kept

    def count(self, packages: int, end: threading.Event) -> None:
        """Print how many packages are installed, until `end`, because pip prints nothing then."""
        before = self._installed()
        while not end.wait(SECONDS_BETWEEN_LINES):
            self.say(f"  {self._installed() - before} of {packages} packages installed")


def main(folder: Path) -> None:
    progress = Progress(lambda: len(list(folder.glob("lib/python*/site-packages/*.dist-info"))))
    python = folder / "bin" / "python"
    if not python.exists():
        progress.say(f"making {folder}; the whole installation takes a minute or two")
        venv.create(folder, with_pip=True, symlinks=True)
    packages = sum("==" in line for line in LOCK.read_text(encoding="utf-8").splitlines())
    progress.say(f"installing {packages} packages of {LOCK.name}")
    pip(progress, python, packages, "--require-hashes", "--requirement", str(LOCK))
    progress.say("installing the command onepass")
    pip(progress, python, 1, "--no-deps", "--no-build-isolation", "--editable", str(ROOT))
    progress.say("done")


def pip(progress: Progress, python: Path, packages: int, *arguments: str) -> None:
    """Run pip. If it fails, print its whole output and exit with its status."""
    command = [str(python), "-m", "pip", "install", "--progress-bar=off", "--no-input", *arguments]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        kept = progress.follow(process.stdout or (), packages)
    if process.returncode:
        sys.stderr.writelines(kept)
        sys.exit(process.returncode)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
