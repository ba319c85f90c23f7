"""HTTP: translate, delegate, translate back. A request goes through the guard, the table of routes and one handler."""

import time
from collections.abc import Awaitable, Callable

from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from service.api.context import Context
from service.api.direct import Direct
from service.api.guard import Guard
from service.api.openapi import document
from service.api.problems import Problem, json_reply
from service.api.routes import ROUTES, Route

__all__ = ["Context", "make_app"]

SILENT: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False}
"""FastAPI's own would look for a collector's address at every request."""


def make_app(context: Context, *, predicts: bool) -> Guard:
    """The routes of one role; `learn` has no predictions."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False, telemetry=SILENT)
    routes = [route for route in ROUTES if predicts or not route.predicts]
    handlers = {(route.method, route.path): _handled(context, route) for route in routes}
    for (method, path), handler in handlers.items():
        app.add_route(path, handler, [method], include_in_schema=False)
    hot = {(route.method, route.path) for route in routes if route.predicts and "{" not in route.path}
    app.add_middleware(Direct, handlers={asked: handlers[asked] for asked in hot})
    described = document(context.settings.name, routes)

    async def openapi(_: Request) -> Response:
        return json_reply(described)

    app.add_route("/openapi.json", openapi, ["GET"], include_in_schema=False)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _fault)
    return Guard(app, context.settings.api.max_body)


def _handled(context: Context, route: Route) -> Callable[[Request], Awaitable[Response]]:
    health, metrics = context.health, context.metrics

    async def handle(request: Request) -> Response:
        started = time.perf_counter()
        try:
            if route.predicts and not health.ready:
                raise Problem(503, "not_ready", health.trouble or "the model is not ready yet")
            reply = await route.handler(context, request)
        except Problem as problem:
            reply = problem.reply()
        except ClientDisconnect:
            reply = Problem(400, "disconnected", "the body is not whole").reply()
        if route.predicts:
            metrics.predict_seconds.observe(time.perf_counter() - started)
            metrics.answered(reply.status_code)
        return reply

    return handle


async def _http_error(request: Request, error: Exception) -> Response:
    del request
    status = error.status_code if isinstance(error, HTTPException) else 500
    words = {404: ("not_found", "no such path"), 405: ("method_not_allowed", "the path knows another method")}
    return Problem(status, *words.get(status, ("http", "the request cannot be answered"))).reply()


async def _fault(request: Request, error: Exception) -> Response:
    del request, error  # the server's log has the trace
    return Problem(500, "internal", "a fault of the service; its log says more").reply()
