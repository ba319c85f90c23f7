"""Answer the Open Inference Protocol, version 2, under `/v2`, for clients of KServe and Triton.

Features become tensors in one of two ways. `features` are numbers in the order of the declared
columns. Each element of `instances` is the JSON that `/predict` takes. Events with trees can only
be `instances`. The version is the generation that answers.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from learners.batch import Batch
from service.api.context import Context
from service.api.predict import require, run_or_offload
from service.api.responses import ApiError, json_reply, read_body
from service.api.v2 import tensors
from service.api.v2.tensors import JSON_LENGTH, InferenceRequest, Output, malformed
from service.features.decoder import batch
from service.features.reject import Reject
from service.model.results import ModelVersion, Prediction
from service.monitoring.metrics import VERSION

OUTPUTS = ("label", "score", "probability")
"""Outputs with one element per row."""


async def server(context: Context, request: Request) -> Response:
    """Name this server, its version and the extensions of the protocol that it supports."""
    del context, request
    return json_reply(
        {
            "name": "onepass",
            "version": VERSION,
            "extensions": ["binary_tensor_data"],
        }
    )


async def live(context: Context, request: Request) -> Response:
    """Report that the process is alive."""
    del context, request
    return json_reply({"live": True})


async def ready(context: Context, request: Request) -> Response:
    """Report whether predictions are served."""
    del request
    _check_ready(context)
    return json_reply({"ready": True})


async def model(context: Context, request: Request) -> Response:
    """List the inputs and outputs: names, datatypes and shapes; −1 is any number."""
    version = _find_version(context, request)
    columns = _columns(context)
    inputs = [_describe("instances", "BYTES", -1)]
    if columns:
        inputs.insert(0, _describe("features", "FP64", -1, columns))
    outputs = [_describe(name, "BYTES" if name == "label" else "FP64", -1) for name in OUTPUTS]
    if context.settings.label.classes == "grow":
        outputs.append(_describe("scores", "FP64", -1, -1))
    description: dict[str, Any] = {
        "name": context.settings.name,
        "versions": [str(version.generation)],
        "platform": "onepass",
    }
    return json_reply(description | {"inputs": inputs, "outputs": outputs})


async def model_ready(context: Context, request: Request) -> Response:
    """Report whether predictions of this model, and of this version, are served."""
    _find_version(context, request)
    _check_ready(context)
    return json_reply({"name": context.settings.name, "ready": True})


async def infer(context: Context, request: Request) -> Response:
    """Predict the rows of a tensor."""
    _check_name(context, request)

    def work(body: bytes) -> Response:
        asked, raw = tensors.read(body, request.headers.get(JSON_LENGTH))
        _check_outputs(context, asked)
        version, predictions = context.model.predict(_rows(context, asked, raw))
        _check_version(version, request)
        outputs, tail = tensors.write(_select_outputs(_make_outputs(predictions), asked), asked)
        document: dict[str, Any] = {
            "model_name": context.settings.name,
            "model_version": str(version.generation),
        }
        text = msgspec.json.encode(
            document | ({} if asked.id is None else {"id": asked.id}) | {"outputs": outputs}
        )
        if tail is None:
            return Response(text, media_type="application/json")
        return Response(
            text + tail,
            headers={JSON_LENGTH: str(len(text))},
            media_type="application/octet-stream",
        )

    return await run_or_offload(context, request, await read_body(request), work)


def _columns(context: Context) -> int:
    """Columns of the input `features`; 0 if there is no such input, because events have trees."""
    return 0 if context.settings.features.tree else len(context.settings.features.columns)


def _describe(name: str, datatype: str, *shape: int) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": list(shape)}


def _check_ready(context: Context) -> None:
    if not context.health.ready:
        raise ApiError(503, "not_ready", context.health.trouble or "the model is not ready yet")


def _check_name(context: Context, request: Request) -> None:
    if request.path_params["name"] != context.settings.name:
        raise ApiError(404, "not_found", "no such model")


def _check_version(version: ModelVersion, request: Request) -> None:
    if request.path_params.get("version", str(version.generation)) != str(version.generation):
        raise ApiError(404, "not_found", f"no such version; {version.generation} is served")


def _find_version(context: Context, request: Request) -> ModelVersion:
    _check_name(context, request)
    version = context.model.version()
    _check_version(version, request)
    return version


def _check_outputs(context: Context, asked: InferenceRequest) -> None:
    known = {*OUTPUTS, "scores"} if context.settings.label.classes == "grow" else {*OUTPUTS}
    for wanted in asked.outputs or ():
        if wanted.name not in known:
            raise malformed(f"unknown output; known: {', '.join(sorted(known))}")
        if "classification" in wanted.parameters:
            raise malformed("the classification extension is not supported")


def _rows(context: Context, asked: InferenceRequest, raw: dict[str, bytes]) -> Batch:
    """Decode the rows of the one input with the log's own decoder."""
    columns, most = _columns(context), context.settings.api.max_batch
    match [tensor.name for tensor in asked.inputs]:
        case ["features"] if columns:
            table = tensors.numbers(asked.inputs[0], raw.get("features"), columns, most)
            return require(context.decoder.tables.batch(table))
        case ["instances"]:
            elements = tensors.texts(asked.inputs[0], raw.get("instances"), most)
            rows = [context.decoder.instance(element) for element in elements]
            return batch([require(row, number) for number, row in enumerate(rows)])
        case _:
            where = "where columns are declared and events have no trees"
            raise malformed(f"give one input, named features ({where}) or instances")


def _make_outputs(predictions: Sequence[Prediction | str]) -> list[Output]:
    """Make the outputs that every row has: the protocol cannot say that a value is absent."""
    rows: list[Prediction] = []
    for number, prediction in enumerate(predictions):
        if isinstance(prediction, str):
            raise ApiError(422, prediction, Reject(prediction, number).message)
        rows.append(prediction)
    outputs = []
    if all(row.label is not None for row in rows):
        outputs.append(Output("label", [[str(row.label)] for row in rows]))
    if len(scores := [[row.score] for row in rows if row.score is not None]) == len(rows):
        outputs.append(Output("score", scores))
    if len(
        probabilities := [[row.probability] for row in rows if row.probability is not None]
    ) == len(rows):
        outputs.append(Output("probability", probabilities))
    by_class = [row.scores for row in rows if row.scores is not None]
    if (
        by_class
        and len(by_class) == len(rows)
        and all(row.keys() == by_class[0].keys() for row in by_class)
    ):
        outputs.append(
            Output("scores", [list(row.values()) for row in by_class], list(by_class[0]))
        )
    return outputs


def _select_outputs(outputs: list[Output], asked: InferenceRequest) -> list[Output]:
    """Select the outputs that the request names, in its order; all if it names none."""
    if not asked.outputs:
        return outputs
    by_name = {output.name: output for output in outputs}
    return [
        by_name[name]
        for name in dict.fromkeys(wanted.name for wanted in asked.outputs)
        if name in by_name
    ]
