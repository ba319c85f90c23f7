"""HTTP: translate, delegate, translate back. Requests go through the log's own decoder, so the two cannot skew.

Errors have one form, `{"error": {"code", "message"}}`, and never repeat the input.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from service.events import Decoder, Event, Reject
from service.health import Health
from service.metrics import Metrics
from service.model import Model, Prediction
from service.openapi import SCHEMAS, described
from service.settings import Settings
from service.status import status_of

T = TypeVar("T", Event, list[Event])


class Problem(Exception):
    """A request that cannot be answered as asked."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


def make_app(
    settings: Settings, decoder: Decoder, model: Model, metrics: Metrics, health: Health, *, predicts: bool
) -> FastAPI:
    """The routes of one role; `learn` has no predictions."""
    app = FastAPI(title="onepass", description=f"Model {settings.name}", docs_url=None, redoc_url=None)
    app.router.redirect_slashes = False

    def answer(predictions: list[Prediction | str]) -> list[dict[str, Any]]:
        generation = health.checkpoint.generation if health.checkpoint else 0
        answers: list[dict[str, Any]] = []
        for prediction in predictions:
            if isinstance(prediction, str):
                reject = Reject(prediction)
                raise Problem(422, reject.reason, reject.message)
            version = {"name": settings.name, "version": prediction.version, "generation": generation}
            answers.append({"label": prediction.label, "score": prediction.score, "model": version})
        return answers

    async def predict(request: Request) -> Response:
        event = _accepted(decoder.instance(await _body(request, settings.api.max_body)))
        return _json(answer(model.predict([event]))[0])

    async def predict_batch(request: Request) -> Response:
        data = await _body(request, settings.api.max_body)
        events = _accepted(decoder.instances(data, settings.api.max_batch))
        return _json({"predictions": answer(model.predict(events))})

    def timed(handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            started = time.perf_counter()
            try:
                if not health.ready:
                    raise Problem(503, "not_ready", health.trouble or "the model is not ready yet")
                response = await handler(request)
            except Problem as problem:
                response = _error(problem.status, problem.code, problem.message)
            metrics.predict_seconds.observe(time.perf_counter() - started)
            metrics.answered(response.status_code)
            return response

        return handle

    async def healthz() -> Response:
        """The process answers; nothing it depends on is asked."""
        return _json({"status": "alive"})

    async def readyz() -> Response:
        """A model is restored and predictions are served."""
        if health.ready:
            return _json({"status": "ready"})
        return _error(503, "not_ready", health.trouble or "starting")

    async def status() -> Response:
        return _json(status_of(settings, model, health))

    async def exposition() -> Response:
        return Response(metrics.exposition(model, health), media_type="text/plain; version=0.0.4; charset=utf-8")

    if predicts:
        app.add_api_route("/predict", timed(predict), methods=["POST"], **described("Instance", "Prediction"))
        app.add_api_route(
            "/predict/batch", timed(predict_batch), methods=["POST"], **described("Instances", "Predictions")
        )
    app.add_api_route("/healthz", healthz, response_model=None)
    app.add_api_route("/readyz", readyz, response_model=None, responses={503: {"description": "Not ready"}})
    app.add_api_route("/status", status, response_model=None)
    app.add_api_route("/metrics", exposition, response_model=None, response_class=PlainTextResponse)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _fault)
    _complete_openapi(app)
    return app


async def _body(request: Request, most: int) -> bytes:
    """The body, refused as soon as it is known to be too long."""
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and int(length) > most:
        raise Problem(413, "too_large", f"a body may have {most} bytes")
    data = bytearray()
    try:
        async for chunk in request.stream():
            data += chunk
            if len(data) > most:
                raise Problem(413, "too_large", f"a body may have {most} bytes")
    except ClientDisconnect as error:
        raise Problem(400, "disconnected", "the body is not whole") from error
    return bytes(data)


def _accepted(decoded: T | Reject) -> T:
    if isinstance(decoded, Reject):
        raise Problem(422, decoded.reason, decoded.message)
    return decoded


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def _error(status: int, code: str, message: str) -> Response:
    return _json({"error": {"code": code, "message": message}}, status)


async def _http_error(request: Request, error: Exception) -> Response:
    del request
    status = error.status_code if isinstance(error, HTTPException) else 500
    words = {404: ("not_found", "no such path"), 405: ("method_not_allowed", "the path knows another method")}
    return _error(status, *words.get(status, ("http", "the request cannot be answered")))


async def _fault(request: Request, error: Exception) -> Response:
    del request, error  # the server's log has the trace
    return _error(500, "internal", "a fault of the service; its log says more")


def _complete_openapi(app: FastAPI) -> None:
    document = app.openapi()
    document.setdefault("components", {}).setdefault("schemas", {}).update(SCHEMAS)
    app.openapi_schema = document
