"""The Open Inference Protocol, asked by Triton's own client and by hand-made requests that no
client sends.
"""

import json
import struct
from functools import cache

import numpy as np
import pytest
import tritonclient.http as triton
from hypothesis import given
from hypothesis import strategies as some
from tritonclient.utils import InferenceServerException

from service.features.decoder import Decoder
from tests.examples import examples
from tests.looped import looped
from tests.service.api.api_client import CANARY, Client
from tests.service.api.serving import serve

ROWS = np.array([[5.0, 1.0], [-5.0, 0.5], [0.0, 0.0], [1e30, -2.0]])
GROW = {
    "learner": {"kind": "one_vs_rest", "max_classes": 3, "base": "pa1"},
    "label": {"classes": "grow", "max_classes": 3},
}


def three_classes():
    client = Client(**GROW)
    spec = client.context.settings
    decoder = Decoder(spec.features, spec.label, spec.limits)
    for label, amount in (("a", 1), ("b", -1), ("ü", 3)):
        client.model.learn(
            [decoder.event(json.dumps({"features": {"amount": amount}, "label": label}).encode())]
        )
    return client


@cache
def two_classes():
    return Client()


@pytest.fixture
def binary():
    return two_classes()


@pytest.fixture(scope="module", params=["binary", "several"])
def client_pair(request):
    """A model's app, and Triton's client of it."""
    client = Client() if request.param == "binary" else three_classes()
    with serve(client.app) as address, triton.InferenceServerClient(address) as remote:
        yield client, remote


def predict(client, rows):
    instances = [{"features": {"amount": float(row[0]), "age": float(row[1])}} for row in rows]
    return client.post("/predict/batch", {"instances": instances}).json()["predictions"]


def tensor(rows, kind="FP64", *, binary=True):
    made = triton.InferInput("features", list(rows.shape), kind)
    made.set_data_from_numpy(rows, binary_data=binary)
    return made


def test_a_client_can_read_readiness_and_metadata(client_pair):
    client, remote = client_pair
    several = client.context.settings.label.classes == "grow"
    assert remote.is_server_live()
    assert remote.is_server_ready()
    assert remote.is_model_ready("m")
    assert remote.is_model_ready("m", "7")
    assert not remote.is_model_ready("m", "6")
    assert not remote.is_model_ready(CANARY)
    assert remote.get_server_metadata().keys() == {"name", "version", "extensions"}
    told = remote.get_model_metadata("m", "7")
    assert told == remote.get_model_metadata("m")
    assert (told["name"], told["versions"], told["platform"]) == ("m", ["7"], "onepass")
    assert told["inputs"] == [
        {"name": "features", "datatype": "FP64", "shape": [-1, 2]},
        {"name": "instances", "datatype": "BYTES", "shape": [-1]},
    ]
    names = ["label", "score", "probability", *(["scores"] if several else [])]
    assert [output["name"] for output in told["outputs"]] == names
    for call in (
        lambda: remote.get_model_metadata("m", "8"),
        lambda: remote.get_model_metadata(CANARY),
    ):
        with pytest.raises(InferenceServerException) as refused:
            call()
        assert refused.value.status() == "404"
    client.health.ready = False
    try:
        assert remote.is_server_live()
        assert not remote.is_server_ready()
        assert not remote.is_model_ready("m")
    finally:
        client.health.ready = True


@looped("binary_in", [True, False])
@looped("binary_out", [True, False, None])
@looped("form", ["features", "instances"])
@looped("version", ["", "7"])
def test_a_client_gets_the_answers_of_predict(client_pair, binary_in, binary_out, form, version):
    client, remote = client_pair
    alone = predict(client, ROWS)
    if form == "features":
        given_input = tensor(ROWS, binary=binary_in)
    else:
        texts = [
            json.dumps({"features": {"amount": row[0], "age": row[1]}, "id": "é"})
            for row in ROWS.tolist()
        ]
        given_input = triton.InferInput("instances", [len(texts)], "BYTES")
        given_input.set_data_from_numpy(np.array(texts, object), binary_data=binary_in)
    names = ["score", "label"] + (["scores"] if "scores" in alone[0] else [])
    wanted = (
        None
        if binary_out is None
        else [triton.InferRequestedOutput(name, binary_out) for name in names]
    )
    result = remote.infer("m", [given_input], version, wanted, request_id="é 7")
    told = result.get_response()
    assert told["id"] == "é 7"
    assert (told["model_name"], told["model_version"]) == ("m", "7")
    labels = [
        label.decode() if isinstance(label, bytes) else label for label in result.as_numpy("label")
    ]
    assert labels == [row["label"] for row in alone]
    assert result.as_numpy("score").tolist() == [row["score"] for row in alone]
    if "scores" in alone[0]:
        classes = result.get_output("scores")["parameters"]["classes"]
        assert classes == ["a", "b", "ü"]
        lines = result.as_numpy("scores").tolist()
        assert [dict(zip(classes, line, strict=True)) for line in lines] == [
            row["scores"] for row in alone
        ]
    if wanted:
        assert [output["name"] for output in told["outputs"]] == names


@looped(("kind", "dtype"), [("FP32", np.float32), ("INT32", np.int32), ("INT64", np.int64)])
@looped("binary", [True, False])
def test_numbers_of_every_datatype_are_accepted(client_pair, kind, dtype, binary):
    client, remote = client_pair
    rows = (
        np.array([[3, -1], [2_000_000, 7]], dtype)
        if dtype != np.float32
        else np.array([[0.1, 1e-3]], dtype)
    )
    result = remote.infer("m", [tensor(rows, kind, binary=binary)])
    assert result.as_numpy("score").tolist() == [
        row["score"] for row in predict(client, rows.tolist())
    ]


def test_outputs_missing_for_a_row_are_left_out():
    nothing = Client(**GROW)
    body = {"inputs": [{"name": "features", "shape": [1, 2], "datatype": "FP64", "data": [1, 2]}]}
    reply = nothing.post("/v2/models/m/infer", body)
    assert reply.status_code == 200
    assert {"label", "score"}.isdisjoint(output["name"] for output in reply.json()["outputs"])


def test_empty_and_nested_inputs_are_accepted(binary):
    for shape, data in (([0, 2], []), ([2, 2], [[1, 2], [3, 4]]), ([2, 2], [1, 2, 3, 4])):
        body = {"inputs": [{"name": "features", "shape": shape, "datatype": "FP64", "data": data}]}
        reply = binary.post("/v2/models/m/infer", body)
        assert reply.status_code == 200
        assert {output["shape"][0] for output in reply.json()["outputs"]} == {shape[0]}


def given_input(**changes):
    return {
        "inputs": [
            {"name": "features", "shape": [1, 2], "datatype": "FP64", "data": [1, 2]} | changes
        ]
    }


INSTANCES = {"name": "instances", "shape": [1], "datatype": "BYTES"}
WRONG = {
    "no inputs": {"inputs": []},
    "two inputs": {"inputs": given_input()["inputs"] * 2},
    "unknown input": given_input(name=CANARY),
    "unknown field": given_input() | {CANARY: 1},
    "unknown datatype": given_input(datatype="FP16"),
    "shape": given_input(shape=[2, 1]),
    "negative shape": given_input(shape=[-1, 2]),
    "flat shape": given_input(shape=[2]),
    "no shape": given_input(shape=[]),
    "too many rows": given_input(shape=[51, 2], data=[0] * 102),
    "huge shape": given_input(shape=[1 << 62, 2]),
    "too few elements": given_input(data=[1]),
    "strings": given_input(data=["1", CANARY]),
    "booleans": given_input(data=[True, False]),
    "nulls": given_input(data=[None, 1]),
    "no data": given_input(data=None),
    "floats as integers": given_input(datatype="INT32", data=[1.5, 1]),
    "beyond the datatype": given_input(datatype="INT32", data=[1 << 40, 1]),
    "beyond float32": given_input(datatype="FP32", data=[1e39, 1]),
    "beyond a float": given_input(data=[10**400, 1]),
    "beyond the limit": given_input(data=[1e101, 1]),
    "beyond the learner": given_input(data=[1e60, 1]),
    "bytes that are not there": given_input(data=None, parameters={"binary_data_size": 16}),
    "size and data": given_input(parameters={"binary_data_size": 0}),
    "a strange size": given_input(data=None, parameters={"binary_data_size": CANARY}),
    "shared memory": given_input(data=None, parameters={"shared_memory_region": CANARY}),
    "instance not JSON": {"inputs": [INSTANCES | {"data": [CANARY]}]},
    "instance with a label": {
        "inputs": [INSTANCES | {"data": [json.dumps({"features": {}, "label": CANARY})]}]
    },
    "instance not a string": {"inputs": [INSTANCES | {"data": [{"features": {}}]}]},
    "fewer instances": {"inputs": [INSTANCES | {"shape": [2], "data": ['{"features": {}}']}]},
    "instances as numbers": {"inputs": [INSTANCES | {"datatype": "FP64", "data": [1]}]},
    "unknown output": given_input() | {"outputs": [{"name": CANARY}]},
    "classification": given_input()
    | {"outputs": [{"name": "label", "parameters": {"classification": 2}}]},
    "several classes of two": given_input() | {"outputs": [{"name": "scores"}]},
    "a list": [CANARY],
}


def check_protocol_error(reply, status):
    assert reply.status_code == status
    assert len(reply.content) <= 4096
    assert CANARY not in reply.text
    document = reply.json()
    assert document.keys() == {"error"}
    assert isinstance(document["error"], str)
    assert document["error"]


@looped("document", WRONG.values(), ids=WRONG)
def test_wrong_requests_are_refused(binary, document):
    check_protocol_error(binary.post("/v2/models/m/infer", document), 422)


@looped(
    ("method", "path", "status"),
    [
        ("GET", f"/v2/models/{CANARY}", 404),
        ("GET", f"/v2/models/m/versions/{CANARY}", 404),
        ("POST", f"/v2/models/{CANARY}/infer", 404),
        ("POST", "/v2/models/m/versions/8/infer", 404),
        ("POST", "/v2/models/m/versions/07/infer", 404),
        ("GET", f"/v2/{CANARY}", 404),
        ("POST", "/v2", 405),
    ],
)
def test_errors_have_the_form_of_the_protocol(binary, method, path, status):
    check_protocol_error(binary.ask(method, path, json.dumps(given_input()).encode()), status)
    too_large = binary.ask("POST", "/v2/models/m/infer", b"x" * 1_000_001)
    check_protocol_error(too_large, 413)


def with_bytes(tail, size, said=None, **changes):
    head = json.dumps(
        given_input(data=None, parameters={"binary_data_size": size}, **changes)
    ).encode()
    return head + tail, {"Inference-Header-Content-Length": said or str(len(head))}


@looped(
    ("body", "headers"),
    [
        with_bytes(b"\0" * 15, 16),
        with_bytes(b"\0" * 17, 16),
        with_bytes(b"\0" * 15, 15),
        with_bytes(b"", -1),
        with_bytes(b"\0" * 16, 16, said="9999"),
        with_bytes(b"\0" * 16, 16, said="-1"),
        with_bytes(b"\0" * 16, 16, said="²"),
        with_bytes(struct.pack("<dd", np.nan, 1), 16),
        with_bytes(struct.pack("<dd", np.inf, 1), 16),
        with_bytes(b"\xff\xff\xff\xff{}", 6, name="instances", datatype="BYTES", shape=[1]),
        with_bytes(b"\x02\x00", 2, name="instances", datatype="BYTES", shape=[1]),
    ],
)
def test_wrong_binary_data_is_refused(binary, body, headers):
    headers = {name: value.encode("latin-1") for name, value in headers.items()}
    check_protocol_error(binary.ask("POST", "/v2/models/m/infer", body, **headers), 422)


LENGTHS = {
    "too long": "9999",
    "no number": "x",
    "within the JSON": "20",
    "beyond the JSON": "+5",
    "none of it": "0",
}


@looped("said", LENGTHS.values(), ids=LENGTHS)
def test_a_wrong_length_of_the_json_names_its_header(binary, said):
    body, headers = with_bytes(b"\0" * 16, 16)
    right = int(headers["Inference-Header-Content-Length"])
    told = {"Inference-Header-Content-Length": str(right + 5) if said == "+5" else said}
    reply = binary.ask("POST", "/v2/models/m/infer", body, **told)
    check_protocol_error(reply, 422)
    assert "Inference-Header-Content-Length" in reply.json()["error"]
    assert (
        "Inference-Header-Content-Length"
        not in binary.ask("POST", "/v2/models/m/infer", b"x").json()["error"]
    )


@looped(("method", "what"), [("GET", ""), ("GET", "/ready"), ("POST", "/infer")])
def test_a_request_for_another_version_names_the_served_one(binary, method, what):
    reply = binary.ask(method, f"/v2/models/m/versions/8{what}", json.dumps(given_input()).encode())
    check_protocol_error(reply, 404)
    assert reply.json()["error"] == "no such version; 7 is served"


def test_a_wrong_row_is_named_by_its_place(binary):
    numbers = given_input(shape=[3, 2], data=[1, 2, 3, 4, 1e60, 6])
    texts = given_input(
        name="instances",
        datatype="BYTES",
        shape=[2],
        data=['{"features": {}}', f'{{"{CANARY}": 1}}'],
    )
    for document, place in ((numbers, 2), (texts, 1)):
        reply = binary.post("/v2/models/m/infer", document)
        check_protocol_error(reply, 422)
        assert reply.json()["error"].startswith(f"instance {place}: ")
    none_below = Client(learner="winnow", features={"columns": ["a", "b"], "bits": 0})
    reply = none_below.post("/v2/models/m/infer", given_input(shape=[2, 2], data=[1, 2, -1, 2]))
    check_protocol_error(reply, 422)
    assert reply.json()["error"] == "instance 1: the learner takes no negative values"


def test_the_document_names_the_datatypes(binary):
    told = binary.get("/openapi.json").json()["components"]["schemas"]["V2Request"]["description"]
    for datatype in ("FP64", "FP32", "INT64", "INT32", "BYTES"):
        assert datatype in told


@given(
    some.binary(max_size=60),
    some.integers(-2, 70),
    some.integers(0, 3),
    some.sampled_from(["features", "instances"]),
)
@examples(200)
def test_any_bytes_are_answered_without_a_5xx(tail, size, rows, name):
    shape, kind = ([rows, 2], "FP64") if name == "features" else ([rows], "BYTES")
    body, headers = with_bytes(tail, size, name=name, shape=shape, datatype=kind)
    reply = two_classes().ask("POST", "/v2/models/m/infer", body, **headers)
    if reply.status_code != 200:
        check_protocol_error(reply, 422)


def test_a_learner_alone_has_no_models():
    learner = Client(predicts=False)
    check_protocol_error(learner.get("/v2/models/m"), 404)
    check_protocol_error(learner.get("/v2"), 404)
