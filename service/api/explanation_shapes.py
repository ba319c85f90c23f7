"""The shapes of explanations and weights, for the OpenAPI document."""

from typing import Any

NUMBER = {"type": "number"}
COUNT = {"type": "integer", "minimum": 0}
TEXT = {"type": "string"}


def shape(properties: dict[str, Any], *optional: str) -> dict[str, Any]:
    """An object with these properties and no other, all required but the optional ones."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "required": required, "additionalProperties": False, "properties": properties}


COLLIDES = {"type": "array", "items": TEXT, "minItems": 1, "description": "Other names that fell into the same slot"}
PARTS = {
    "bias": NUMBER | {"description": "Contribution of the bias"},
    "constant": NUMBER | {"description": "What the rule adds to every score; bias + constant + contributions = score"},
    "features": {
        "type": "array",
        "maxItems": 100,
        "description": "By the size of their contribution, the largest first",
        "items": {"$ref": "#/components/schemas/ExplainedFeature"},
    },
    "omitted": shape({"count": COUNT, "contribution": NUMBER}),
}


def explanation_shapes(prediction: dict[str, Any]) -> dict[str, Any]:
    """Given the shape of a prediction, which an explained one extends."""
    return {
        "ExplainedFeature": shape(
            {
                "name": TEXT,
                "value": NUMBER | {"description": "As sent; the sum, where features met in a slot"},
                "scaled": NUMBER | {"description": "As the rule sees it"},
                "weight": NUMBER,
                "contribution": NUMBER,
                "collides_with": COLLIDES,
            },
            "collides_with",
        ),
        "Explanation": shape(
            {
                "score": {"type": ["number", "null"], "description": "Of the positive class, or of the label"},
                **PARTS,
                "runner_up": {
                    "anyOf": [shape({"label": TEXT, "score": NUMBER, **PARTS}), {"type": "null"}],
                    "description": "The second best of several classes",
                },
                "names_complete": {"type": "boolean", "description": "Whether every collision would be known"},
            }
        ),
        "Explained": {
            **prediction,
            "required": [*prediction["required"], "explanation"],
            "properties": prediction["properties"] | {"explanation": {"$ref": "#/components/schemas/Explanation"}},
        },
        "Predicted": {
            "anyOf": [{"$ref": "#/components/schemas/Prediction"}, {"$ref": "#/components/schemas/Explained"}]
        },
        "Weights": shape(
            {
                "model": {"$ref": "#/components/schemas/Model"},
                "classes": {"type": "array", "items": _CLASS},
                "omitted_classes": COUNT,
            }
        ),
        "Learners": {"type": "array", "items": _LEARNER},
    }


_WEIGHT = shape(
    {"slot": COUNT, "name": {"type": ["string", "null"]}, "weight": NUMBER, "collides_with": COLLIDES},
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
