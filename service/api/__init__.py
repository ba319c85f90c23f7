"""HTTP: translate, delegate, translate back. A request goes through the guard, the table of routes and one handler."""

import time
from collections.abc import Awaitable, Callable

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from service.api.context import Context
from service.api.guard import Guard
from service.api.openapi import document
from service.api.problems import Problem
from service.api.routes import ROUTES, Route

__all__ = ["Context", "make_app"]


def make_app(context: Context, *, predicts: bool) -> Guard:
    """The routes of one role; `learn` has no predictions."""
    app = FastAPI(title="onepass", openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    routes = [route for route in ROUTES if predicts or not (route.predicts or route.serves)]
    for route in routes:
        app.add_route(route.path, _handled(context, route), [route.method], include_in_schema=False)
    app.state.document = document(context, routes)
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
            reply = problem.reply(route.path)
        except ClientDisconnect:
            reply = Problem(400, "disconnected", "the body is not whole").reply(route.path)
        if route.predicts:
            metrics.predict_seconds.observe(time.perf_counter() - started)
            metrics.answered(reply.status_code)
        return reply

    return handle


async def _http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    headers = (error.headers if isinstance(error, HTTPException) else None) or {}
    words = {404: ("not_found", "no such path"), 405: ("method_not_allowed", "the path knows another method")}
    code, message = words.get(status, ("http", "the request cannot be answered"))
    return Problem(status, code, message, **headers).reply(request.url.path)


async def _fault(request: Request, error: Exception) -> Response:
    del error  # the server's log has the trace
    return Problem(500, "internal", "a fault of the service; its log says more").reply(request.url.path)
