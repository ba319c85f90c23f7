"""Build the OpenAPI document. FastAPI cannot: the handlers decode their bodies themselves."""

import inspect
from collections.abc import Sequence
from typing import Any

from learners.jit import ACCEPTED
from service.api.context import Context
from service.api.openapi.explanations import explanation_shapes
from service.api.openapi.requests import bodies
from service.api.openapi.responses import ADMIN_SCHEMAS, SCHEMAS
from service.api.routes import Route
from service.api.v2.tensors import JSON_LENGTH
from service.config.settings import Settings
from service.features.decoder import Event, batch
from service.monitoring.metrics import VERSION

QUERY: dict[str, dict[str, Any]] = {
    "explain": {"type": "string", "enum": ["true", "false"], "default": "false"},
    "top": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 20},
    "classes": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 20},
}

TOO_LARGE = {413: "Body too large"}
UNAVAILABLE = {503: "Not ready, or too many requests at once"}
OF_KEYS = {
    401: "No key, or an unknown or expired one",
    403: "The key does not have the scope",
    429: "The rate limit of the key is exceeded",
}
OF_BODIES = {408: "The body did not arrive in time", 422: "Invalid body"}
OF_QUERIES = {422: "Invalid parameter"}
OF_MODELS = {404: "No such model, or another version is served"}
OF_ADMIN = {409: "Refused: it would lose or repeat events, or there is no such generation"}
OF_ENCODINGS = {415: "The body has a content encoding"}
OF_WRITERS = {
    403: "Sent by a web page of another origin, or the key does not have the scope",
    415: "The body is not declared as application/json, or has a content encoding",
}
OF_HOSTS = {421: "Without keys: the Host is neither loopback nor api.host nor in api.hosts"}


def document(context: Context, routes: Sequence[Route]) -> dict[str, Any]:
    """Build the OpenAPI document of these routes, with the limits of this model's settings."""
    settings = context.settings
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, settings)
    below_zero = Event([1], [-1.0], None, 1.0)
    negative = context.model.learner.row_refusals(batch([below_zero]))[0] == ACCEPTED
    shapes = (
        SCHEMAS
        | ADMIN_SCHEMAS
        | explanation_shapes(SCHEMAS["Prediction"])
        | bodies(settings, negative=negative)
    )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "onepass",
            "version": VERSION,
            "description": f"Model {settings.name}",
        },
        "paths": paths,
        "components": {
            "schemas": _referenced_shapes(paths, shapes),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _referenced_shapes(part: Any, shapes: dict[str, Any]) -> dict[str, Any]:
    """Find the shapes that a part of the document refers to, directly or through other shapes."""
    found: dict[str, Any] = {}
    waiting = [part]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            waiting += node.values()
            name = str(node.get("$ref", "")).rpartition("/")[2]
            if name in shapes and name not in found:
                found[name] = shapes[name]
                waiting.append(shapes[name])
    return dict(sorted(found.items()))


def _operation(route: Route, settings: Settings) -> dict[str, Any]:
    protocol = f"{route.path}/".startswith("/v2/")
    keyed = route.scope is not None and settings.api.keys_file is not None
    error = _json("V2Error" if protocol else "Error")
    faults = _faults(route, keyed) | (OF_HOSTS if settings.api.keys_file is None else {})
    operation: dict[str, Any] = {
        "summary": _summary(route),
        "description": (
            f"Needs a key with the scope `{route.scope}`."
            if route.scope
            else "Open to all, without a key."
        ),
        "operationId": (
            route.handler.__name__ + ("_of_version" if "{version}" in route.path else "")
        ),
        "responses": {
            "202" if route.gives == "Appended" else "200": {
                "description": "Answered",
                **_good_reply(route),
            },
            **{
                str(status): {"description": text, "content": error}
                for status, text in faults.items()
            },
        },
    }
    if parameters := _parameters(route, settings):
        operation["parameters"] = parameters
    if route.takes:
        operation["requestBody"] = {"required": True, "content": _json(route.takes) | _bytes(route)}
    if keyed:
        operation["security"] = [{"key": []}]
    return operation


def _summary(route: Route) -> str:
    """The first line of a handler's docstring, which therefore is a part of the API."""
    text = inspect.getdoc(route.handler) or ""
    return text.partition("\n")[0].removesuffix(".")


def _json(shape: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{shape}"}}}


def _bytes(route: Route) -> dict[str, Any]:
    """Describe the content type that only inference uses: JSON followed by bytes."""
    if route.takes != "V2Request":
        return {}
    description = (
        f"JSON, whose length is in the header {JSON_LENGTH}, then the bytes of the tensors that"
        " have a binary_data_size"
    )
    return {
        "application/octet-stream": {
            "schema": {"type": "string", "format": "binary", "description": description}
        }
    }


def _good_reply(route: Route) -> dict[str, Any]:
    if route.gives in {"text", "html"}:
        kind = "text/plain" if route.gives == "text" else "text/html"
        return {"content": {kind: {"schema": {"type": "string"}}}}
    if not _bytes(route):
        return {"content": _json(route.gives)}
    length = {
        "schema": {"type": "integer", "minimum": 0},
        "description": "Bytes of the JSON, if tensors follow it",
    }
    return {"content": _json(route.gives) | _bytes(route), "headers": {JSON_LENGTH: length}}


def _faults(route: Route, keyed: bool) -> dict[int, str]:
    found = TOO_LARGE | UNAVAILABLE
    found |= OF_KEYS if keyed else {}
    found |= OF_ENCODINGS if route.method == "POST" else {}
    found |= OF_WRITERS if route.writes else {}
    found |= OF_ADMIN if route.path.startswith("/admin/") else {}
    found |= OF_QUERIES if route.query is not None else {}
    found |= OF_BODIES if route.takes else {}
    found |= OF_MODELS if "{name}" in route.path else {}
    return dict(sorted(found.items()))


def _parameters(route: Route, settings: Settings) -> list[dict[str, Any]]:
    known: dict[str, dict[str, Any]] = {
        "name": {"const": settings.name, "type": "string"},
        "version": {"type": "string", "pattern": "^(0|[1-9][0-9]{0,17})$"},
    }
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": schema}
        for name, schema in known.items()
        if f"{{{name}}}" in route.path
    ]
    return in_path + [
        {"name": name, "in": "query", "schema": QUERY[name]} for name in route.query or ()
    ]
