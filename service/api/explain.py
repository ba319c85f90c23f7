"""Answer `/explain`, `/weights` and `/learners`, and `/predict` with `explain=true`."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response

from learners.catalog import describe
from learners.registry import KINDS
from service.api import predict as predictions
from service.api.context import Context
from service.api.predict import EXPLAINED, model_of, require, run_or_offload, to_reply
from service.api.responses import ApiError, json_reply, read_body
from service.features.decoder import instance_with_names
from service.model.explain import explain as explain_prediction
from service.model.explain import weights_of

T = TypeVar("T")

RANKING_THREAD = ThreadPoolExecutor(1, "ranking")
"""For work over all slots, one request at a time. Such requests wait for each other, and
predictions wait for none of them.
"""
MOST = 1000
"""Features or classes that a request may ask for."""


async def predict(context: Context, request: Request) -> Response:
    """Predict one instance: label, score and probability; with `explain=true` also why."""
    if not request.scope["query_string"]:  # nearly always; parsing an empty query takes 10 µs
        return await predictions.predict(context, request)
    wanted = request.query_params.get("explain", "false")
    if wanted not in {"true", "false"}:
        raise ApiError(422, "query", "explain must be true or false")
    return await (explain if wanted == "true" else predictions.predict)(context, request)


async def explain(context: Context, request: Request) -> Response:
    """Predict one instance, and list what each feature, or stored row, adds to its score."""

    def work(body: bytes) -> Response:
        named = require(instance_with_names(context.decoder, body))
        version, prediction, explanation = explain_prediction(context.model, named)
        model = model_of(context, version)
        return json_reply(to_reply(prediction, model, explanation=explanation))

    return await run_or_offload(context, request, await read_body(request), work, EXPLAINED)


async def weights(context: Context, request: Request) -> Response:
    """List the features, or stored rows, with the largest weights, class by class."""
    top, classes = (_query_number(request, name) for name in ("top", "classes"))
    version, entries, omitted = await _run_in_ranking_thread(
        lambda: weights_of(context.model, top, classes)
    )
    return json_reply(
        {"model": model_of(context, version), "classes": entries, "omitted_classes": omitted}
    )


async def learners(context: Context, request: Request) -> Response:
    """List every learner that can be configured, with its parameters and its paper."""
    del context, request
    return json_reply(await _run_in_ranking_thread(lambda: [describe(kind) for kind in KINDS]))


async def _run_in_ranking_thread(work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(RANKING_THREAD, work)


def _query_number(request: Request, name: str) -> int:
    text = request.query_params.get(name, "20")
    if not (
        text.isascii()
        and text.isdecimal()
        and len(text) <= len(str(MOST))
        and 1 <= int(text) <= MOST
    ):
        raise ApiError(422, "query", f"{name} must be a number from 1 to {MOST}")
    return int(text)
