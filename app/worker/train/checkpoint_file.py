"""The checkpoint file of a job: a JSON header and raw arrays in one blob. Nothing in it is executed.

bytes 0-7    magic "HYPRCKP1"
bytes 8-15   length of the header, unsigned 64 bit little-endian
header       JSON, UTF-8, validated against `Header` before anything else is used
arrays       each at a multiple of 64 bytes

The blob is named by the SHA-256 of its bytes, which is checked when it is read. A state belongs to one solver, one
version of the code and one dataset. If any of them differs, the training starts from the beginning.
"""

import hashlib
import json
import math
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

import solvers
from app import __version__, preprocess
from app.storage import BlobStore

MAGIC = b"HYPRCKP1"
PREFIX = struct.Struct("<8sQ")
ALIGNMENT = 64
"""Arrays start at multiples of this many bytes, the size of a cache line."""

State = dict[str, Any]


class UnusableCheckpoint(Exception):
    """The training cannot continue from the checkpoint; the message says why."""


class ArrayEntry(BaseModel):
    dtype: Literal["<f8", "<f4", "<i8", "<i4", "|i1", "<u8", "<u4", "|u1", "|b1"]
    shape: list[int]
    offset: int


class Header(BaseModel):
    """State of the work, and the inputs that it belongs to."""

    model_config = ConfigDict(extra="forbid")

    format: Literal["hyperplane-checkpoint"] = "hyperplane-checkpoint"
    version: Literal[1] = 1
    kind: Literal["training", "search"] = "training"
    """training: the state of a solver. search: finished trainings of a search, in this file and in `segments`."""
    segments: list[str] = []
    """Blobs of earlier finished trainings, oldest first."""
    job_id: str
    fence: int
    data: str
    """SHA-256 of the dataset."""
    code: str
    """Version of Hyperplane, and hash of the source that a state depends on."""
    seed: int
    seconds: float
    """Seconds of the job's time limit that are used so far."""
    training: int
    """Number of the training that the state belongs to, from 0: the folds of a cross-validation, then the model."""
    folds: list[dict[str, Any]]
    """Metrics of the earlier folds."""
    progress: float
    first_gap: float | None
    curve: list[dict[str, Any]]
    arrays: dict[str, ArrayEntry] = {}
    scalars: dict[str, tuple[Literal["float", "int", "bool", "text"], Any]] = {}


def code_version() -> str:
    return f"{__version__} {_source_sha256()[:16]}"


def write(blobs: BlobStore, header: Header, state: State) -> tuple[str, int]:
    """Write the file durably; return hash and size of its blob."""
    arrays = {name: np.asarray(value, order="C") for name, value in state.items() if isinstance(value, np.ndarray)}
    entries, offset = {}, 0
    for name, array in arrays.items():
        entries[name] = {"dtype": array.dtype.newbyteorder("<").str, "shape": list(array.shape), "offset": offset}
        offset += _aligned(array.nbytes)
    scalars = {name: _packed(value) for name, value in state.items() if name not in arrays}
    described = Header.model_validate({**header.model_dump(), "arrays": entries, "scalars": scalars})
    text = json.dumps(described.model_dump(), allow_nan=False, separators=(",", ":")).encode()
    with blobs.stage() as staged:
        staged.write(PREFIX.pack(MAGIC, len(text)))
        staged.write(text)
        staged.write(bytes(_start(len(text)) - PREFIX.size - len(text)))
        for array in arrays.values():
            little = array.astype(array.dtype.newbyteorder("<"), copy=False)
            staged.write(little.reshape(-1).view(np.uint8).data)
            staged.write(bytes(_aligned(array.nbytes) - array.nbytes))
        return staged.commit(), staged.size


def read(blobs: BlobStore, sha256: str) -> tuple[Header, State]:
    """Read the file. Raises UnusableCheckpoint if it is missing, damaged or of another format."""
    if not blobs.is_intact(sha256):
        raise UnusableCheckpoint("the checkpoint is missing or damaged")
    with blobs.path(sha256).open("rb") as file:
        magic, length = PREFIX.unpack(file.read(PREFIX.size).ljust(PREFIX.size, b"\0"))
        if magic != MAGIC:
            raise UnusableCheckpoint("the checkpoint has another format")
        try:
            header = Header.model_validate_json(file.read(length))
        except ValidationError:
            raise UnusableCheckpoint("the checkpoint was written by another version") from None
    return header, dict(_unpacked(blobs.path(sha256), _start(length), header))


def _packed(value: object) -> tuple[str, Any]:
    """Encode a scalar for JSON. Floats are hexadecimal, which keeps every bit and infinity."""
    if isinstance(value, bool | np.bool_):
        return "bool", bool(value)
    if isinstance(value, int | np.integer):
        return "int", int(value)
    if isinstance(value, float | np.floating):
        return "float", float(value).hex()
    if isinstance(value, str):
        return "text", str(value)
    raise TypeError(f"a state holds arrays, numbers and text, not {type(value).__name__}")


def _unpacked(path: Path, start: int, header: Header) -> Iterator[tuple[str, Any]]:
    for name, (kind, value) in header.scalars.items():
        yield name, float.fromhex(value) if kind == "float" else value
    for name, entry in header.arrays.items():
        count = math.prod(entry.shape)
        array = np.fromfile(path, entry.dtype, count, offset=start + entry.offset)
        if array.size != count:
            raise UnusableCheckpoint("the checkpoint ends too early")
        yield name, array.reshape(entry.shape)


@cache
def _source_sha256() -> str:
    """Hash the source of the solvers and the preprocessing: a state is valid only for the code that wrote it."""
    digest = hashlib.sha256()
    for package in (solvers, preprocess):
        folder = Path(package.__path__[0])
        for file in sorted(folder.rglob("*.py")):
            digest.update(str(file.relative_to(folder)).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _start(header_bytes: int) -> int:
    """Return the offset of the arrays."""
    return _aligned(PREFIX.size + header_bytes)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
