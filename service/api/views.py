"""What there is to know of a running model: alive, ready, status, metrics."""

from starlette.requests import Request
from starlette.responses import Response

from service.api.context import Context
from service.api.problems import Problem, json_reply
from service.quality_report import history_of
from service.status import status_of


async def openapi(context: Context, request: Request) -> Response:
    """What may be asked here, and how."""
    del context
    return json_reply(request.app.state.document)


async def healthz(context: Context, request: Request) -> Response:
    """The process answers; nothing it depends on is asked."""
    del context, request
    return json_reply({"status": "alive"})


async def readyz(context: Context, request: Request) -> Response:
    """A model is restored, its kernels are warm, and predictions are served."""
    del request
    if not context.health.ready:
        raise Problem(503, "not_ready", context.health.trouble or "starting")
    return json_reply({"status": "ready"})


async def status(context: Context, request: Request) -> Response:
    """What was learned, how well, and how far behind the log it is."""
    del request
    return json_reply(status_of(context.settings, context.model, context.health))


async def history(context: Context, request: Request) -> Response:
    """How errors have grown beside those of the baselines, and where drift was found."""
    del request
    return json_reply(history_of(context.model))


async def metrics(context: Context, request: Request) -> Response:
    """All metrics, in Prometheus' text form."""
    del request
    exposition = context.metrics.exposition(context.model, context.health)
    return Response(exposition, media_type="text/plain; version=0.0.4; charset=utf-8")
