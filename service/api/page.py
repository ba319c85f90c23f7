"""The live page on `/`: a shell without data, which asks the other routes with the key that its reader types in."""

import base64
import hashlib
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from service.api.context import Context

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
"""In this order one script: what a file does at its begin may use the files above it."""


def _read(name: str) -> bytes:
    return files("service").joinpath("web", name).read_bytes()


def _allowed(content: bytes) -> str:
    """The one inline part of its kind, by its hash: nothing that got into the page otherwise runs."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(content).digest()).decode() + "'"


STYLE = _read("page.css")
SCRIPT = b"\n".join(_read(f"{name}.js") for name in SCRIPTS)
PAGE = (
    _read("page.html")
    .replace(b"<style></style>", b"<style>%b</style>" % STYLE)
    .replace(b"<script></script>", b"<script>%b</script>" % SCRIPT)
)
POLICY = (
    f"default-src 'none'; connect-src 'self'; script-src {_allowed(SCRIPT)}; style-src {_allowed(STYLE)}; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


async def page(context: Context, request: Request) -> Response:
    """The live page, without data."""
    del context, request
    return Response(PAGE, media_type="text/html; charset=utf-8", headers={"content-security-policy": POLICY})
