"""Answer `POST /predict` and `/predict/batch`. The log's own decoder reads the features, so that
training and serving cannot skew.

Long requests run in threads, so that short ones do not wait: one thread for requests of middle
length and one for very long ones. So a caller of long requests delays only callers of requests as
long as its own.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from learners.batch import Batch
from service.api.context import Context
from service.api.responses import ApiError, json_reply, read_body
from service.config.settings import Features
from service.features.decoder import Event, Named, batch
from service.features.reject import Reject
from service.model.results import ModelVersion, Prediction

R = TypeVar("R")
T = TypeVar("T", Event, Batch, Named)

SHORT = 16_384
"""Cost, in bytes of hashed features. Up to this cost a request is answered at once; it takes about
a millisecond.
"""
MIDDLE = 16 * SHORT
"""Cost up to which a request is of middle length."""
COST_OF_COLUMNS = 1 / 16
"""Cost of a byte where every feature is a column: a number takes a fraction of the time of a word,
and in a thread a batch of 1,000 would lose a third of its speed.
"""
COST_OF_TEXT = 3
"""Cost of a byte where some fields are text, for each length of n-grams: a word may be one letter
and a space.
"""
EXPLAINED = 2
"""Factor by which an explanation multiplies the cost of a prediction."""
MIDDLE_THREAD = ThreadPoolExecutor(1, "aside")
LONG_THREAD = ThreadPoolExecutor(1, "long-aside")


class PredictionReply(msgspec.Struct, omit_defaults=True):
    """A prediction in JSON."""

    label: str | int | None
    score: float | None
    probability: float | None
    scores: dict[str, float] | None = None
    explanation: dict[str, Any] | None = None
    model: dict[str, Any] | msgspec.Raw = msgspec.field(default_factory=dict)
    """Which model state answered."""


async def predict(context: Context, request: Request) -> Response:
    def work(body: bytes) -> Response:
        event = require(context.decoder.instance(body))
        version, (prediction,) = context.model.predict(batch([event]))
        return json_reply(to_reply(prediction, model_of(context, version)))

    return await run_or_offload(context, request, await read_body(request), work)


async def predict_batch(context: Context, request: Request) -> Response:
    """Predict many instances, in their order and from one model state."""

    def work(body: bytes) -> Response:
        rows = require(context.decoder.instances(body, context.settings.api.max_batch))
        version, predictions = context.model.predict(rows)
        # It is the same for all rows, so it is encoded once.
        model = msgspec.Raw(msgspec.json.encode(model_of(context, version)))
        replies = [to_reply(one, model, row) for row, one in enumerate(predictions)]
        return json_reply({"predictions": replies})

    return await run_or_offload(context, request, await read_body(request), work)


async def run_or_offload(
    context: Context, request: Request, body: bytes, work: Callable[[bytes], R], times: int = 1
) -> R:
    """Return `work(body)`. A long body waits for its thread and is dropped if its client is gone.

    `times` multiplies its cost.
    """
    cost = times * cost_of(context.settings.features, len(body))
    # A learner that stores rows compares a body with all of them, so even a short one takes long.
    if cost <= SHORT and not context.settings.learner.capabilities.stores_rows:
        return work(body)

    def work_if_wanted() -> R:
        if request.scope.get("gone", bool)():  # a test client has no connection
            raise ClientDisconnect
        return work(body)

    thread = MIDDLE_THREAD if cost <= MIDDLE else LONG_THREAD
    return await asyncio.get_running_loop().run_in_executor(thread, work_if_wanted)


def cost_of(features: Features, size: int) -> float:
    """Return the highest cost that a body of this many bytes can have."""
    if not features.bits:
        return size * COST_OF_COLUMNS
    return size * (COST_OF_TEXT * features.ngrams if features.text else 1)


def require(decoded: T | Reject, row: int | None = None) -> T:
    """Return what was decoded, or raise an error for a reject.

    `row` is its number among several, if the decoder does not know it.
    """
    if isinstance(decoded, Reject):
        reject = decoded if row is None else decoded._replace(place=row)
        raise ApiError(422, reject.reason, reject.message)
    return decoded


def to_reply(
    prediction: Prediction | str,
    model: dict[str, Any] | msgspec.Raw,
    row: int | None = None,
    explanation: dict[str, Any] | None = None,
) -> PredictionReply:
    """Make the reply for a prediction, or raise an error if it is the reason of a refusal."""
    if isinstance(prediction, str):
        raise ApiError(422, prediction, Reject(prediction, row).message)
    return PredictionReply(
        prediction.label,
        prediction.score,
        prediction.probability,
        prediction.scores,
        explanation,
        model,
    )


def model_of(context: Context, version: ModelVersion) -> dict[str, Any]:
    """Describe which model state answered, and how old it is."""
    return {
        "name": context.settings.name,
        "version": version.version,
        "generation": version.generation,
        "age_seconds": round(max(0.0, time.time() - version.made), 3),
        "stale_seconds": round(context.health.stale_seconds, 3),
    }
