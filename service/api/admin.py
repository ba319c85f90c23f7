"""Freeze, unfreeze and roll back a model over HTTP, on a separate port, and list its generations.

Every call that changes something is logged with the name of its key.
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
from service.api.responses import ApiError, json_reply, read_body
from service.api.routes import Route
from service.checkpoint.store import CorruptCheckpointError, FencedError, StoreUnavailableError
from service.errors import SettingsError
from service.operations.inspect import describe_freeze, summarize_manifest
from service.operations.rollback import UnsafeRollbackError, go_back
from service.storage import RedisStore

log = logging.getLogger("onepass")

T = TypeVar("T")

SHOWN = ("generation", "created", "age_seconds", "events", "errors", "origin", "broken")
"""Fields of a generation that `/admin/checkpoints` lists."""
ROLLBACK_FORM = (
    'send {"generation": number, "rewind": true or false}; true: the events after that generation'
    " are learned again from the log; false: learning resumes at the present positions, and the"
    " events in between stay unlearned"
)


class Rollback(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `/admin/rollback`."""

    generation: int
    rewind: bool
    """True: rewind the positions too, so that later events are learned again. False: learning
    continues at the present positions.
    """


async def freeze(context: Context, request: Request) -> Response:
    """Stop learning at the newest generation; predictions go on."""
    return json_reply(
        await _run_logged(
            context, request, "freeze", lambda store: {"frozen": describe_freeze(store.freeze())}
        )
    )


async def unfreeze(context: Context, request: Request) -> Response:
    """Resume learning."""
    return json_reply(
        await _run_logged(
            context,
            request,
            "unfreeze",
            lambda store: {"was_frozen": describe_freeze(store.unfreeze())},
        )
    )


async def rollback(context: Context, request: Request) -> Response:
    """Make an earlier generation the newest again."""
    try:
        asked = msgspec.json.decode(await read_body(request), type=Rollback)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ApiError(422, "malformed", ROLLBACK_FORM) from error

    def work(store: RedisStore) -> dict[str, Any]:
        result = go_back(store, context.settings, asked.generation, keep_offsets=not asked.rewind)
        return {
            "generation": result.made.generation,
            "state_of": result.earlier.generation,
            "was": result.newest.generation,
        }

    return json_reply(
        await _run_logged(context, request, f"rollback to generation {asked.generation}", work)
    )


async def checkpoints(context: Context, request: Request) -> Response:
    """List the kept generations, newest first."""
    del request

    def work(store: RedisStore) -> list[dict[str, Any]]:
        summaries = [summarize_manifest(one, time.time()) for one in store.generations()]
        return [{name: one[name] for name in SHOWN if name in one} for one in summaries]

    return json_reply({"checkpoints": await _with_store(context, work)})


async def _run_logged(
    context: Context, request: Request, change: str, work: Callable[[RedisStore], T]
) -> T:
    """Make a change, and log which key asked for it and whether it was made."""
    fields = {"key": request.scope["key"].name, "request_id": request.scope["request_id"]}
    try:
        result = await _with_store(context, work)
    except ApiError as error:
        log.warning(
            "admin: %s by key %s not done: %s", change, fields["key"], error.message, extra=fields
        )
        raise
    log.warning("admin: %s by key %s done", change, fields["key"], extra=fields)
    return result


async def _with_store(context: Context, work: Callable[[RedisStore], T]) -> T:
    """Run `work` in a thread, because the store blocks, and with its own connection."""

    def run() -> T:
        settings = context.settings
        with closing(RedisStore(settings.store, settings.name, settings.checkpoint)) as store:
            return work(store)

    try:
        return await asyncio.to_thread(run)
    except StoreUnavailableError as error:
        raise ApiError(503, "store_down", str(error)) from error
    except UnsafeRollbackError as error:
        advice = "false to resume at the present positions" if error.rewind else "true"
        raise ApiError(409, "refused", f'{error}; give "rewind": {advice}') from error
    except (SettingsError, FencedError, CorruptCheckpointError) as error:
        raise ApiError(409, "refused", str(error)) from error


ADMIN = (
    Route("POST", "/admin/freeze", "admin", freeze, None, "Froze", writes=True),
    Route("POST", "/admin/unfreeze", "admin", unfreeze, None, "Unfroze", writes=True),
    Route("POST", "/admin/rollback", "admin", rollback, "Rollback", "RolledBack", writes=True),
    Route("GET", "/admin/checkpoints", "admin", checkpoints, None, "Checkpoints"),
    Route("GET", "/openapi.json", "admin", views.openapi, None, "OpenApi"),
    Route("GET", "/healthz", None, views.healthz, None, "Alive"),
)
