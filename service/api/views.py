"""Answer the read-only routes: health, `/status`, `/history`, `/metrics`, and the page on `/`.

The page has no data. It asks the other routes with the key that its reader types in.
"""

import base64
import hashlib
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from service.api.context import Context
from service.api.responses import ApiError, json_reply
from service.monitoring.status import history_of, status_of

SCRIPTS = (
    "elements",
    "asking",
    "answers",
    "curves",
    "chart",
    "life",
    "numbers",
    "drift",
    "weights",
    "stored",
    "prediction",
    "page",
)
"""Files of `web/` that make up the page's script, in this order: a file may use those before it."""


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
        raise ApiError(503, "not_ready", context.health.trouble or "starting")
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


async def page(context: Context, request: Request) -> Response:
    """The live page, without data."""
    del context, request
    return Response(
        PAGE, media_type="text/html; charset=utf-8", headers={"content-security-policy": POLICY}
    )


def _read_web_file(name: str) -> bytes:
    return files("service").joinpath("web", name).read_bytes()


def _hash_source(content: bytes) -> str:
    """The policy's name for this inline content. Nothing else that gets into the page runs."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(content).digest()).decode() + "'"


STYLE = _read_web_file("page.css")
SCRIPT = b"\n".join(_read_web_file(f"{name}.js") for name in SCRIPTS)
PAGE = (
    _read_web_file("page.html")
    .replace(b"<style></style>", b"<style>%b</style>" % STYLE)
    .replace(b"<script></script>", b"<script>%b</script>" % SCRIPT)
)
POLICY = (
    f"default-src 'none'; connect-src 'self'; script-src {_hash_source(SCRIPT)}; style-src"
    f" {_hash_source(STYLE)}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
