"""Shapes of what administrators ask and are answered."""

from typing import Any

from service.api.explanation_shapes import COUNT, TEXT, shape

SECONDS = {"type": "number", "minimum": 0}
_FREEZE = shape({"since": SECONDS | {"description": "Seconds since 1970"}, "generation": COUNT})
_CHECKPOINT = shape(
    {
        "generation": COUNT,
        "created": SECONDS | {"description": "Seconds since 1970"},
        "age_seconds": SECONDS,
        "events": COUNT,
        "errors": COUNT,
        "origin": TEXT | {"description": "`learned`, or the operator's word that made it"},
    }
)

ADMIN_SCHEMAS: dict[str, dict[str, Any]] = {
    "Rollback": shape(
        {
            "generation": {"type": "integer", "description": "One of those that are kept"},
            "learn_again": {
                "type": "boolean",
                "description": "true: what came after that generation is learned again from the log; "
                "false: learning goes on where the log is, and what came between stays unlearned",
            },
        }
    ),
    "RolledBack": shape(
        {
            "generation": COUNT | {"description": "The newest now"},
            "state_of": COUNT | {"description": "The generation whose state it has"},
            "was": COUNT | {"description": "The newest until then"},
        }
    ),
    "Froze": shape({"frozen": _FREEZE}),
    "Unfroze": shape({"was_frozen": {"anyOf": [_FREEZE, {"type": "null"}]}}),
    "Checkpoints": shape(
        {"checkpoints": {"type": "array", "items": {"anyOf": [_CHECKPOINT, shape({"broken": TEXT})]}}}
    ),
}
