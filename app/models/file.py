"""The model file: a JSON header and raw little-endian arrays. Nothing in it is executed.

bytes 0-7    magic "HYPRPLN1"
bytes 8-15   length of the header, unsigned 64 bit little-endian
bytes 16-47  SHA-256 of all following bytes: a damaged file is never served
header       JSON, UTF-8, validated against `Header` before anything else is used
arrays       each at a multiple of 64 bytes, so that mapped arrays are aligned
"""

import hashlib
import json
import math
import mmap
import struct
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from app.errors import CorruptModel
from app.tabular.types import Array

MAGIC = b"HYPRPLN1"
PREFIX = struct.Struct("<8sQ32s")
"""Layout of the first bytes: magic, length of the header, SHA-256 of the rest."""
ALIGNMENT = 64
"""Arrays start at multiples of this many bytes, a cache line."""
MAX_HEADER_BYTES = 1 << 30
"""Maximum bytes of a header that is read. Larger: a damaged file can cost more memory. Set by hand; no measurement is
recorded."""

MEANS = "explain.means"
"""Name of the array with the mean of each feature over the training rows."""

Task = Literal["binary", "multiclass", "ordinal", "regression"]
Content = mmap.mmap | memoryview
"""The bytes of a model file: mapped, or a part of another file."""


class ArrayEntry(BaseModel):
    dtype: Literal["<f8", "<i8", "|u1"]
    shape: list[int]
    offset: int


class Header(BaseModel):
    """The metadata that a prediction needs, and a copy of the model's card."""

    model_config = ConfigDict(extra="forbid")

    format: Literal["hyperplane-model"] = "hyperplane-model"
    version: Literal[1] = 1
    task: Task
    strategy: str | None = None
    classes: list[str | int | float]
    n_features: Annotated[int, Field(ge=1)]
    feature_names: list[str] | None
    preprocess: dict[str, Any] | None = None
    """Preprocessing document; its arrays are named `preprocess.…`. None: raw columns are the features."""
    calibration: dict[str, Any] | None = None
    """Calibration document; its arrays are named `calibration.…`. None: no probabilities."""
    sets: dict[str, Any] | None = None
    """Prediction sets: `{"folds": K, "reason": …}`; their arrays are named `sets.…`. None: no fold models."""
    card: dict[str, Any]
    arrays: dict[str, ArrayEntry] = {}

    @model_validator(mode="after")
    def has_the_classes_of_its_task(self) -> Self:
        count = len(self.classes)
        fits = {
            "binary": count == 2,
            "multiclass": count >= 2,
            "ordinal": count != 1 and not any(isinstance(one, str) for one in self.classes),
            "regression": count == 0,
        }
        if not fits[self.task]:
            raise ValueError(f"a model of task {self.task} cannot have these classes")
        return self


@dataclass(frozen=True)
class ModelFile:
    """A model from disk. Its arrays are views of the mapped file."""

    header: Header
    coef: Array
    """One weight per feature; multiclass: one row per class."""
    intercept: float | Array
    thresholds: Array | None
    """A score above the first k thresholds predicts `classes[k]`. Ordinal models with ranks have them, and binary
    models with a tuned threshold; None: the threshold of a binary model is 0."""
    extra: dict[str, Array]
    """Arrays of `preprocess` and `calibration` by their full names, and the means of the features."""
    bytes: int
    content: Content | None = None
    """The whole file, for arrays that are read on demand; None: the model does not come from a file."""
    start: int = 0
    """Offset of the arrays in `content`."""

    @property
    def means(self) -> Array | None:
        """Return the mean of each feature over the training rows, in raw units; None: it is not known."""
        return self.extra.get(MEANS)

    @cached_property
    def set_arrays(self) -> dict[str, Array]:
        """Return the arrays of prediction sets by their full names. Read on demand: most predictions need none."""
        if self.content is None:
            return {}
        return _views(self.content, self.start, self.header, ("sets.",))


def encode(header: Header, arrays: dict[str, Array]) -> bytes:
    """Encode the whole file. Offsets are relative to the first aligned byte after the header."""
    entries, blocks, offset = {}, [], 0
    for name, array in arrays.items():
        dtype = {"f": "<f8", "i": "<i8", "u": "|u1"}[array.dtype.kind]
        block = np.ascontiguousarray(array, dtype=dtype).tobytes()
        entries[name] = ArrayEntry(dtype=dtype, shape=list(array.shape), offset=offset)
        blocks.append(_padded(block))
        offset += len(blocks[-1])
    described = header.model_copy(update={"arrays": entries})
    text = json.dumps(described.model_dump(), allow_nan=False, separators=(",", ":"), sort_keys=True).encode()
    body = text.ljust(_start(len(text)) - PREFIX.size, b"\0") + b"".join(blocks)
    return PREFIX.pack(MAGIC, len(text), hashlib.sha256(body).digest()) + body


def read(path: Path) -> ModelFile:
    """Map a model file. Declared sizes are checked against the size of the file first."""
    return decode(_mapped(path))


def decode(content: Content) -> ModelFile:
    """Read a model from the bytes of its file, without copying its arrays."""
    length, digest = _prefix(content)
    with memoryview(content) as whole, whole[PREFIX.size :] as body:
        if hashlib.sha256(body).digest() != digest:
            raise CorruptModel("the file is damaged: its bytes have another hash")
    header, start = _header(content, length), _start(length)
    rest: dict[str, Any] = {"bytes": len(content), "content": content, "start": start}
    extra = _views(content, start, header, ("preprocess.", "calibration.", MEANS))
    if MEANS in extra and extra[MEANS].shape != (header.n_features,):
        raise CorruptModel("the means of the features have the wrong shape")
    if header.task == "multiclass":
        k = len(header.classes)
        coef = _view(content, start, header, "coef", [k, header.n_features])
        return ModelFile(header, coef, _view(content, start, header, "intercept", [k]), None, extra, **rest)
    coef = _view(content, start, header, "coef", [header.n_features])
    intercept = _view(content, start, header, "intercept", [1])
    thresholds = None
    is_tuned = header.task == "binary" and "thresholds" in header.arrays
    if is_tuned or (header.task == "ordinal" and header.classes):
        thresholds = _view(content, start, header, "thresholds", [len(header.classes) - 1])
        if (np.diff(thresholds) < 0).any():
            raise CorruptModel("the thresholds are not in order")
    return ModelFile(header, coef, float(intercept[0]), thresholds, extra, **rest)


def read_header(path: Path) -> tuple[Header, dict[str, Array]]:
    """Read the header and the arrays of `preprocess`, without reading the weights: fast for large models."""
    content = _mapped(path)
    length, _ = _prefix(content)
    header = _header(content, length)
    return header, _views(content, _start(length), header, ("preprocess.",))


def _mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        try:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            raise CorruptModel("the file is empty") from None


def _prefix(content: Content) -> tuple[int, bytes]:
    """Check the first bytes; return (length of the header, digest)."""
    if content[: len(MAGIC)] != MAGIC or len(content) < PREFIX.size:
        raise CorruptModel("the file does not begin with the magic bytes of a model")
    _, length, digest = PREFIX.unpack_from(content)
    if length > min(MAX_HEADER_BYTES, len(content) - PREFIX.size):
        raise CorruptModel("the header is longer than the file")
    return length, digest


def _header(content: Content, length: int) -> Header:
    try:
        return Header.model_validate_json(bytes(content[PREFIX.size : PREFIX.size + length]))
    except ValidationError as error:
        raise CorruptModel(f"the header has {error.error_count()} invalid field(s)") from error


def _views(content: Content, start: int, header: Header, prefixes: tuple[str, ...]) -> dict[str, Array]:
    return {
        name: _view(content, start, header, name, entry.shape, entry.dtype)
        for name, entry in header.arrays.items()
        if name.startswith(prefixes)
    }


def _view(content: Content, start: int, header: Header, name: str, shape: list[int], dtype: str = "<f8") -> Array:
    entry = header.arrays.get(name)
    if entry is None or entry.shape != shape or entry.dtype != dtype or any(size < 0 for size in shape):
        raise CorruptModel(f"the array {name} is missing or has the wrong shape")
    count = math.prod(shape)
    first = start + entry.offset
    if entry.offset < 0 or first + np.dtype(dtype).itemsize * count > len(content):
        raise CorruptModel(f"the array {name} exceeds the file")
    view = np.frombuffer(content, dtype=dtype, count=count, offset=first)
    if not np.isfinite(view).all():
        raise CorruptModel(f"the array {name} contains a value that is not finite")
    return view.reshape(shape)


def _start(header_bytes: int) -> int:
    """Return the offset of the arrays."""
    return _aligned(PREFIX.size + header_bytes)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _padded(block: bytes) -> bytes:
    return block.ljust(_aligned(len(block)), b"\0")
