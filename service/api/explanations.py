"""Why an answer is what it is, what the model weighs, and what could be configured instead."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response

from learners.description import describe
from learners.registry import KINDS
from service.api import predictions
from service.api.aside import worked
from service.api.context import Context
from service.api.predictions import accepted, model_of, told
from service.api.problems import Problem, body_of, json_reply
from service.explanation import explained, weights_of
from service.naming import named_instance

T = TypeVar("T")

RANKING = ThreadPoolExecutor(1, "ranking")
"""Work over all slots, one at a time: whoever asks second waits, and nobody keeps predictions waiting."""

MOST = 1000


async def predict(context: Context, request: Request) -> Response:
    """The label of one instance, its score and probability; with `explain=true` also why."""
    if not request.scope["query_string"]:  # nearly always; to parse nothing takes 10 µs
        return await predictions.predict(context, request)
    wanted = request.query_params.get("explain", "false")
    if wanted not in {"true", "false"}:
        raise Problem(422, "query", "explain is true or false")
    return await (explain if wanted == "true" else predictions.predict)(context, request)


async def explain(context: Context, request: Request) -> Response:
    """The prediction of one instance, and what each feature, or stored row, adds to its score."""

    def work(body: bytes) -> Response:
        named = accepted(named_instance(context.decoder, body))
        served, answer, explanation = explained(context.model, named)
        return json_reply(told(answer, model_of(context, served), explanation=explanation))

    return await worked(context, request, await body_of(request), work)


async def weights(context: Context, request: Request) -> Response:
    """The features, or stored rows, that weigh most, class by class."""
    top, classes = (_number(request, name) for name in ("top", "classes"))
    served, entries, omitted = await _apart(lambda: weights_of(context.model, top, classes))
    return json_reply({"model": model_of(context, served), "classes": entries, "omitted_classes": omitted})


async def learners(context: Context, request: Request) -> Response:
    """Every learner that can be configured, with its parameters and its paper."""
    del context, request
    return json_reply(await _apart(lambda: [describe(kind) for kind in KINDS]))


async def _apart(work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(RANKING, work)


def _number(request: Request, name: str) -> int:
    text = request.query_params.get(name, "20")
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(MOST)) and 1 <= int(text) <= MOST):
        raise Problem(422, "query", f"{name} is a number from 1 to {MOST}")
    return int(text)
