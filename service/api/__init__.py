"""HTTP: translate, delegate, translate back. A request goes through the guard, the table of routes and one handler."""

import logging
import time
from collections.abc import Sequence

from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from service.api.admin import ADMIN
from service.api.context import Context
from service.api.direct import Direct, Handle
from service.api.guard import Guard
from service.api.openapi import document
from service.api.problems import Problem
from service.api.routes import ROUTES, Route
from service.keys import Keyring

__all__ = ["Context", "Guard", "make_admin", "make_app"]

log = logging.getLogger("onepass")

FAULT = Problem(500, "internal", "a fault of the service; its log says more")

SILENT: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False}
"""FastAPI's own would look for a collector's address at every request."""


def make_app(context: Context, *, predicts: bool, keys: Keyring | None = None) -> Guard:
    """The routes of one role; `learn` has no predictions."""
    routes = [route for route in ROUTES if predicts or not (route.predicts or route.serves)]
    app, handlers = _mounted(context, routes)
    app.state.document = document(context, routes)
    hot = [(route.method, route.path) for route in routes if route.predicts and "{" not in route.path]
    direct = Direct(app, {asked: handlers[asked] for asked in hot})
    return Guard(direct, context.settings.api.max_body, keys, context.metrics.refused)


def make_admin(context: Context, keys: Keyring) -> Guard:
    """What changes a model, for a port of its own, where only `/healthz` is open."""
    app, _ = _mounted(context, ADMIN)
    app.state.document = document(context, ADMIN)
    open_paths = frozenset(route.path for route in ADMIN if route.scope is None)
    return Guard(app, context.settings.api.max_body, keys, context.metrics.refused, open_paths)


def _mounted(context: Context, routes: Sequence[Route]) -> tuple[FastAPI, dict[tuple[str, str], Handle]]:
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False, telemetry=SILENT)
    handlers: dict[tuple[str, str], Handle] = {(route.method, route.path): _handled(context, route) for route in routes}
    for (method, path), handler in handlers.items():
        app.add_route(path, handler, [method], include_in_schema=False)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _fault)
    return app, handlers


def _handled(context: Context, route: Route) -> Handle:
    health, metrics = context.health, context.metrics

    async def handle(request: Request) -> Response:
        started = time.perf_counter()
        key = request.scope.get("key")
        try:
            if route.scope is not None and (key is None or route.scope not in key.scopes):
                raise Problem(403, "forbidden", f"the key is not good for this: it needs the scope {route.scope}")
            if route.predicts and not health.ready:
                raise Problem(503, "not_ready", health.trouble or "the model is not ready yet")
            if route.query is not None and request.scope["query_string"]:
                _check_query(route.query, request)
            reply = await route.handler(context, request)
        except Problem as problem:
            metrics.refused(problem.code)
            reply = problem.reply(route.path)
        except ClientDisconnect:
            reply = Problem(400, "disconnected", "the body is not whole").reply(route.path)
        except Exception:
            spent = round(1000 * (time.perf_counter() - started), 3)
            told = {"request_id": request.scope.get("request_id"), "key": key and key.name, "route": route.path}
            log.exception("a request failed", extra=told | {"status": 500, "ms": spent})
            metrics.refused("internal")
            reply = FAULT.reply(route.path)
        if route.predicts:
            metrics.predict_seconds.observe(time.perf_counter() - started)
            metrics.answered(reply.status_code)
        return reply

    return handle


def _check_query(known: tuple[str, ...], request: Request) -> None:
    if request.query_params.keys() <= set(known):
        return
    if not known:
        raise Problem(422, "query", "no parameter is known here; for an explanation ask /explain")
    raise Problem(422, "query", f"no such parameter; known: {', '.join(known)}")


async def _http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    headers = (error.headers if isinstance(error, HTTPException) else None) or {}
    words = {404: ("not_found", "no such path"), 405: ("method_not_allowed", "the path knows another method")}
    code, message = words.get(status, ("http", "the request cannot be answered"))
    return Problem(status, code, message, **headers).reply(request.url.path)


async def _fault(request: Request, error: Exception) -> Response:
    del error  # the server's log has the trace
    return FAULT.reply(request.url.path)
