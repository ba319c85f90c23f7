"""The OpenAPI document: FastAPI cannot read shapes off handlers that decode bodies themselves."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from service.api.explanation_shapes import explanation_shapes
from service.api.routes import Route

ERROR = {"$ref": "#/components/schemas/Error"}
SCHEMAS: dict[str, Any] = {
    "Error": {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["code", "message"],
                "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
            }
        },
    },
    "Instance": {
        "type": "object",
        "required": ["features"],
        "additionalProperties": False,
        "properties": {
            "id": {"type": "string"},
            "features": {
                "type": "object",
                "additionalProperties": {
                    "anyOf": [
                        {"type": "number"},
                        {"type": "string"},
                        {"type": "boolean"},
                        {"type": "array", "items": {"type": "string"}},
                    ]
                },
            },
        },
    },
    "Instances": {
        "type": "object",
        "required": ["instances"],
        "additionalProperties": False,
        "properties": {"instances": {"type": "array", "items": {"$ref": "#/components/schemas/Instance"}}},
    },
    "Prediction": {
        "type": "object",
        "required": ["label", "score", "probability", "model"],
        "additionalProperties": False,
        "properties": {
            "label": {"type": ["string", "integer", "null"]},
            "score": {"type": ["number", "null"]},
            "probability": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
            "scores": {"type": "object", "additionalProperties": {"type": "number"}},
            "model": {"$ref": "#/components/schemas/Model"},
        },
    },
    "Model": {
        "type": "object",
        "required": ["name", "version", "generation", "age_seconds", "stale_seconds"],
        "additionalProperties": False,
        "properties": {
            "name": {"type": "string"},
            "version": {"type": "integer"},
            "generation": {"type": "integer"},
            "age_seconds": {"type": "number", "minimum": 0},
            "stale_seconds": {"type": "number", "minimum": 0},
        },
    },
    "Predictions": {
        "type": "object",
        "required": ["predictions"],
        "properties": {"predictions": {"type": "array", "items": {"$ref": "#/components/schemas/Prediction"}}},
    },
}


OBJECT = {"type": "object"}
SCHEMAS |= {
    "Status": OBJECT,
    "Word": {"type": "object", "required": ["status"], "properties": {"status": {"type": "string"}}},
}

SCHEMAS |= explanation_shapes(SCHEMAS["Prediction"])

QUERY: dict[str, dict[str, Any]] = {
    "explain": {"type": "string", "enum": ["true", "false"], "default": "false"},
    "top": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 20},
    "classes": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 20},
}

FAULTS = {
    401: "No key, or one that is not known",
    403: "The key is not good for this",
    408: "The body did not come in time",
    413: "Body too large",
    422: "Body not understood",
    429: "More requests than the key is good for",
    503: "Not ready, or too many requests at once",
}


def document(name: str, routes: Sequence[Route]) -> dict[str, Any]:
    """The OpenAPI document of these routes."""
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "onepass", "version": version("onepass"), "description": f"Model {name}"},
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    if route.gives in {"text", "html"}:
        kind = "text/plain" if route.gives == "text" else "text/html"
        good: dict[str, Any] = {kind: {"schema": {"type": "string"}}}
    else:
        good = {"application/json": {"schema": {"$ref": f"#/components/schemas/{route.gives}"}}}
    operation: dict[str, Any] = {
        "operationId": route.handler.__name__,
        "responses": {
            "200": {"description": "Answered", "content": good},
            **{
                str(status): {"description": text, "content": {"application/json": {"schema": ERROR}}}
                for status, text in FAULTS.items()
            },
        },
    }
    if route.takes:
        content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{route.takes}"}}}
        operation["requestBody"] = {"required": True, "content": content}
    if route.query:
        operation["parameters"] = [{"name": name, "in": "query", "schema": QUERY[name]} for name in route.query]
    if route.scope:
        operation["security"] = [{"key": []}]
    return operation
