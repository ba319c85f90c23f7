"""The command `onepass`: choose the subcommand, import only what it needs, turn its outcome into an exit status.

0 done, 1 failed, 2 wrong usage, configuration or input file, 3 stopped to protect the state.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, NoReturn

from service.errors import BadSettings, Protective
from service.kernel_cache import use_kernel_cache
from service.logs import redacted, set_up

ROLES = "service.cli.roles"
COMMANDS = {
    "demo": ("service.cli.demo", "the whole loop on embedded parts, with a stream that drifts"),
    "run": (ROLES, "learn from the log and serve predictions, in one process"),
    "learn": (ROLES, "only learn; predictions are served by others"),
    "serve": (ROLES, "only serve, following the checkpoints of a learner"),
    "replay": ("service.cli.replay", "one honest pass over a file, or a checkpoint built again from its own log"),
    "produce": ("service.cli.produce", "feed a file's events to a topic or stream"),
    "checkpoints": ("service.cli.checkpoints", "versions of a model: list, compare, go back, carry, freeze"),
    "keys": ("service.cli.keys", "keys of the HTTP side: make, list, remove"),
    "bench": ("service.cli.bench", "measured claims: what an event, a checkpoint and serving an answer cost"),
    "papers": ("service.cli.papers", "the papers' experiments run again, ours beside the printed figures"),
    "learners": ("service.cli.learners", "every learner, with its parameters and its paper"),
    "detectors": ("service.cli.detectors", "every drift detector, with its parameters and its paper"),
}


class Parser(argparse.ArgumentParser):
    """argparse, saying in one line what is wrong; an option that is not known goes before one that is missing."""

    _given: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._given = list(sys.argv[1:] if args is None else args)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        unknown = [word for word in self._given if word.startswith("--") and not self._is_option(word)]
        if unknown and "required" in message:
            message = f"unrecognized arguments: {unknown[0]}"
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")

    def _is_option(self, word: str) -> bool:
        """Or the beginning of one, which argparse takes too; `--` alone is none, but no mistake either."""
        name = word.partition("=")[0]
        return any(option.startswith(name) for option in self._option_string_actions)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line."""
    summary = "\n".join(f"  {name:11} {text}" for name, (_, text) in COMMANDS.items())
    parser = Parser(
        "onepass",
        description="Learn a classifier from a message queue in one pass, and serve it while it learns.",
        epilog=f"commands:\n{summary}\n\nexample:\n  onepass demo --seconds 20",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"onepass {version('onepass')}")
    parser.add_argument("command", choices=COMMANDS, metavar="command", help="one of the commands below")
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    given = list(sys.argv[1:] if arguments is None else arguments)
    chosen = parser.parse_args(given or ["--help"])
    set_up(structured=COMMANDS[chosen.command][0] == ROLES and not sys.stderr.isatty())
    try:
        return _executed(chosen.command, chosen.rest)
    except BadSettings as error:
        print(f"onepass {chosen.command}: {redacted(str(error))}", file=sys.stderr)
        return 2
    except Protective as error:
        print(f"onepass {chosen.command}: stopped to protect the state: {redacted(str(error))}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has gone; nothing is left to say
        return 0
    except OSError as error:
        print(f"onepass {chosen.command}: {error.strerror or error}", file=sys.stderr)
        return 1


def _executed(command: str, rest: list[str]) -> int:
    use_kernel_cache()
    name, words = COMMANDS[command]
    module = importlib.import_module(name)
    parser = Parser(
        f"onepass {command}",
        description=words[:1].upper() + words[1:] + ".",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.configure(parser)
    status: int = module.execute(command, parser.parse_args(rest))
    sys.stdout.flush()
    return status


if __name__ == "__main__":
    sys.exit(main())
