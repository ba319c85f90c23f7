"""Shapes of explanations, weights and learners, for the OpenAPI document."""

from typing import Any

NUMBER = {"type": "number"}
COUNT = {"type": "integer", "minimum": 0}
TEXT = {"type": "string"}


def shape(properties: dict[str, Any], *optional: str) -> dict[str, Any]:
    """Describe an object with only these properties, all required except the optional ones."""
    required = [name for name in properties if name not in optional]
    return {
        "type": "object",
        "required": required,
        "additionalProperties": False,
        "properties": properties,
    }


COLLIDES = {
    "type": "array",
    "items": TEXT,
    "minItems": 1,
    "description": "Other names that fell into the same slot",
}
PARTS = {
    "bias": NUMBER | {"description": "Contribution of the bias"},
    "constant": NUMBER
    | {"description": "What the rule adds to every score; bias + constant + contributions = score"},
    "features": {
        "type": "array",
        "maxItems": 100,
        "description": "By the size of their contribution, the largest first",
        "items": {"$ref": "#/components/schemas/ExplainedFeature"},
    },
    "omitted": shape({"count": COUNT, "contribution": NUMBER}),
}
_ROWS = {
    "type": "array",
    "description": "Stored rows by the size of their contribution, the largest first",
    "items": {"$ref": "#/components/schemas/StoredRow"},
}
PARTS_OF_ROWS = PARTS | {
    "bias": {"const": 0, "description": "A kernel model has no bias"},
    "constant": NUMBER | {"description": "What the rule adds to every score"},
    "features": {"type": "array", "maxItems": 0},
    "support": _ROWS | {"maxItems": 10},
    "stored": COUNT | {"description": "Number of all stored rows"},
    "exact": {
        "type": "boolean",
        "description": (
            "Whether constant + contributions = score; false for a learner that votes, whose"
            " contributions only show a tendency"
        ),
    },
}


def _explanation(parts: dict[str, Any]) -> dict[str, Any]:
    return shape(
        {
            "score": {
                "type": ["number", "null"],
                "description": "Score of the positive class, or of the label",
            },
            **parts,
            "runner_up": {
                "anyOf": [shape({"label": TEXT, "score": NUMBER, **parts}), {"type": "null"}],
                "description": "The second best of several classes",
            },
            "names_complete": {
                "type": "boolean",
                "description": "Whether all names are known, and with them every collision",
            },
        }
    )


def explanation_shapes(prediction: dict[str, Any]) -> dict[str, Any]:
    """Build the shapes; `prediction` is the shape that an explained prediction extends."""
    return {
        "ExplainedFeature": shape(
            {
                "name": TEXT,
                "value": NUMBER | {"description": "As sent; the sum if features share a slot"},
                "scaled": NUMBER | {"description": "As the rule sees it"},
                "weight": NUMBER,
                "contribution": NUMBER,
                "collides_with": COLLIDES,
            },
            "collides_with",
        ),
        "StoredRow": _STORED_ROW,
        "Explanation": {
            "anyOf": [
                _explanation(PARTS) | {"title": "By features"},
                _explanation(PARTS_OF_ROWS) | {"title": "Of a kernel model, by stored rows"},
            ]
        },
        "Explained": {
            **prediction,
            "required": [*prediction["required"], "explanation"],
            "properties": prediction["properties"]
            | {"explanation": {"$ref": "#/components/schemas/Explanation"}},
        },
        "Predicted": {
            "anyOf": [
                {"$ref": "#/components/schemas/Prediction"},
                {"$ref": "#/components/schemas/Explained"},
            ]
        },
        "Weights": shape(
            {
                "model": {"$ref": "#/components/schemas/Model"},
                "classes": {"type": "array", "items": {"anyOf": [_CLASS, _CLASS_OF_ROWS]}},
                "omitted_classes": COUNT,
            }
        ),
        "Learners": {"type": "array", "items": _LEARNER},
    }


_WEIGHT = shape(
    {
        "slot": COUNT,
        "name": {"type": ["string", "null"]},
        "weight": NUMBER,
        "collides_with": COLLIDES,
    },
    "collides_with",
)
_CLASS = shape(
    {
        "label": {"type": ["string", "integer"]},
        "top": {"type": "array", "items": _WEIGHT},
        "nonzero": COUNT,
        "dimension": COUNT,
        "sparsity": {"type": "number", "minimum": 0, "maximum": 1},
        "norm": {"type": "number", "minimum": 0},
    }
)
_CLASS_OF_ROWS = shape(
    {
        "label": {"type": ["string", "integer"]},
        "top": {"type": "array", "maxItems": 0},
        "support": _ROWS | {"maxItems": 50},
        "stored": COUNT | {"description": "Number of all stored rows"},
        "room": COUNT | {"description": "Most rows that can be stored"},
        "norm": {"type": "number", "minimum": 0},
    }
)
_STORED_FEATURE = shape(
    {
        "slot": COUNT,
        "name": {"type": ["string", "null"]},
        "value": NUMBER | {"description": "As stored: scaled, if the learner scales"},
        "collides_with": COLLIDES,
    },
    "collides_with",
)
_STORED_ROW = shape(
    {
        "coefficient": NUMBER | {"description": "With the sign of the row's label"},
        "similarity": NUMBER
        | {"description": "K(stored row, instance); in /weights the row's norm, √K(row, row)"},
        "contribution": NUMBER | {"description": "coefficient × similarity"},
        "features": {
            "type": "array",
            "maxItems": 20,
            "description": "By the size of their value, the largest first",
            "items": _STORED_FEATURE,
        },
        "features_omitted": COUNT,
        "tree_nodes": COUNT
        | {"description": "Inner nodes of its tree, of which only hashes are stored"},
    }
)
_PARAMETER = shape({"name": TEXT, "default": {}, "required": {"type": "boolean"}, "help": TEXT})
_LEARNER = shape(
    {
        "kind": TEXT,
        "family": TEXT,
        "paper": TEXT,
        "rule": TEXT,
        "when": TEXT,
        "parameters": {"type": "array", "items": _PARAMETER},
    }
)
