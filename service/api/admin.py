"""What changes a model over HTTP: freeze, unfreeze, roll back; and the list of its generations. On a port of its own.

Every call that changes something leaves the name of its key in the log.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from service.api import views
from service.api.context import Context
from service.api.problems import Problem, body_of, json_reply
from service.api.routes import Route
from service.checkpoints import Corrupt, Fenced, Freeze, Manifest, StoreDown
from service.errors import BadSettings
from service.kept import Unsafe, go_back
from service.store import RedisStore

log = logging.getLogger("onepass")

T = TypeVar("T")


class Rollback(msgspec.Struct, forbid_unknown_fields=True):
    generation: int
    learn_again: bool
    """Its positions too, so that what came after is learned again; else learning goes on where the log is."""


ROLLBACK = (
    'send {"generation": number, "learn_again": true or false}; true: what came after that generation is learned '
    "again from the log; false: learning goes on where the log is, and what came between stays unlearned"
)


async def freeze(context: Context, request: Request) -> Response:
    """Hold learning at the newest generation; predictions go on."""
    return json_reply(await _done(context, request, "freeze", lambda store: {"frozen": _told(store.freeze())}))


async def unfreeze(context: Context, request: Request) -> Response:
    """Let it learn on."""
    return json_reply(await _done(context, request, "unfreeze", lambda store: {"was_frozen": _told(store.unfreeze())}))


async def rollback(context: Context, request: Request) -> Response:
    """Make an earlier generation the newest again."""
    try:
        asked = msgspec.json.decode(await body_of(request), type=Rollback)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Problem(422, "malformed", ROLLBACK) from error

    def work(store: RedisStore) -> dict[str, Any]:
        done = go_back(store, context.settings, asked.generation, keep_position=not asked.learn_again)
        return {"generation": done.made.generation, "state_of": done.earlier.generation, "was": done.newest.generation}

    return json_reply(await _done(context, request, f"rollback to generation {asked.generation}", work))


async def checkpoints(context: Context, request: Request) -> Response:
    """The generations that are kept, newest first."""
    del request
    return json_reply(
        {"checkpoints": await _with_store(context, lambda store: list(map(_listed, store.generations())))}
    )


async def _done(context: Context, request: Request, words: str, work: Callable[[RedisStore], T]) -> T:
    """Do it, and say in the log who asked for it and how it went."""
    told = {"key": request.scope["key"].name, "request_id": request.scope["request_id"]}
    try:
        result = await _with_store(context, work)
    except Problem as problem:
        log.warning("admin: %s by key %s not done: %s", words, told["key"], problem.message, extra=told)
        raise
    log.warning("admin: %s by key %s done", words, told["key"], extra=told)
    return result


async def _with_store(context: Context, work: Callable[[RedisStore], T]) -> T:
    """Away from the loop, since the store blocks, and with a connection of its own."""

    def run() -> T:
        with closing(RedisStore(context.settings.store, context.settings.name)) as store:
            return work(store)

    try:
        return await asyncio.to_thread(run)
    except StoreDown as error:
        raise Problem(503, "store_down", str(error)) from error
    except Unsafe as error:
        otherwise = "false to go on where the log is" if error.learn_again else "true to learn that again"
        raise Problem(409, "refused", f'{error}; give "learn_again": {otherwise}') from error
    except (BadSettings, Fenced, Corrupt) as error:
        raise Problem(409, "refused", str(error)) from error


def _told(freeze: Freeze | None) -> dict[str, Any] | None:
    return None if freeze is None else {"since": freeze.since, "generation": freeze.generation}


def _listed(manifest: Manifest | str) -> dict[str, Any]:
    if isinstance(manifest, str):
        return {"broken": manifest}
    return {
        "generation": manifest.generation,
        "created": manifest.created,
        "age_seconds": round(max(0.0, time.time() - manifest.created), 3),
        "events": manifest.events,
        "errors": manifest.errors,
        "origin": manifest.origin,
    }


ADMIN = (
    Route("POST", "/admin/freeze", "admin", freeze, None, "Froze"),
    Route("POST", "/admin/unfreeze", "admin", unfreeze, None, "Unfroze"),
    Route("POST", "/admin/rollback", "admin", rollback, "Rollback", "RolledBack"),
    Route("GET", "/admin/checkpoints", "admin", checkpoints, None, "Checkpoints"),
    Route("GET", "/openapi.json", "admin", views.openapi, None, "OpenApi"),
    Route("GET", "/healthz", None, views.healthz, None, "Alive"),
)
