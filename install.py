"""`make install`: .venv with the locked packages and the command onepass, with a line of progress
every few seconds.
"""

import os
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).parent
LOCK = ROOT / "requirements.lock"
MINUTES = 2
"""On two cores with a good network; a second time pip's cache saves the downloads.
"""
SECONDS_BETWEEN_LINES = 5.0


class Progress:
    """Lines of what is done, each with the seconds since the start."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()

    def say(self, text: str) -> None:
        print(f"[{self._clock() - self._began:4.0f} s] {text}", flush=True)

    def follow(self, lines: Iterable[str], packages: int) -> list[str]:
        """Count the packages that pip has found, and say so now and then; return all of
        its lines.
        """
        kept: list[str] = []
        found, said = 0, self._clock()
        for line in lines:
            kept.append(line)
            found += line.startswith(("Collecting ", "Requirement already satisfied: "))
            if line.startswith("Installing collected packages"):
                self.say(f"  {found} packages are here, now they are installed")
                found = 0
            elif found and self._clock() - said >= SECONDS_BETWEEN_LINES:
                said = self._clock()
                self.say(f"  {found} of {packages} packages found")
        return kept


def main(folder: Path) -> None:
    progress = Progress()
    python = folder / "bin" / "python"
    if not python.exists():
        progress.say(f"{folder} is made; all in all this takes about {MINUTES} minutes")
        venv.create(folder, with_pip=True, symlinks=True)
    packages = sum("==" in line for line in LOCK.read_text(encoding="utf-8").splitlines())
    progress.say(f"{packages} packages of {LOCK.name}")
    pip(progress, python, packages, "--require-hashes", "--requirement", str(LOCK))
    progress.say("the command onepass")
    pip(progress, python, 1, "--no-deps", "--no-build-isolation", "--editable", str(ROOT))
    progress.say("done")


def pip(progress: Progress, python: Path, packages: int, *arguments: str) -> None:
    """Run pip; if it fails, show all that it said and end with its status."""
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
