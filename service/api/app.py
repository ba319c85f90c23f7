"""Build the HTTP application: the middleware around the routes, and one handler per route.

Requests for predictions with a fixed path go straight to their handler, without FastAPI's layers.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.admin import ADMIN
from service.api.context import Context
from service.api.middleware import AuthAndLimits
from service.api.openapi.document import document
from service.api.origin_check import Hosts, check_writer
from service.api.responses import ApiError
from service.api.routes import ROUTES, Route
from service.server.api_keys import ApiKey, KeyFile

log = logging.getLogger("onepass")

Handle = Callable[[Request], Awaitable[Response]]

FAULT = ApiError(500, "internal", "internal error; the log of the service has the details")

SILENT: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False}
"""FastAPI's own telemetry would look for a collector's address at every request."""


def make_app(context: Context, *, predicts: bool, keys: KeyFile | None = None) -> AuthAndLimits:
    """Build the application of one role. The role `learn` serves no predictions."""
    routes = [route for route in ROUTES if predicts or not (route.predicts or route.serves)]
    app, handlers = _mount(context, routes)
    app.state.document = document(context, routes)
    hot = [
        (route.method, route.path) for route in routes if route.predicts and "{" not in route.path
    ]
    router = HotPathRouter(app, {key: handlers[key] for key in hot})
    api = context.settings.api
    return AuthAndLimits(
        router, api.max_body_bytes, keys, context.metrics.refused, hosts=Hosts(api.host, *api.hosts)
    )


def make_admin(context: Context, keys: KeyFile) -> AuthAndLimits:
    """Build the admin application, which has its own port. There only `/healthz` needs no key."""
    app, _ = _mount(context, ADMIN)
    app.state.document = document(context, ADMIN)
    open_paths = frozenset(route.path for route in ADMIN if route.scope is None)
    return AuthAndLimits(
        app, context.settings.api.max_body_bytes, keys, context.metrics.refused, open_paths
    )


class HotPathRouter:
    """Calls some handlers without the layers of `app`, which have nothing to do for them: these
    handlers reply to their own errors.
    """

    def __init__(self, app: ASGIApp, handlers: Mapping[tuple[str, str], Handle]) -> None:
        self._app = app
        self._handlers = handlers
        """By method and path."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        handle = self._handlers.get((scope["method"], scope["path"]))
        if handle is None:
            await self._app(scope, receive, send)
            return
        reply = await handle(Request(scope, receive))
        await reply(scope, receive, send)


def _mount(
    context: Context, routes: Sequence[Route]
) -> tuple[FastAPI, dict[tuple[str, str], Handle]]:
    """Build a FastAPI application of these routes. Return its handlers too, by method and path."""
    app = FastAPI(
        openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False, telemetry=SILENT
    )
    handlers: dict[tuple[str, str], Handle] = {
        (route.method, route.path): _make_handler(context, route) for route in routes
    }
    for (method, path), handler in handlers.items():
        app.add_route(path, handler, [method], include_in_schema=False)
    app.add_exception_handler(HTTPException, _reply_to_http_error)
    app.add_exception_handler(Exception, _reply_to_fault)
    return app, handlers


def _make_handler(context: Context, route: Route) -> Handle:
    """Wrap a route's handler: first check scope, origin, readiness and query; reply to errors."""
    health, metrics = context.health, context.metrics

    async def handle(request: Request) -> Response:
        started = time.perf_counter()
        key = request.scope.get("key")
        try:
            _check_scope(route, key)
            if route.writes:
                check_writer(request.scope, body=route.takes is not None)
            if route.predicts and not health.ready:
                raise ApiError(503, "not_ready", health.trouble or "the model is not ready yet")
            if route.query is not None and request.scope["query_string"]:
                _check_query(route.query, request)
            reply = await route.handler(context, request)
        except ApiError as error:
            metrics.refused(error.code)
            reply = error.reply(route.path)
        except ClientDisconnect:
            reply = ApiError(400, "client_disconnected", "the body is cut off").reply(route.path)
        except Exception:
            fields = {
                "request_id": request.scope.get("request_id"),
                "key": key and key.name,
                "route": route.path,
                "status": 500,
                "ms": round(1000 * (time.perf_counter() - started), 3),
            }
            log.exception("a request failed", extra=fields)
            metrics.refused("internal")
            reply = FAULT.reply(route.path)
        if route.predicts:
            metrics.predict_seconds.observe(time.perf_counter() - started)
            metrics.answered(reply.status_code)
        return reply

    return handle


def _check_scope(route: Route, key: ApiKey | None) -> None:
    if route.scope is not None and (key is None or route.scope not in key.scopes):
        message = f"this path needs a key with the scope {route.scope}"
        raise ApiError(403, "forbidden", message)


def _check_query(known: tuple[str, ...], request: Request) -> None:
    if request.query_params.keys() <= set(known):
        return
    if not known:
        raise ApiError(422, "query", "this path has no parameters; for an explanation use /explain")
    raise ApiError(422, "query", f"unknown parameter; known: {', '.join(known)}")


async def _reply_to_http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    headers = (error.headers if isinstance(error, HTTPException) else None) or {}
    known = {
        404: ("not_found", "no such path"),
        405: ("method_not_allowed", "the path does not allow this method"),
    }
    code, message = known.get(status, ("http", "the request cannot be answered"))
    return ApiError(status, code, message, **headers).reply(request.url.path)


async def _reply_to_fault(request: Request, error: Exception) -> Response:
    del error  # the server's log has the trace
    return FAULT.reply(request.url.path)
