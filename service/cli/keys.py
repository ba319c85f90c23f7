"""`onepass keys`: create, list and remove API keys; the file holds only their SHA-256."""

import argparse
import fcntl
import os
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import ValidationError

from service.errors import SettingsError
from service.server.api_keys import MOST_KEYS, Key, Scope, digest_of, new_key, read_keys

ACTIONS = {
    "new": (
        "create a key, print it once and store its hash",
        "--file keys.yaml --name app --scope predict --rate 1000",
    ),
    "list": ("list the names, scopes and limits of the keys", "--file keys.yaml"),
    "remove": (
        "remove a key; a running service refuses it within a second",
        "--file keys.yaml --name app",
    ),
}
ACCESS_LIST = "system.posix_acl_access"
"""Name of the extended attribute that holds a file's POSIX access list."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "example:\n  onepass keys new --file keys.yaml --name app --scope predict --scope metrics"
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", help="one of:")
    parsers = {}
    for name, (summary, example) in ACTIONS.items():
        parsers[name] = actions.add_parser(
            name,
            help=summary,
            description=summary[:1].upper() + summary[1:] + ".",
            epilog=f"example:\n  onepass keys {name} {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parsers[name].add_argument(
            "--file", type=Path, required=True, metavar="F", help="api.keys_file of a model"
        )
    for name in ("new", "remove"):
        parsers[name].add_argument(
            "--name", required=True, metavar="N", help="name of the key, for logs and this command"
        )
    add = parsers["new"].add_argument
    scopes = get_args(Scope)
    add("--scope", action="append", required=True, choices=scopes, help="permission; repeatable")
    add("--rate", type=float, metavar="R", help="requests per second (default: no limit)")
    add("--burst", type=int, metavar="B", help="requests in a burst (default: those of one second)")
    expires = "first day on which it is no longer valid, such as 2027-01-01 (UTC)"
    add("--expires", type=_parse_day, metavar="DAY", help=expires)


def execute(command: str, arguments: argparse.Namespace) -> int:
    del command
    path = _resolve(arguments.file)
    if arguments.action == "list":
        for key in read_keys(path):
            print(_format_key(key))
        return 0
    with _lock_folder(path):
        keys = read_keys(path) if arguments.action == "remove" or path.exists() else ()
        others = [key for key in keys if key.name != arguments.name]
        if arguments.action == "remove":
            if len(others) == len(keys):
                raise SettingsError(f"{path} has no key named {arguments.name}")
            _write(path, others)
            return 0
        if len(others) != len(keys):
            raise SettingsError(
                f"{path} already has a key named {arguments.name}; give another --name or remove it"
            )
        if len(keys) == MOST_KEYS:
            raise SettingsError(f"{path} already has {MOST_KEYS} keys; remove one")
        secret = new_key()
        _write(path, [*keys, _make_key(arguments, secret)])
    print(secret)
    return 0


def _make_key(arguments: argparse.Namespace, secret: str) -> Key:
    if arguments.expires is not None and arguments.expires <= datetime.now(UTC).date():
        raise SettingsError(
            "--expires: that day has begun, so the key would never be valid; give a later day"
        )
    given = {name: getattr(arguments, name) for name in ("name", "rate", "burst", "expires")}
    try:
        return Key(sha256=digest_of(secret), scopes=tuple(dict.fromkeys(arguments.scope)), **given)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        raise SettingsError(
            f"--{'.'.join(map(str, fault['loc'])) or 'burst'}: {fault['msg']}"
        ) from error


def _format_key(key: Key) -> str:
    limit = end = ""
    if key.rate:
        limit = f"{key.rate:g}/s, at once {key.burst or max(1, -int(-key.rate // 1))}"
    if key.expires is not None:
        end = f"  {'EXPIRED' if key.ends <= time.time() else 'until'} {key.expires}"
    return f"{key.name}  {','.join(key.scopes)}  {limit or 'no limit'}{end}"


def _parse_day(text: str) -> date:
    return date.fromisoformat(text)


@contextmanager
def _lock_folder(path: Path) -> Iterator[None]:
    """Keep two of these commands from overwriting each other's key."""
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise SettingsError(
            f"{path.parent}: {error.strerror}; give --file a path in an existing folder"
        ) from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _resolve(path: Path) -> Path:
    """Return the file that a link leads to. If the link itself were replaced, the file that a
    service reads would stay unchanged.
    """
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
        raise SettingsError(
            f"{path}: the link does not lead to a file; give --file the file itself"
        ) from error


def _write(path: Path, keys: Sequence[Key]) -> None:
    """Write the file atomically. Only its owner can read a new file. An old one keeps owner, group
    and mode.
    """
    values: list[dict[str, Any]] = [
        key.model_dump(exclude_none=True) | {"scopes": list(key.scopes)} for key in keys
    ]
    # mkstemp creates the file with mode 0600.
    handle, unfinished = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            if path.exists():
                _keep_rights(path, file.fileno())
            yaml.safe_dump(values, file, sort_keys=False)
            file.flush()
            os.fsync(file.fileno())
        Path(unfinished).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(unfinished).unlink()
        raise


def _keep_rights(path: Path, handle: int) -> None:
    """Give the new file the rights of the old one, so that the service can still read it."""
    status = path.stat()
    if status.st_nlink > 1:
        raise SettingsError(
            f"{path} has a second hard link, which would keep the old keys; remove the link first"
        )
    try:
        os.fchown(handle, status.st_uid, status.st_gid)
        os.fchmod(handle, stat.S_IMODE(status.st_mode))
        if rights := _access_list(path):
            os.setxattr(handle, ACCESS_LIST, rights)
    except OSError as error:
        raise SettingsError(
            f"{path} was not changed: its owner (user {status.st_uid}, group {status.st_gid}) and"
            f" rights cannot be kept ({error.strerror}); run this command as that user or as root"
        ) from error


def _access_list(path: Path) -> bytes:
    """Read the POSIX access list of a file; empty if the file or the system has none."""
    if sys.platform != "linux":
        return b""
    try:
        return os.getxattr(path, ACCESS_LIST)
    except OSError:
        return b""
