"""Tensors of the Open Inference Protocol, as JSON or as raw bytes behind it, to rows of features and back.

https://kserve.github.io/website/docs/concepts/architecture/data-plane/v2-protocol and, for the bytes, Triton's
"binary tensor data" extension: a header tells how long the JSON is, and what follows are the tensors, little-endian,
in the order in which the JSON names them.
"""

import struct
from itertools import chain
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from learners.batch import Array
from service.api.problems import Problem

NUMBERS: dict[str, str] = {"FP64": "<f8", "FP32": "<f4", "INT64": "<i8", "INT32": "<i4"}
"""Datatypes of numbers that are understood, as numpy calls them."""

JSON_LENGTH = "Inference-Header-Content-Length"

Parameters = dict[str, Any]


class Tensor(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    shape: list[int]
    datatype: str
    parameters: Parameters = {}
    data: list[Any] | None = None


class Wanted(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    parameters: Parameters = {}


class Asked(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON of a request for inference."""

    inputs: list[Tensor]
    id: str | None = None
    parameters: Parameters = {}
    outputs: list[Wanted] | None = None


class Request(NamedTuple):
    asked: Asked
    raw: dict[str, bytes]
    """Of each input that came as bytes behind the JSON."""


class Output(NamedTuple):
    name: str
    values: list[list[str]] | list[list[float]]
    """One line per row; of one element unless `classes` tells otherwise."""
    classes: list[str] | None = None
    """What the elements of a line stand for."""

    @property
    def shape(self) -> list[int]:
        return [len(self.values)] if self.classes is None else [len(self.values), len(self.classes)]

    @property
    def datatype(self) -> str:
        return "BYTES" if self.name == "label" else "FP64"


_ASKED = msgspec.json.Decoder(Asked)


def read(body: bytes, said: str | None) -> Request:
    """A request; `said` is the header that tells the length of the JSON, if bytes follow it."""
    length = len(body)
    if said is not None:
        if not (said.isascii() and said.isdigit() and len(said) < 20 and int(said) <= length):
            raise malformed(f"the header {JSON_LENGTH} is not a length within the body")
        length = int(said)
    try:
        asked = _ASKED.decode(body[:length])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        what = "the body" if said is None else f"as much of the body as {JSON_LENGTH} tells"
        raise malformed(f"{what} is not a JSON object of the expected form") from None
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
        raise malformed(f"the body has more bytes than {JSON_LENGTH} and the inputs' binary_data_size tell")
    return Request(asked, raw)


def numbers(tensor: Tensor, raw: bytes | None, columns: int, most: int) -> Array:
    """The table that a tensor of numbers is."""
    if tensor.datatype not in NUMBERS:
        raise malformed(f"the input is of one of the datatypes {', '.join(NUMBERS)}")
    rows = _rows(tensor, most)
    if tensor.shape != [rows, columns]:
        raise malformed(f"the input has the shape [rows, {columns}]")
    kind = np.dtype(NUMBERS[tensor.datatype])
    if raw is not None:
        if len(raw) != rows * columns * kind.itemsize:
            raise malformed("the input has not as many bytes as its shape and datatype ask for")
        array: NDArray[Any] = np.frombuffer(raw, kind)
    else:
        array = _array(_flat(tensor, rows, columns), kind)
    return array.reshape(rows, columns).astype(np.float64)


def texts(tensor: Tensor, raw: bytes | None, most: int) -> list[bytes]:
    """Elements of a tensor of bytes."""
    rows = _rows(tensor, most)
    if tensor.datatype != "BYTES" or tensor.shape != [rows]:
        raise malformed("the input is of the datatype BYTES and the shape [rows]")
    if raw is not None:
        elements = _prefixed(raw)
    elif tensor.data is not None and all(type(element) is str for element in tensor.data):
        elements = [element.encode() for element in tensor.data]
    else:
        raise malformed("the input's data are strings")
    if len(elements) != rows:
        raise malformed("the input has not as many elements as its shape tells")
    return elements


def write(outputs: list[Output], asked: Asked) -> tuple[list[dict[str, Any]], bytes | None]:
    """The outputs as JSON, and the bytes of those that were asked for as bytes."""
    told: list[dict[str, Any]] = []
    raw: bytes | None = None
    everything = _flag(asked.parameters, "binary_data_output", otherwise=False)
    as_bytes = {
        wanted.name: _flag(wanted.parameters, "binary_data", otherwise=everything) for wanted in asked.outputs or ()
    }
    for output in outputs:
        one: dict[str, Any] = {"name": output.name, "datatype": output.datatype, "shape": output.shape}
        parameters: Parameters = {} if output.classes is None else {"classes": output.classes}
        flat: list[Any] = list(chain.from_iterable(output.values))
        if as_bytes.get(output.name, everything):
            piece = _as_bytes(flat, output.datatype)
            parameters["binary_data_size"] = len(piece)
            raw = (raw or b"") + piece
        else:
            one["data"] = flat
        told.append(one | ({"parameters": parameters} if parameters else {}))
    return told, raw


def malformed(message: str) -> Problem:
    return Problem(422, "malformed", message)


def _flag(parameters: Parameters, name: str, *, otherwise: bool) -> bool:
    flag = parameters.get(name, otherwise)
    if not isinstance(flag, bool):
        raise malformed(f"{name} is true or false")
    return flag


def _rows(tensor: Tensor, most: int) -> int:
    if not tensor.shape or tensor.shape[0] < 0:
        raise malformed("an input has no shape")
    if tensor.shape[0] > most:
        raise Problem(422, "too_many_instances", f"an input may have {most} rows")
    return tensor.shape[0]


def _flat(tensor: Tensor, rows: int, columns: int) -> list[Any]:
    """The elements, which JSON may have in one list or as a list of rows."""
    data = tensor.data
    if data is None:
        raise malformed("an input has no data")
    if len(data) == rows and all(type(row) is list and len(row) == columns for row in data):
        data = list(chain.from_iterable(data))
    if len(data) != rows * columns:
        raise malformed("the input has not as many elements as its shape tells")
    return data


def _array(elements: list[Any], kind: np.dtype[Any]) -> NDArray[Any]:
    real = kind.kind == "f"
    if not all(type(one) is int or (type(one) is float and (real or one.is_integer())) for one in elements):
        raise malformed("the input's data are numbers of its datatype")
    try:
        with np.errstate(over="ignore"):  # what becomes infinite is refused as any infinite value
            return np.array(elements, kind)
    except OverflowError:
        raise Problem(422, "range", "a number is beyond the input's datatype") from None


def _prefixed(raw: bytes) -> list[bytes]:
    """Elements that each come behind their length."""
    elements, at = [], 0
    while at < len(raw):
        end = at + 4
        if end <= len(raw):
            end += struct.unpack_from("<I", raw, at)[0]
        if end > len(raw):
            raise malformed("an element of the input is longer than the bytes that are there")
        elements.append(raw[at + 4 : end])
        at = end
    return elements


def _as_bytes(elements: list[Any], datatype: str) -> bytes:
    if datatype != "BYTES":
        return np.array(elements, "<f8").tobytes()
    words = [element.encode() for element in elements]
    return b"".join(struct.pack("<I", len(word)) + word for word in words)
