"""The live page on `/`: a shell without data, which asks the other routes with the key that its reader types in."""

import base64
import hashlib
import re
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from service.api.context import Context

PAGE = files("service").joinpath("web/page.html").read_bytes()


def _allowed(tag: bytes) -> str:
    """The one inline part of that kind, by its hash: nothing that got into the page otherwise runs."""
    (content,) = re.findall(b"<%b>(.*?)</%b>" % (tag, tag), PAGE, re.DOTALL)
    return "'sha256-" + base64.b64encode(hashlib.sha256(content).digest()).decode() + "'"


POLICY = (
    f"default-src 'none'; connect-src 'self'; script-src {_allowed(b'script')}; style-src {_allowed(b'style')}; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


async def page(context: Context, request: Request) -> Response:
    """The live page, without data."""
    del context, request
    return Response(PAGE, media_type="text/html; charset=utf-8", headers={"content-security-policy": POLICY})
