"""`/predict` and `/predict/batch`: through the log's own decoder, so that learning and serving cannot skew."""

import time
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from learners.batch import Batch
from service.answers import Prediction, Served
from service.api.aside import worked
from service.api.context import Context
from service.api.problems import Problem, body_of, json_reply
from service.events import Event, batch
from service.naming import Named
from service.reasons import Reject

T = TypeVar("T", Event, Batch, Named)


class Told(msgspec.Struct, omit_defaults=True):
    """A prediction in JSON."""

    label: str | int | None
    score: float | None
    probability: float | None
    scores: dict[str, float] | None = None
    explanation: dict[str, Any] | None = None
    model: dict[str, Any] | msgspec.Raw = msgspec.field(default_factory=dict)
    """Which state answered."""


async def predict(context: Context, request: Request) -> Response:
    def work(body: bytes) -> Response:
        event = accepted(context.decoder.instance(body))
        served, (answer,) = context.model.predict(batch([event]))
        return json_reply(told(answer, model_of(context, served)))

    return await worked(context, request, await body_of(request), work)


async def predict_batch(context: Context, request: Request) -> Response:
    """Predictions of many instances, in their order and of one state."""

    def work(body: bytes) -> Response:
        rows = accepted(context.decoder.instances(body, context.settings.api.max_batch))
        served, answers = context.model.predict(rows)
        model = msgspec.Raw(msgspec.json.encode(model_of(context, served)))  # the same for all: encoded once
        return json_reply({"predictions": [told(answer, model, place) for place, answer in enumerate(answers)]})

    return await worked(context, request, await body_of(request), work)


def accepted(decoded: T | Reject, place: int | None = None) -> T:
    """What was decoded; `place` is its own among several, where the decoder knows of none."""
    if isinstance(decoded, Reject):
        told_place = decoded if place is None else decoded._replace(place=place)
        raise Problem(422, decoded.reason, told_place.message)
    return decoded


def told(
    answer: Prediction | str,
    model: dict[str, Any] | msgspec.Raw,
    place: int | None = None,
    explanation: dict[str, Any] | None = None,
) -> Told:
    if isinstance(answer, str):
        raise Problem(422, answer, Reject(answer, place).message)
    return Told(answer.label, answer.score, answer.probability, answer.scores, explanation, model)


def model_of(context: Context, served: Served) -> dict[str, Any]:
    """Which state answered, and how old it is."""
    return {
        "name": context.settings.name,
        "version": served.version,
        "generation": served.generation,
        "age_seconds": round(max(0.0, time.time() - served.made), 3),
        "stale_seconds": round(context.health.stale_seconds, 3),
    }
