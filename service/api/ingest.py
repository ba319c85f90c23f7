"""Answer `POST /events`: append a labelled event to the log, byte for byte. It never goes straight
to the model.

An event is appended at least once: a client that repeats a request after no answer, or after 503
`log_down`, may append it twice.
"""

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from learners.jit import ACCEPTED, ROW_REFUSALS
from service.api.context import Context
from service.api.log_appender import LogBusyError
from service.api.predict import require, run_or_offload
from service.api.responses import ApiError, json_reply, read_body
from service.features.decoder import Event, batch
from service.features.labels import Labels
from service.features.reject import Reject
from service.sources.base import SourceUnavailableError

SECONDS = 5.0
"""Seconds that a request waits for the log."""


async def events(context: Context, request: Request) -> Response:
    """Append a labelled event to the log that the model learns from."""
    if context.log is None:
        raise ApiError(503, "no_log", "the source is a file, which cannot be appended to")
    data = await read_body(request)
    await run_or_offload(
        context,
        request,
        data,
        lambda body: _check_learnable(context, require(context.decoder.posted(body))),
    )
    try:
        position = await asyncio.wait_for(asyncio.wrap_future(context.log.append(data)), SECONDS)
    except LogBusyError:
        raise ApiError(
            503, "busy", "too many events wait for the log; try again", Retry_After="1"
        ) from None
    except (SourceUnavailableError, TimeoutError):
        message = (
            "the log did not confirm this event; try again: if the log has it already, it will be"
            " there twice"
        )
        raise ApiError(503, "log_down", message, Retry_After="1") from None
    return json_reply(
        {"position": {"partition": position.partition, "position": position.position}}, 202
    )


def _check_learnable(context: Context, event: Event) -> None:
    """Reject now what the learner would reject later, while the caller can still fix it."""
    code = context.model.learner.row_refusals(batch([event]))[0]
    if code != ACCEPTED:
        raise ApiError(422, ROW_REFUSALS[code], Reject(ROW_REFUSALS[code]).message)
    label = context.settings.label
    if label.classes == "binary" and Labels(label).number(event.label or "") is None:
        raise ApiError(422, "label", Reject("label").message)
