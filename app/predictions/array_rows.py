"""Rows as arrays: npy, and npz with a dense matrix or CSR. Numbers are used where they lie, if their type allows."""

import io
import math
import struct
import zipfile
import zlib

import numpy as np
from numpy.lib import format as npy_format

from app.errors import AppError, PayloadTooLarge, Unparsable, invalid_field
from app.predictions.model_features import NUMBERS, Features
from app.predictions.rows import MatrixRows, Places, Rows, check_count, csr_of
from app.tabular.array_shapes import is_possible
from app.tabular.types import Array

ROWS = Places("rows")
MAX_HEADER_BYTES = 10_000
MAX_UNPACKED_BYTES = 256 << 20
CSR_MEMBERS = {"data", "indices", "indptr", "shape"}
EXTRA_MEMBERS = {"format", "_is_array"}  # scipy.sparse.save_npz writes them too
DAMAGES = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    OSError,
    ValueError,
)


def read_npy(body: bytes) -> Rows:
    return matrix_rows(as_array(body), "body")


def read_npz(body: bytes, features: Features) -> Rows:
    """Dense `X`, or CSR as `data`, `indices`, `indptr`, `shape`."""
    members = _members(body)
    if set(members) == {"X"}:
        return matrix_rows(members["X"], "X")
    if set(members) - EXTRA_MEMBERS != CSR_MEMBERS:
        detail = "an archive holds X, or data, indices, indptr and shape"
        raise invalid_field("body", "wrong_members", detail)
    kind = members.get("format")
    if kind is not None and kind.tobytes().rstrip(b"\0").replace(b"\0", b"") != b"csr":
        raise invalid_field("format", "wrong_format", "sparse rows must be CSR")
    for name in CSR_MEMBERS:
        wanted = NUMBERS if name == "data" else "iu"
        if members[name].ndim != 1 or members[name].dtype.kind not in wanted:
            raise invalid_field(name, "wrong_type", "must be one-dimensional and of numbers (whole ones but for data)")
    return _csr(members, features)


def matrix_rows(array: Array, field: str, places: Places = ROWS) -> MatrixRows:
    """A two-dimensional array of numbers."""
    if array.ndim != 2:
        raise invalid_field(field, "wrong_shape", f"must have two dimensions, rows and features; it has {array.ndim}")
    if array.dtype.kind not in NUMBERS or array.dtype.itemsize > 8:
        raise invalid_field(field, "wrong_type", "must be of numbers of at most 64 bits")
    check_count(len(array), field)
    return MatrixRows(np.ascontiguousarray(array, dtype=np.float64), places)


def as_array(raw: bytes) -> Array:
    """The array of an npy file, without a copy. Nothing is unpickled."""
    stream = io.BytesIO(raw)
    try:
        version = npy_format.read_magic(stream)
        read_header = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}[version]
        shape, is_fortran, dtype = read_header(stream, max_header_size=MAX_HEADER_BYTES)
    except Exception:  # the header is a Python expression that numpy evaluates as a literal: it can fail in any way
        raise Unparsable("The body is not an npy array.") from None
    if dtype.hasobject:
        raise invalid_field("body", "wrong_type", "must be of numbers")
    if not is_possible(shape):
        raise invalid_field("body", "wrong_shape", "its header says a shape that no array can have")
    held = len(raw) - stream.tell()
    if math.prod(shape) * dtype.itemsize != held:
        detail = f"its header says {math.prod(shape) * dtype.itemsize} bytes, and it has {held}"
        raise invalid_field("body", "wrong_size", detail)
    values = np.frombuffer(raw, dtype=dtype, offset=stream.tell()) if held else np.empty(0, dtype=dtype)
    return values.reshape(shape, order="F" if is_fortran else "C")


def _members(body: bytes) -> dict[str, Array]:
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            if sum(info.file_size for info in archive.infolist()) > MAX_UNPACKED_BYTES:
                raise PayloadTooLarge(f"The arrays may have {MAX_UNPACKED_BYTES} bytes when they are unpacked.")
            if len(archive.infolist()) > len(CSR_MEMBERS | EXTRA_MEMBERS):
                raise invalid_field("body", "wrong_members", "an archive holds X, or data, indices, indptr and shape")
            return {info.filename.removesuffix(".npy"): as_array(archive.read(info)) for info in archive.infolist()}
    except AppError:
        raise
    except DAMAGES:
        raise Unparsable("The body is not an npz archive.") from None


def _csr(members: dict[str, Array], features: Features) -> Rows:
    data, indices, indptr, shape = (members[name] for name in ("data", "indices", "indptr", "shape"))
    if len(shape) != 2 or shape[1] != features.width:
        raise invalid_field("shape", "wrong_width", f"must be [rows, {features.width}]: the model's features")
    starts = indptr.astype(np.int64)
    n_rows = len(starts) - 1
    is_sound = n_rows == shape[0] and n_rows >= 0 and starts[0] == 0 and starts[-1] == len(data) == len(indices)
    if not is_sound or (np.diff(starts) < 0).any():
        raise invalid_field("indptr", "wrong_starts", "must ascend from 0 to the number of values, one more than rows")
    check_count(n_rows, "shape")
    values = np.asarray(data, dtype=np.float64)
    return MatrixRows(csr_of(values, indices.astype(np.int64), starts, features.width, ROWS), ROWS)
