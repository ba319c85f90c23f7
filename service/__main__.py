"""The command `onepass`: choose the subcommand, import only what it needs, return an exit status.

Exit status: 0 done; 1 failed; 2 wrong usage, configuration or input file; 3 stopped to protect the
state.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, NoReturn

from service.errors import ProtectiveError, SettingsError
from service.kernel_cache import use_kernel_cache
from service.logs import redact, set_up

ROLES = "service.cli.run"
COMMANDS = {
    "demo": (
        "service.cli.demo",
        "run the whole loop on embedded servers, with a stream that drifts",
    ),
    "run": (ROLES, "learn from the log and serve predictions, in one process"),
    "learn": (ROLES, "only learn; other processes serve predictions"),
    "serve": (ROLES, "only serve, following a learner's checkpoints"),
    "replay": ("service.cli.replay.command", "run one predict-then-update pass over a file"),
    "audit": (
        "service.cli.audit",
        "rebuild a checkpoint from its log and check that it is identical",
    ),
    "produce": ("service.cli.produce", "append a file's events to a topic or stream"),
    "checkpoints": (
        "service.cli.checkpoints",
        "list, compare, roll back, export, import and freeze a model's checkpoints",
    ),
    "keys": ("service.cli.keys", "create, list and remove keys of the HTTP API"),
    "bench": ("service.cli.bench", "measure the cost of an event, a checkpoint and a prediction"),
    "papers": (
        "service.cli.papers",
        "run the papers' experiments and compare with the printed figures",
    ),
    "learners": ("service.cli.catalog", "list every learner, with its parameters and its paper"),
    "detectors": (
        "service.cli.catalog",
        "list every drift detector, with its parameters and its paper",
    ),
}
NO_MEMORY = "not enough memory; raise the limit of the process or its container (ulimit -v, memory)"
SIGNS_OF_NO_MEMORY = ("annot allocate memory", "failed to map segment", "can't start new thread")


RENAMED_FLAGS = {
    "--from-then": "--rewind",
    "--keep-position": "--keep-offsets",
    "--over": "--replace",
    "--lineage": "the command `onepass audit`",
}
"""Flags that had another name before 0.1.0."""


class PrintVersion(argparse.Action):
    """Print the version. Only this reads it: other commands start without the package's files."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        print(f"onepass {version('onepass')}")
        parser.exit()


class Parser(argparse.ArgumentParser):
    """argparse with one-line errors. It reports a renamed or unknown flag before a missing one."""

    _given: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._given = list(sys.argv[1:] if args is None else args)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        unknown = [
            word for word in self._given if word.startswith("--") and not self._is_option(word)
        ]
        renamed = next((word for word in unknown if word in RENAMED_FLAGS), None)
        if renamed is not None:
            message = f"{renamed} is now {RENAMED_FLAGS[renamed]}"
        elif unknown and "required" in message:
            message = f"unrecognized arguments: {unknown[0]}"
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")

    def _is_option(self, word: str) -> bool:
        """Whether this is an option, or the beginning of one, which argparse accepts too."""
        name = word.partition("=")[0]
        return any(option.startswith(name) for option in self._option_string_actions)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line."""
    chosen = _parse(list(sys.argv[1:] if arguments is None else arguments))
    command = chosen.command
    set_up(structured=COMMANDS[command][0] == ROLES and not sys.stderr.isatty())
    try:
        return _run(command, chosen.rest)
    except SettingsError as error:
        return _fail(2, f"{command}: {redact(str(error))}")
    except ProtectiveError as error:
        return _fail(3, f"{command}: stopped to protect the state: {redact(str(error))}")
    except _UnloadedError as error:
        return _fail(1, f"{command}: {error}")
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:  # the reader is gone: drop the rest
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _fail(1, f"{command}: {error.strerror or error}")
    except (MemoryError, RuntimeError) as error:
        if not _memory_is_short(error):
            raise
        return _fail(1, f"{command}: {NO_MEMORY}")


def _parse(given: list[str]) -> argparse.Namespace:
    summary = "\n".join(f"  {name:11} {text}" for name, (_, text) in COMMANDS.items())
    parser = Parser(
        "onepass",
        description="Learn a classifier from a message queue in one pass and serve it meanwhile.",
        epilog=f"commands:\n{summary}\n\nexample:\n  onepass demo --seconds 20",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=PrintVersion, nargs=0, help="print the version")
    parser.add_argument(
        "command", choices=COMMANDS, metavar="command", help="one of the commands below"
    )
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser.parse_args(given or ["--help"])


def _fail(status: int, message: str) -> int:
    print(f"onepass {message}", file=sys.stderr)
    return status


class _UnloadedError(Exception):
    """The module of the command could not be imported."""


def _load(name: str) -> Any:
    """Import the module of a command. A KeyboardInterrupt may come without Ctrl-C, because OpenBLAS
    raises SIGINT when it has no memory for its threads.
    """
    try:
        return importlib.import_module(name)
    except KeyboardInterrupt:
        raise _UnloadedError(f"interrupted while loading: by Ctrl-C, or {NO_MEMORY}") from None
    except (MemoryError, ImportError, OSError) as error:
        if not _memory_is_short(error):
            raise
        raise _UnloadedError(NO_MEMORY) from error


def _memory_is_short(error: BaseException | None) -> bool:
    """Whether an error, or one behind it, comes from a lack of memory."""
    while error is not None:
        if isinstance(error, MemoryError) or any(sign in str(error) for sign in SIGNS_OF_NO_MEMORY):
            return True
        error = error.__cause__ or error.__context__
    return False


def _run(command: str, rest: list[str]) -> int:
    use_kernel_cache()
    name, summary = COMMANDS[command]
    module = _load(name)
    parser = Parser(
        f"onepass {command}",
        description=summary[:1].upper() + summary[1:] + ".",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.configure(parser)
    status: int = module.execute(command, parser.parse_args(rest))
    sys.stdout.flush()
    return status


if __name__ == "__main__":
    sys.exit(main())
