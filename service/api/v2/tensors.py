"""Read tensors of the Open Inference Protocol as rows, and write predictions as tensors.

https://kserve.github.io/website/docs/concepts/architecture/data-plane/v2-protocol

A tensor is JSON or raw bytes. For bytes see Triton's "binary tensor data" extension: a header gives
the length of the JSON, and the tensors follow it, little-endian, in the order in which the JSON
names them.
"""

import struct
from itertools import chain
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from learners.batch import Array
from service.api.responses import ApiError

NUMBERS: dict[str, str] = {"FP64": "<f8", "FP32": "<f4", "INT64": "<i8", "INT32": "<i4"}
"""Supported datatypes of numbers, with numpy's names for them."""

JSON_LENGTH = "Inference-Header-Content-Length"

Parameters = dict[str, Any]


class Tensor(msgspec.Struct, forbid_unknown_fields=True):
    """An input of a request."""

    name: str
    shape: list[int]
    datatype: str
    parameters: Parameters = {}
    data: list[Any] | None = None


class RequestedOutput(msgspec.Struct, forbid_unknown_fields=True):
    """An output that a request asks for."""

    name: str
    parameters: Parameters = {}


class InferenceRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON of a request for inference."""

    inputs: list[Tensor]
    id: str | None = None
    parameters: Parameters = {}
    outputs: list[RequestedOutput] | None = None


class Request(NamedTuple):
    """The whole body of a request for inference."""

    asked: InferenceRequest
    raw: dict[str, bytes]
    """The bytes of each input that follows the JSON."""


class Output(NamedTuple):
    """An output of a reply."""

    name: str
    values: list[list[str]] | list[list[float]]
    """One list per row. It has one element, or one per class if there are `classes`."""
    classes: list[str] | None = None
    """The class of each element of a row."""

    @property
    def shape(self) -> list[int]:
        return [len(self.values)] if self.classes is None else [len(self.values), len(self.classes)]

    @property
    def datatype(self) -> str:
        return "BYTES" if self.name == "label" else "FP64"


_DECODER = msgspec.json.Decoder(InferenceRequest)


def read(body: bytes, json_length: str | None) -> Request:
    """Decode a request. If bytes follow its JSON, the header `json_length` has its length."""
    length = len(body)
    if json_length is not None:
        if not (
            json_length.isascii()
            and json_length.isdigit()
            and len(json_length) < 20
            and int(json_length) <= length
        ):
            raise malformed(f"the header {JSON_LENGTH} is not a length within the body")
        length = int(json_length)
    try:
        asked = _DECODER.decode(body[:length])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        part = "the body" if json_length is None else f"the body's part up to {JSON_LENGTH}"
        raise malformed(f"{part} is not a JSON object of the expected form") from None
    raw, at = {}, length
    for tensor in asked.inputs:
        size = tensor.parameters.get("binary_data_size")
        if size is None:
            continue
        if type(size) is not int or not 0 <= size <= len(body) - at or tensor.data is not None:
            raise malformed("binary_data_size of an input does not fit the body")
        raw[tensor.name] = body[at : at + size]
        at += size
    if at != len(body):
        raise malformed(
            f"the body is longer than {JSON_LENGTH} plus the binary_data_size of all inputs"
        )
    return Request(asked, raw)


def numbers(tensor: Tensor, raw: bytes | None, columns: int, most: int) -> Array:
    """Decode a tensor of numbers as a table of rows and columns."""
    if tensor.datatype not in NUMBERS:
        raise malformed(f"the input's datatype must be one of {', '.join(NUMBERS)}")
    rows = _rows(tensor, most)
    if tensor.shape != [rows, columns]:
        raise malformed(f"the input's shape must be [rows, {columns}]")
    kind = np.dtype(NUMBERS[tensor.datatype])
    if raw is not None:
        if len(raw) != rows * columns * kind.itemsize:
            raise malformed("the input's number of bytes does not fit its shape and datatype")
        array: NDArray[Any] = np.frombuffer(raw, kind)
    else:
        array = _parse_numbers(_flatten(tensor, rows, columns), kind)
    return array.reshape(rows, columns).astype(np.float64)


def texts(tensor: Tensor, raw: bytes | None, most: int) -> list[bytes]:
    """Decode the elements of a tensor of bytes."""
    rows = _rows(tensor, most)
    if tensor.datatype != "BYTES" or tensor.shape != [rows]:
        raise malformed("the input must have the datatype BYTES and the shape [rows]")
    if raw is not None:
        elements = _split_prefixed(raw)
    elif tensor.data is not None and all(type(element) is str for element in tensor.data):
        elements = [element.encode() for element in tensor.data]
    else:
        raise malformed("the input's data must be strings")
    if len(elements) != rows:
        raise malformed("the input's number of elements does not fit its shape")
    return elements


def write(
    outputs: list[Output], asked: InferenceRequest
) -> tuple[list[dict[str, Any]], bytes | None]:
    """Encode each output as JSON values, or as bytes if the request asks for bytes."""
    described: list[dict[str, Any]] = []
    raw: bytes | None = None
    all_as_bytes = _flag(asked.parameters, "binary_data_output", default=False)
    as_bytes = {
        wanted.name: _flag(wanted.parameters, "binary_data", default=all_as_bytes)
        for wanted in asked.outputs or ()
    }
    for output in outputs:
        one: dict[str, Any] = {
            "name": output.name,
            "datatype": output.datatype,
            "shape": output.shape,
        }
        parameters: Parameters = {} if output.classes is None else {"classes": output.classes}
        flat: list[Any] = list(chain.from_iterable(output.values))
        if as_bytes.get(output.name, all_as_bytes):
            piece = _encode_bytes(flat, output.datatype)
            parameters["binary_data_size"] = len(piece)
            raw = (raw or b"") + piece
        else:
            one["data"] = flat
        described.append(one | ({"parameters": parameters} if parameters else {}))
    return described, raw


def malformed(message: str) -> ApiError:
    return ApiError(422, "malformed", message)


def _flag(parameters: Parameters, name: str, *, default: bool) -> bool:
    flag = parameters.get(name, default)
    if not isinstance(flag, bool):
        raise malformed(f"{name} must be true or false")
    return flag


def _rows(tensor: Tensor, most: int) -> int:
    if not tensor.shape or tensor.shape[0] < 0:
        raise malformed("an input has no shape")
    if tensor.shape[0] > most:
        raise ApiError(422, "too_many_instances", f"an input may have at most {most} rows")
    return tensor.shape[0]


def _flatten(tensor: Tensor, rows: int, columns: int) -> list[Any]:
    """Return the elements as one list. JSON may have them as a list of rows."""
    data = tensor.data
    if data is None:
        raise malformed("an input has no data")
    if len(data) == rows and all(type(row) is list and len(row) == columns for row in data):
        data = list(chain.from_iterable(data))
    if len(data) != rows * columns:
        raise malformed("the input's number of elements does not fit its shape")
    return data


def _parse_numbers(elements: list[Any], kind: np.dtype[Any]) -> NDArray[Any]:
    real = kind.kind == "f"
    if not all(
        type(one) is int or (type(one) is float and (real or one.is_integer())) for one in elements
    ):
        raise malformed("the input's data must be numbers of its datatype")
    try:
        with np.errstate(over="ignore"):  # the decoder refuses infinite values
            return np.array(elements, kind)
    except OverflowError:
        raise ApiError(422, "range", "a number does not fit the input's datatype") from None


def _split_prefixed(raw: bytes) -> list[bytes]:
    """Split bytes into elements, each of which follows its length."""
    elements, at = [], 0
    while at < len(raw):
        end = at + 4
        if end <= len(raw):
            end += struct.unpack_from("<I", raw, at)[0]
        if end > len(raw):
            raise malformed("an element of the input is longer than the remaining bytes")
        elements.append(raw[at + 4 : end])
        at = end
    return elements


def _encode_bytes(elements: list[Any], datatype: str) -> bytes:
    if datatype != "BYTES":
        return np.array(elements, "<f8").tobytes()
    words = [element.encode() for element in elements]
    return b"".join(struct.pack("<I", len(word)) + word for word in words)
