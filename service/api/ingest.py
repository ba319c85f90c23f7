"""`POST /events`: a labelled event goes into the log, as the very bytes received, and never straight to the model.

At least once: whoever repeats a request that got no answer, or 503 `log_down`, may append the event twice.
"""

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from learners.kernels import ACCEPTED, REFUSALS
from service.api.aside import worked
from service.api.context import Context
from service.api.predictions import accepted
from service.api.problems import Problem, body_of, json_reply
from service.appender import Busy
from service.events import Event, batch
from service.labels import Labels
from service.reasons import Reject
from service.sources.contract import SourceDown

SECONDS = 5.0
"""How long a request waits for the log."""


async def events(context: Context, request: Request) -> Response:
    """Append a labelled event to the log that is learned from."""
    if context.log is None:
        raise Problem(503, "no_log", "the source is a file, which cannot be appended to")
    data = await body_of(request)
    await worked(context, request, data, lambda body: _check_learnable(context, accepted(context.decoder.posted(body))))
    try:
        place = await asyncio.wait_for(asyncio.wrap_future(context.log.append(data)), SECONDS)
    except Busy:
        raise Problem(503, "busy", "too many events wait for the log; try again", Retry_After="1") from None
    except (SourceDown, TimeoutError):
        message = "the log does not take events now; try again: should it have this one, it will have it twice"
        raise Problem(503, "log_down", message, Retry_After="1") from None
    return json_reply({"position": {"partition": place.partition, "position": place.position}}, 202)


def _check_learnable(context: Context, event: Event) -> None:
    """What the learner would reject is told to the one who can mend it."""
    code = context.model.learner.refusals(batch([event]))[0]
    if code != ACCEPTED:
        raise Problem(422, REFUSALS[code], Reject(REFUSALS[code]).message)
    label = context.settings.label
    if label.classes == "binary" and Labels(label).number(event.label or "") is None:
        raise Problem(422, "label", Reject("label").message)
