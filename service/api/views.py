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
    """Describe this API in OpenAPI 3.1."""
    del context
    return json_reply(request.app.state.document)


async def healthz(context: Context, request: Request) -> Response:
    """Report that the process is alive; its dependencies are not checked."""
    del context, request
    return json_reply({"status": "alive"})


async def readyz(context: Context, request: Request) -> Response:
    """Report whether predictions are served: a model is restored and its kernels are warm."""
    del request
    if not context.health.ready:
        raise ApiError(503, "not_ready", context.health.trouble or "starting")
    return json_reply({"status": "ready"})


async def status(context: Context, request: Request) -> Response:
    """Report what was learned, how well, and how far the learner is behind the log."""
    del request
    return json_reply(status_of(context.settings, context.model, context.health))


async def history(context: Context, request: Request) -> Response:
    """List the errors of the model and of its baselines over time, and where drift was found."""
    del request
    return json_reply(history_of(context.model))


async def metrics(context: Context, request: Request) -> Response:
    """List all metrics in Prometheus' text format."""
    del request
    exposition = context.metrics.exposition(context.model, context.health)
    return Response(exposition, media_type="text/plain; version=0.0.4; charset=utf-8")


async def page(context: Context, request: Request) -> Response:
    """Serve the live page, which has no data."""
    del context, request
    return Response(
        PAGE, media_type="text/html; charset=utf-8", headers={"content-security-policy": POLICY}
    )


def _read_web_file(name: str) -> bytes:
    return files("service").joinpath("web", name).read_bytes()


def _hash_source(content: bytes) -> str:
    """Hash inline content for the Content-Security-Policy: no other script or style can run."""
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
