"""safetensors: the arrays in float64, and the description as JSON in the metadata."""

from typing import Any

import msgspec
import numpy as np
import safetensors
from safetensors.numpy import save

from app.errors import Unparsable, invalid_field
from app.models.exports.export_format import ExportFormat
from app.models.exports.probe import Probe, linear_scores
from app.models.exports.subject import KEY, Subject, describe
from app.models.exports.writers.json_document import Description, decode, header_of
from app.models.model_parts import Parts
from app.tabular.array_shapes import is_possible
from app.tabular.types import Array

# Types that are read. Narrower floats are converted to float64 without loss; the integers are for preprocessing.
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "U8": "|u1"}
LENGTH_BYTES = 8
"""Size in bytes of the number at the start of a file, which is the length of the header. Defined by the format."""


def write(subject: Subject, difference: float | None) -> bytes:
    description = msgspec.json.encode(describe(subject, difference)).decode()
    tensors = {name: np.ascontiguousarray(array) for name, array in subject.arrays.items()}
    return save(tensors, metadata={KEY: description})


def scores(subject: Subject, content: bytes, probe: Probe) -> Array:
    return linear_scores(read(content).arrays, probe.features)


def read(content: bytes) -> Parts:
    try:
        tensors = safetensors.deserialize(content)  # type: ignore[no-untyped-call]
    except (safetensors.SafetensorError, MemoryError) as error:
        raise Unparsable("The body is not a valid safetensors file.") from error
    arrays = {name: _array(name[:64], tensor) for name, tensor in tensors}
    if "coef" not in arrays or not arrays["coef"].ndim:
        raise invalid_field("coef", "missing", "the file has no tensor of this name; add one")
    said = decode(_description(content), Description, KEY)
    return Parts(header_of(said, arrays["coef"].shape[-1]), arrays)


def _description(content: bytes) -> bytes:
    """Read the metadata. The library does not return it for a file in memory, but has validated the header."""
    end = LENGTH_BYTES + int.from_bytes(content[:LENGTH_BYTES], "little")
    header = decode(content[LENGTH_BYTES:end], dict[str, Any])
    text = header.get("__metadata__", {}).get(KEY)
    if text is None:
        raise invalid_field(
            KEY, "missing", 'the metadata must contain it, for example {"task": "binary", "classes": [0, 1]}'
        )
    return str(text).encode()


def _array(name: str, tensor: dict[str, Any]) -> Array:
    if tensor["dtype"] not in DTYPES:
        raise invalid_field(name, "wrong_type", f"has type {tensor['dtype']}; supported are {', '.join(DTYPES)}")
    if not is_possible(tensor["shape"]):
        raise invalid_field(name, "wrong_shape", "has a shape that no array can have")
    array = np.frombuffer(tensor["data"], dtype=DTYPES[tensor["dtype"]]).reshape(tensor["shape"])
    return array.astype(np.float64) if array.dtype.kind == "f" else array


SAFETENSORS = ExportFormat(
    name="safetensors",
    media_type="application/x-safetensors",
    suffix="safetensors",
    write=write,
    scores=scores,
    keeps_sets=True,
    read=read,
)
