"""Schemas of replies, the same for every model. Those of `/admin` are at the end."""

from typing import Any

from service.api.openapi.explanations import shape

Schema = dict[str, Any]


def _exactly(**properties: Schema) -> Schema:
    """An object with all of these properties and no other."""
    return shape(properties)


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


TEXT: Schema = {"type": "string"}
NAME: Schema = {"type": "string", "minLength": 1}
COUNT: Schema = {"type": "integer", "minimum": 0}
SECONDS: Schema = {"type": "number", "minimum": 0}
NUMBER: Schema = {"type": ["number", "null"]}
RATE: Schema = {"type": ["number", "null"], "minimum": 0, "maximum": 1}
TRUE: Schema = {"const": True}
DATATYPE: Schema = {"enum": ["BYTES", "FP64"]}

_PREDICTION = _exactly(
    label={"type": ["string", "integer", "null"]},
    score={"type": ["number", "null"]},
    probability=RATE,
    model=_ref("Model"),
)
_PREDICTION["properties"]["scores"] = {"type": "object", "additionalProperties": {"type": "number"}}

_V2_RESPONSE = _exactly(model_name=NAME, model_version=NAME, outputs=_list(_ref("V2Output")))
_V2_RESPONSE["properties"]["id"] = TEXT

_V2_OUTPUT = _exactly(name=NAME, datatype=DATATYPE, shape=_list(COUNT))
_V2_OUTPUT["properties"] |= {
    "data": _list({"type": ["string", "number"]}),
    "parameters": {
        "type": "object",
        "additionalProperties": False,
        "properties": {"classes": _list(TEXT), "binary_data_size": COUNT},
    },
}

SCHEMAS: dict[str, Schema] = {
    "Error": _exactly(error=_exactly(code=NAME, message=NAME)),
    "Prediction": _PREDICTION,
    "Predictions": _exactly(predictions=_list(_ref("Prediction"))),
    "Model": _exactly(
        name=NAME, version=COUNT, generation=COUNT, age_seconds=SECONDS, stale_seconds=SECONDS
    ),
    "Appended": _exactly(position=_exactly(partition=NAME, position=NAME)),
    "Alive": _exactly(status={"const": "alive"}),
    "Ready": _exactly(status={"const": "ready"}),
    "Status": _exactly(
        model=NAME,
        role={"enum": ["run", "learn", "serve"]},
        features=_exactly(flat={"type": "boolean"}, columns=_list(TEXT)),
        learner={"type": "object", "required": ["kind"], "properties": {"kind": NAME}},
        events=COUNT,
        errors=COUNT,
        error_rate=RATE,
        error_rate_last_1000=RATE,
        updates=COUNT,
        dropped_updates=COUNT,
        rejects=COUNT,
        rejects_by_reason={"type": "object", "additionalProperties": COUNT},
        support={"anyOf": [_exactly(rows=COUNT, room=COUNT), {"type": "null"}]},
        lag={"type": ["integer", "null"], "minimum": 0},
        events_lost=COUNT,
        last_rejects=_list(_exactly(reason=NAME, partition=NAME, position=NAME, at=SECONDS)),
        quality=_ref("Quality"),
        drift=_ref("Drift"),
        frozen={"type": "boolean"},
        ready={"type": "boolean"},
        waiting_for=TEXT,
        checkpoint=_exactly(
            generation=COUNT,
            age_seconds={"type": ["number", "null"], "minimum": 0},
            events=COUNT,
            state_digest={"type": ["string", "null"]},
        ),
    ),
    "Quality": _exactly(
        error_rate_fading=RATE,
        log_loss=NUMBER,
        log_loss_fading=NUMBER,
        calibration_error=RATE,
        kappa=NUMBER,
        kappa_temporal=NUMBER,
        kappa_majority=NUMBER,
        kappa_temporal_last_1000=NUMBER,
        kappa_majority_last_1000=NUMBER,
        baselines=_exactly(majority=_ref("Baseline"), no_change=_ref("Baseline")),
        classes=_list(
            _exactly(
                label={"type": ["string", "integer", "null"]},
                events=COUNT,
                predicted=COUNT,
                precision=RATE,
                recall=RATE,
                f1=RATE,
            )
        ),
    ),
    "Baseline": _exactly(error_rate=RATE, error_rate_last_1000=RATE),
    "Drift": _exactly(
        detectors=_list(_exactly(detector=NAME, score=RATE, alarms=COUNT)),
        features=_list(_exactly(feature=NAME, psi=SECONDS)),
        boosted_events_left=COUNT,
        alarms=_list(_ref("Alarm")),
    ),
    "Alarm": _exactly(
        event=COUNT,
        detector=NAME,
        series=NAME,
        change={"enum": ["worse", "better", "moved"]},
        size=SECONDS,
        psi={"type": ["number", "null"], "minimum": 0},
        partition=TEXT,
        position=TEXT,
        actions=_list({"enum": ["boost", "reset_scaler"]}),
        at=SECONDS,
    ),
    "History": _exactly(whole=_ref("Curve"), latest=_ref("Curve"), alarms=_list(_ref("Alarm"))),
    "Curve": _exactly(
        events=_list(COUNT), errors=_list(COUNT), majority=_list(COUNT), no_change=_list(COUNT)
    ),
    "OpenApi": {
        "type": "object",
        "required": ["openapi", "info", "paths"],
        "properties": {
            "openapi": {"const": "3.1.0"},
            "info": {"type": "object", "required": ["title", "version"]},
            "paths": {"type": "object", "minProperties": 1},
        },
    },
    "V2Error": _exactly(error=NAME),
    "V2Server": _exactly(name={"const": "onepass"}, version=NAME, extensions=_list(NAME)),
    "V2Live": _exactly(live=TRUE),
    "V2Ready": _exactly(ready=TRUE),
    "V2ModelReady": _exactly(name=NAME, ready=TRUE),
    "V2Model": _exactly(
        name=NAME,
        versions=_list(NAME),
        platform={"const": "onepass"},
        inputs=_list(_ref("V2Described")),
        outputs=_list(_ref("V2Described")),
    ),
    "V2Described": _exactly(
        name=NAME, datatype=DATATYPE, shape=_list({"type": "integer", "minimum": -1})
    ),
    "V2Output": _V2_OUTPUT,
    "V2Response": _V2_RESPONSE,
}


_FREEZE = shape({"since": SECONDS | {"description": "Seconds since 1970"}, "generation": COUNT})
_CHECKPOINT = shape(
    {
        "generation": COUNT,
        "created": SECONDS | {"description": "Seconds since 1970"},
        "age_seconds": SECONDS,
        "events": COUNT,
        "errors": COUNT,
        "origin": TEXT | {"description": "`learned`, or the operator's command that wrote it"},
    }
)

ADMIN_SCHEMAS: dict[str, dict[str, Any]] = {
    "Rollback": shape(
        {
            "generation": {"type": "integer", "description": "A kept generation"},
            "rewind": {
                "type": "boolean",
                "description": (
                    "true: the events after that generation are learned again from the log; false:"
                    " learning resumes at the present positions, and the events in between stay"
                    " unlearned"
                ),
            },
        }
    ),
    "RolledBack": shape(
        {
            "generation": COUNT | {"description": "The newest generation, made by the rollback"},
            "state_of": COUNT | {"description": "The generation whose state it has"},
            "was": COUNT | {"description": "The newest generation before the rollback"},
        }
    ),
    "Froze": shape({"frozen": _FREEZE}),
    "Unfroze": shape({"was_frozen": {"anyOf": [_FREEZE, {"type": "null"}]}}),
    "Checkpoints": shape(
        {
            "checkpoints": {
                "type": "array",
                "items": {"anyOf": [_CHECKPOINT, shape({"broken": TEXT})]},
            }
        }
    ),
}
