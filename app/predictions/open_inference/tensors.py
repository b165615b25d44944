"""Parses and writes the tensors of the protocol: JSON, or binary data after the JSON (binary tensor extension).

A body is a JSON document and, after its `Inference-Header-Content-Length` bytes, the data of the inputs with a
`binary_data_size`, one after another. Numbers are little-endian and not copied. An element of BYTES is its length in 4
bytes, followed by its bytes.
"""

import math
import struct
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import msgspec
import numpy as np

from app.errors import Unparsable, invalid_field
from app.predictions.json_rows import check_values, decoded
from app.predictions.model_features import Features
from app.tabular.array_shapes import is_possible
from app.tabular.types import Array

DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype("?"),
    "UINT8": np.dtype("<u1"),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype("<i1"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
}
# By numpy's kind. null is a missing value, which numpy converts to NaN.
LISTS: dict[str, Any] = {"b": list[bool], "u": list[int], "i": list[int], "f": list[float | None]}
MAX_ELEMENTS = 1 << 31
"""Maximum elements of a tensor. Larger: a header can declare more than the body can contain. Set by hand."""
MAX_LENGTH_DIGITS = 20
"""Maximum digits of a length header: a 64-bit integer has at most 20."""
LENGTH = struct.Struct("<I")

Parameters = dict[str, Any]


class InputTensor(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    shape: list[int]
    datatype: str
    parameters: Parameters = {}
    data: list[Any] | None = None


class WantedTensor(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    parameters: Parameters = {}


class InferBody(msgspec.Struct, forbid_unknown_fields=True):
    inputs: list[InputTensor]
    outputs: list[WantedTensor] | None = None
    id: str | None = None
    parameters: Parameters = {}


class Tensor(NamedTuple):
    """Values of one type and shape: an array, or texts in row order."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    values: Array | list[str]


class InferRequest(NamedTuple):
    inputs: list[Tensor]
    outputs: list[WantedTensor] | None
    id: str | None
    binary_output: bool


_decode = msgspec.json.Decoder(InferBody).decode
_encode = msgspec.json.Encoder().encode


def read_request(body: bytes, header_length: str | None, features: Features) -> InferRequest:
    """Parse a body. Raises Unparsable if it is not such a body, and Invalid for wrong tensors."""
    json_bytes = _json_length(body, header_length)
    document = body[:json_bytes] if json_bytes < len(body) else body
    check_values(document, features)
    request: InferBody = decoded(_decode, document)
    inputs, offset = [], json_bytes
    for number, described in enumerate(request.inputs):
        place = f"inputs[{number}]"
        size = described.parameters.get("binary_data_size")
        if size is None:
            inputs.append(_from_json(described, place))
            continue
        if type(size) is not int or size < 0 or offset + size > len(body) or described.data is not None:
            raise invalid_field(
                f"{place}.parameters.binary_data_size",
                "wrong_size",
                f"must be an integer from 0 to {len(body) - offset}, the bytes left in the body; omit `data`",
            )
        inputs.append(_from_bytes(described, place, body, offset, size))
        offset += size
    if offset != len(body):
        raise invalid_field("inputs", "wrong_size", f"{len(body) - offset} bytes of the body belong to no input")
    return InferRequest(inputs, request.outputs, request.id, request.parameters.get("binary_data_output") is True)


def write_response(document: dict[str, Any], outputs: Sequence[tuple[Tensor, bool]]) -> tuple[bytes, int | None]:
    """Return (body, length of its JSON part if binary data follows). Each output has a flag: binary or not."""
    described, raw = [], []
    for tensor, is_binary in outputs:
        entry: dict[str, Any] = {"name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.shape)}
        if is_binary:
            raw.append(_to_bytes(tensor))
            entry["parameters"] = {"binary_data_size": len(raw[-1])}
        else:
            values = tensor.values
            entry["data"] = values if isinstance(values, list) else values.ravel().tolist()
        described.append(entry)
    text: bytes = _encode({**document, "outputs": described})
    return (b"".join([text, *raw]), len(text)) if raw else (text, None)


def _json_length(body: bytes, header_length: str | None) -> int:
    if header_length is None:
        return len(body)
    is_short = header_length.isascii() and header_length.isdigit() and len(header_length) <= MAX_LENGTH_DIGITS
    if not is_short or int(header_length) > len(body):
        raise Unparsable("Inference-Header-Content-Length must be at most the length of the body.")
    return int(header_length)


def _count(described: InputTensor, place: str) -> int:
    if not is_possible(described.shape) or math.prod(described.shape) > MAX_ELEMENTS:
        raise invalid_field(
            f"{place}.shape", "wrong_shape", "must have sizes of at least 0, and at most 2^31 elements in total"
        )
    if described.datatype not in DTYPES and described.datatype != "BYTES":
        known = ", ".join([*DTYPES, "BYTES"])
        raise invalid_field(f"{place}.datatype", "unknown_datatype", f"must be one of {known}")
    return math.prod(described.shape)


def _from_json(described: InputTensor, place: str) -> Tensor:
    count = _count(described, place)
    if described.data is None:
        raise invalid_field(f"{place}.data", "missing_data", "an input needs data or a binary_data_size")
    flat = _flattened(described.data, described.shape, f"{place}.data")
    if len(flat) != count:
        detail = f"has {len(flat)} elements; the shape has {count}"
        raise invalid_field(f"{place}.data", "wrong_size", detail)
    shape = tuple(described.shape)
    dtype = DTYPES.get(described.datatype)
    try:
        if dtype is None:
            return Tensor(described.name, "BYTES", shape, msgspec.convert(flat, list[str]))
        with np.errstate(over="ignore"):  # values beyond a narrow type become infinite, and are refused later
            values = np.array(msgspec.convert(flat, LISTS[dtype.kind]), dtype=dtype)
    except (msgspec.ValidationError, OverflowError):
        detail = f"must contain elements of type {described.datatype}"
        raise invalid_field(f"{place}.data", "wrong_type", detail) from None
    return Tensor(described.name, described.datatype, shape, values.reshape(shape))


def _flattened(data: list[Any], shape: list[int], field: str) -> list[Any]:
    """Return the elements in row order. They can be flat, or nested by the shape."""
    if not data or type(data[0]) is not list:
        return data
    for size in shape[1:]:
        if any(type(part) is not list or len(part) != size for part in data):
            raise invalid_field(field, "wrong_shape", "must be flat, or nested by the shape")
        data = list(chain.from_iterable(data))
    return data


def _from_bytes(described: InputTensor, place: str, body: bytes, offset: int, size: int) -> Tensor:
    count = _count(described, place)
    shape = tuple(described.shape)
    dtype = DTYPES.get(described.datatype)
    if dtype is None:
        return Tensor(described.name, "BYTES", shape, _texts(body[offset : offset + size], count, place))
    if count * dtype.itemsize != size:
        detail = f"the shape needs {count * dtype.itemsize} bytes, and binary_data_size is {size}"
        raise invalid_field(f"{place}.parameters.binary_data_size", "wrong_size", detail)
    values = np.frombuffer(body, dtype=dtype, count=count, offset=offset)
    return Tensor(described.name, described.datatype, shape, values.reshape(shape))


def _texts(raw: bytes, count: int, place: str) -> list[str]:
    texts, offset = [], 0
    try:
        while offset < len(raw):
            (length,) = LENGTH.unpack_from(raw, offset)
            start, offset = offset + LENGTH.size, offset + LENGTH.size + length
            if offset > len(raw):
                raise struct.error
            texts.append(raw[start:offset].decode())
    except (struct.error, UnicodeDecodeError):
        raise invalid_field(place, "wrong_bytes", "must be a sequence of 4-byte lengths and UTF-8 texts") from None
    if len(texts) != count:
        raise invalid_field(place, "wrong_size", f"has {len(texts)} elements; the shape has {count}")
    return texts


def _to_bytes(tensor: Tensor) -> bytes:
    if isinstance(tensor.values, list):
        encoded = (text.encode() for text in tensor.values)
        return b"".join(LENGTH.pack(len(one)) + one for one in encoded)
    return np.ascontiguousarray(tensor.values, dtype=DTYPES[tensor.datatype]).tobytes()
