"""`onepass keys`: make, list and remove the keys of the HTTP side. A key is shown once; the file has its SHA-256."""

import argparse
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import ValidationError

from service.errors import BadSettings
from service.keys import MOST_KEYS, Key, Scope, digest_of, new_key, read_keys

ACTIONS = {
    "new": ("make a key, print it once and keep its hash", "--file keys.yaml --name app --scope predict --rate 1000"),
    "list": ("names, scopes and limits of the keys", "--file keys.yaml"),
    "remove": ("take a key away; a running service forgets it within a second", "--file keys.yaml --name app"),
}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "example:\n  onepass keys new --file keys.yaml --name app --scope predict --scope metrics"
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", help="one of:")
    made = {}
    for name, (words, example) in ACTIONS.items():
        made[name] = actions.add_parser(
            name,
            help=words,
            description=words[:1].upper() + words[1:] + ".",
            epilog=f"example:\n  onepass keys {name} {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        made[name].add_argument("--file", type=Path, required=True, metavar="F", help="api.keys_file of a model")
    for name in ("new", "remove"):
        made[name].add_argument("--name", required=True, metavar="N", help="of the key, for logs and this command")
    new = made["new"]
    scopes = get_args(Scope)
    new.add_argument("--scope", action="append", required=True, choices=scopes, help="what it is for; may be repeated")
    new.add_argument("--rate", type=float, metavar="R", help="requests per second (default: no limit)")
    new.add_argument("--burst", type=int, metavar="B", help="requests at once (default: those of a second)")
    new.add_argument("--expires", type=day, metavar="DAY", help="first day it is good no more, as 2027-01-01 (UTC)")


def execute(command: str, arguments: argparse.Namespace) -> int:
    del command
    path: Path = arguments.file
    if arguments.action == "list":
        for key in read_keys(path):
            print(_line(key))
        return 0
    with _alone(path):
        keys = read_keys(path) if arguments.action == "remove" or path.exists() else ()
        others = [key for key in keys if key.name != arguments.name]
        if arguments.action == "remove":
            if len(others) == len(keys):
                raise BadSettings(f"{path} has no key named {arguments.name}")
            _write(path, others)
            return 0
        if len(others) != len(keys):
            raise BadSettings(f"{path} has a key named {arguments.name} already; give another --name, or remove it")
        if len(keys) == MOST_KEYS:
            raise BadSettings(f"{path} has {MOST_KEYS} keys already; remove one")
        secret = new_key()
        _write(path, [*keys, _made(arguments, secret)])
    print(secret)
    return 0


def _made(arguments: argparse.Namespace, secret: str) -> Key:
    if arguments.expires is not None and arguments.expires <= datetime.now(UTC).date():
        raise BadSettings("--expires: that day has begun, so the key would never be good; give a later one")
    given = {name: getattr(arguments, name) for name in ("name", "rate", "burst", "expires")}
    try:
        return Key(sha256=digest_of(secret), scopes=tuple(dict.fromkeys(arguments.scope)), **given)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        raise BadSettings(f"--{'.'.join(map(str, fault['loc'])) or 'burst'}: {fault['msg']}") from error


def _line(key: Key) -> str:
    limit = f"{key.rate:g}/s, at once {key.burst or max(1, -int(-key.rate // 1))}" if key.rate else "no limit"
    end = "" if key.expires is None else f"  {'EXPIRED' if key.ends <= time.time() else 'until'} {key.expires}"
    return f"{key.name}  {','.join(key.scopes)}  {limit}{end}"


def day(text: str) -> date:
    return date.fromisoformat(text)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Two of these commands at once must not lose each other's key."""
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise BadSettings(f"{path.parent}: {error.strerror}; give --file a place in an existing folder") from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _write(path: Path, keys: Sequence[Key]) -> None:
    """Whole or not at all, for its owner alone."""
    values: list[dict[str, Any]] = []
    for key in keys:
        said = key.model_dump(exclude_none=True)
        values.append(said | {"scopes": list(key.scopes)})
    handle, unfinished = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # made with mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            yaml.safe_dump(values, file, sort_keys=False)
            file.flush()
            os.fsync(file.fileno())
        Path(unfinished).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(unfinished).unlink()
        raise
