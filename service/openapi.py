"""Shapes of requests and replies for OpenAPI: FastAPI cannot read them off handlers that decode bodies themselves."""

from typing import Any

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
        "required": ["label", "score", "model"],
        "properties": {
            "label": {"type": ["string", "integer", "null"]},
            "score": {"type": ["number", "null"]},
            "model": {
                "type": "object",
                "required": ["name", "version", "generation"],
                "properties": {
                    "name": {"type": "string"},
                    "version": {"type": "integer"},
                    "generation": {"type": "integer"},
                },
            },
        },
    },
    "Predictions": {
        "type": "object",
        "required": ["predictions"],
        "properties": {"predictions": {"type": "array", "items": {"$ref": "#/components/schemas/Prediction"}}},
    },
}


def described(body: str, reply: str) -> dict[str, Any]:
    """Keyword arguments of a route that takes one shape and answers with another."""
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{body}"}}}
    errors = {413: "Body too large", 422: "Body not understood", 503: "Not ready"}
    return {
        "response_model": None,
        "openapi_extra": {"requestBody": {"required": True, "content": content}},
        "responses": {
            200: {"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{reply}"}}}},
            **{
                status: {"description": text, "content": {"application/json": {"schema": ERROR}}}
                for status, text in errors.items()
            },
        },
    }
