"""The Open Inference Protocol, version 2, under `/v2`: KServe's and Triton's clients can ask this model too.

Named, sparse features become tensors in one of two ways: `features`, numbers in the order of the declared columns, or
`instances`, each element of which is the JSON that `/predict` takes: for events with trees the only one. The version is
the generation that answers.
"""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from learners.batch import Batch
from service.answers import Prediction, Served
from service.api import tensors
from service.api.aside import worked
from service.api.context import Context
from service.api.predictions import accepted
from service.api.problems import Problem, body_of, json_reply
from service.api.tensors import JSON_LENGTH, Asked, Output, malformed
from service.events import batch
from service.reasons import Reject

ONE = ("label", "score", "probability")


async def server(context: Context, request: Request) -> Response:
    """What this server is, and which extensions of the protocol it knows."""
    del context, request
    return json_reply({"name": "onepass", "version": version("onepass"), "extensions": ["binary_tensor_data"]})


async def live(context: Context, request: Request) -> Response:
    """The process answers."""
    del context, request
    return json_reply({"live": True})


async def ready(context: Context, request: Request) -> Response:
    """Predictions are served."""
    del request
    _check_ready(context)
    return json_reply({"ready": True})


async def model(context: Context, request: Request) -> Response:
    """Names, datatypes and shapes of what goes in and comes out; −1 is any number of rows."""
    served = _known(context, request)
    columns = _columns(context)
    inputs = [_described("instances", "BYTES", -1)]
    if columns:
        inputs.insert(0, _described("features", "FP64", -1, columns))
    outputs = [_described(name, "BYTES" if name == "label" else "FP64", -1) for name in ONE]
    if context.settings.label.classes == "grow":
        outputs.append(_described("scores", "FP64", -1, -1))
    named = {"name": context.settings.name, "versions": [str(served.generation)], "platform": "onepass"}
    return json_reply(named | {"inputs": inputs, "outputs": outputs})


async def model_ready(context: Context, request: Request) -> Response:
    """Predictions of this model, and of this version, are served."""
    _known(context, request)
    _check_ready(context)
    return json_reply({"name": context.settings.name, "ready": True})


async def infer(context: Context, request: Request) -> Response:
    """Predictions of the rows of a tensor."""
    _check_name(context, request)

    def work(body: bytes) -> Response:
        asked, raw = tensors.read(body, request.headers.get(JSON_LENGTH))
        _check_outputs(context, asked)
        served, answers = context.model.predict(_rows(context, asked, raw))
        _check_version(served, request)
        told, tail = tensors.write(_chosen(_outputs(answers), asked), asked)
        document: dict[str, Any] = {"model_name": context.settings.name, "model_version": str(served.generation)}
        head = msgspec.json.encode(document | ({} if asked.id is None else {"id": asked.id}) | {"outputs": told})
        if tail is None:
            return Response(head, media_type="application/json")
        return Response(head + tail, headers={JSON_LENGTH: str(len(head))}, media_type="application/octet-stream")

    return await worked(context, request, await body_of(request), work)


def _columns(context: Context) -> int:
    """Those of the input `features`, which a tree has no place in."""
    return 0 if context.settings.features.tree else len(context.settings.features.columns)


def _described(name: str, datatype: str, *shape: int) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": list(shape)}


def _check_ready(context: Context) -> None:
    if not context.health.ready:
        raise Problem(503, "not_ready", context.health.trouble or "the model is not ready yet")


def _check_name(context: Context, request: Request) -> None:
    if request.path_params["name"] != context.settings.name:
        raise Problem(404, "not_found", "no such model")


def _check_version(served: Served, request: Request) -> None:
    if request.path_params.get("version", str(served.generation)) != str(served.generation):
        raise Problem(404, "not_found", f"no such version; {served.generation} is served")


def _known(context: Context, request: Request) -> Served:
    _check_name(context, request)
    served = context.model.served()
    _check_version(served, request)
    return served


def _check_outputs(context: Context, asked: Asked) -> None:
    known = {*ONE, "scores"} if context.settings.label.classes == "grow" else {*ONE}
    for wanted in asked.outputs or ():
        if wanted.name not in known:
            raise malformed(f"the outputs are {', '.join(sorted(known))}")
        if "classification" in wanted.parameters:
            raise malformed("classification is not an extension of this server")


def _rows(context: Context, asked: Asked, raw: dict[str, bytes]) -> Batch:
    """The rows of the one input, through the decoder that the log's events go through."""
    columns, most = _columns(context), context.settings.api.max_batch
    match [tensor.name for tensor in asked.inputs]:
        case ["features"] if columns:
            table = tensors.numbers(asked.inputs[0], raw.get("features"), columns, most)
            return accepted(context.decoder.tables.batch(table))
        case ["instances"]:
            elements = tensors.texts(asked.inputs[0], raw.get("instances"), most)
            rows = [context.decoder.instance(element) for element in elements]
            return batch([accepted(row, place) for place, row in enumerate(rows)])
        case _:
            where = "where columns are declared and events have no trees"
            raise malformed(f"there is one input, of the name features ({where}) or instances")


def _outputs(answers: Sequence[Prediction | str]) -> list[Output]:
    """What is there for every row; the protocol has no word for a value that is absent."""
    rows: list[Prediction] = []
    for place, answer in enumerate(answers):
        if isinstance(answer, str):
            raise Problem(422, answer, Reject(answer, place).message)
        rows.append(answer)
    outputs = []
    if all(row.label is not None for row in rows):
        outputs.append(Output("label", [[str(row.label)] for row in rows]))
    if len(scores := [[row.score] for row in rows if row.score is not None]) == len(rows):
        outputs.append(Output("score", scores))
    if len(chances := [[row.probability] for row in rows if row.probability is not None]) == len(rows):
        outputs.append(Output("probability", chances))
    by_class = [row.scores for row in rows if row.scores is not None]
    if by_class and len(by_class) == len(rows) and all(row.keys() == by_class[0].keys() for row in by_class):
        outputs.append(Output("scores", [list(row.values()) for row in by_class], list(by_class[0])))
    return outputs


def _chosen(outputs: list[Output], asked: Asked) -> list[Output]:
    """Those that were asked for, in that order; without a word, all."""
    if not asked.outputs:
        return outputs
    there = {output.name: output for output in outputs}
    return [there[name] for name in dict.fromkeys(wanted.name for wanted in asked.outputs) if name in there]
