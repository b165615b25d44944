"""Rows as npy, or as npz with a dense matrix or CSR. Numbers are not copied if their type allows it.

Shapes and types in the headers are checked against the model and the size limit before any array is unpacked.
"""

import io
import math
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy_format

from app.errors import AppError, Invalid, Unparsable, invalid_field
from app.predictions.model_features import NUMBERS, Features
from app.predictions.rows import MatrixRows, Places, Rows, check_width, csr_of
from app.tabular.array_shapes import is_possible
from app.tabular.types import Array

ROWS = Places("rows")
MAX_HEADER_BYTES = 10_000
"""Maximum bytes of an .npy header, the limit of numpy."""
MAX_EXTRA_BYTES = 1000
"""Maximum bytes of an auxiliary array, such as the name of the format. Larger: a request can use more memory. Set by
hand."""
CSR_MEMBERS = {"data", "indices", "indptr", "shape"}
EXTRA_MEMBERS = {"format", "_is_array"}
"""Further arrays that scipy.sparse.save_npz writes. They are ignored."""
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Compression methods that numpy writes and zipfile unpacks in bounded steps."""
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


class Header(NamedTuple):
    """The header of an npy array. The size of its data was checked."""

    shape: tuple[int, ...]
    is_fortran: bool
    dtype: np.dtype[Any]
    offset: int
    """Offset of the numbers."""


def read_npy(body: bytes, features: Features) -> Rows:
    header = _header(io.BytesIO(body), len(body))
    check_matrix(header.shape, header.dtype, "body", features)
    return _matrix(_as_array(body, header))


def read_npz(body: bytes, features: Features) -> Rows:
    """Read a dense `X`, or CSR as `data`, `indices`, `indptr`, `shape`."""
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            return _read_archive(_Members(archive), features)
    except AppError:
        raise
    except DAMAGES:
        raise Unparsable("The body is not a valid npz archive.") from None


def check_matrix(shape: tuple[int, ...], dtype: np.dtype[Any], field: str, features: Features) -> None:
    """Raise unless an array of this shape and type has the model's features and is within the size limit."""
    if len(shape) != 2:
        raise invalid_field(field, "wrong_shape", f"must have two dimensions, rows and features; it has {len(shape)}")
    if dtype.kind not in NUMBERS or dtype.itemsize > 8:
        raise invalid_field(field, "wrong_type", "must have a numeric type of at most 64 bits")
    if shape[0]:
        check_width(shape[1], features.width, 0, ROWS)
    features.admit(shape[0], field)


class _Members:
    """The arrays of an archive by name. Headers are read at once, numbers on demand."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        if len(archive.infolist()) > len(CSR_MEMBERS | EXTRA_MEMBERS):
            raise _wrong_members()
        self._infos = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        if any(info.compress_type not in COMPRESSIONS for info in self._infos.values()):
            raise zipfile.BadZipFile("a compression that numpy does not write")
        self.headers: Mapping[str, Header] = {name: self._header(info) for name, info in self._infos.items()}

    def read(self, name: str) -> Array:
        """Read the numbers of an array: at most the checked size, because zipfile stops at the declared size."""
        raw = self._archive.read(self._infos[name])
        if len(raw) != self._infos[name].file_size:
            raise EOFError
        return _as_array(raw, self.headers[name])

    def _header(self, info: zipfile.ZipInfo) -> Header:
        with self._archive.open(info) as stream:
            return _header(stream, info.file_size)


def _read_archive(members: _Members, features: Features) -> Rows:
    headers = members.headers
    if set(headers) == {"X"}:
        check_matrix(headers["X"].shape, headers["X"].dtype, "X", features)
        return _matrix(members.read("X"))
    if set(headers) - EXTRA_MEMBERS != CSR_MEMBERS:
        raise _wrong_members()
    if "format" in headers and not _says_csr(members):
        raise invalid_field("format", "wrong_format", "sparse rows must be in CSR format; convert them with tocsr()")
    for name in CSR_MEMBERS:
        wanted, dtype = NUMBERS if name == "data" else "iu", headers[name].dtype
        if len(headers[name].shape) != 1 or dtype.kind not in wanted or dtype.itemsize > 8:
            raise invalid_field(name, "wrong_type", "must be one-dimensional and numeric (integers, except for data)")
    return _read_csr(members, features)


def _read_csr(members: _Members, features: Features) -> Rows:
    n_entries, n_indices, n_starts, n_lengths = (
        members.headers[name].shape[0] for name in ("data", "indices", "indptr", "shape")
    )
    shape = members.read("shape") if n_lengths == 2 else None
    if shape is None or shape[1] != features.width:
        raise invalid_field("shape", "wrong_width", f"must be [rows, {features.width}]: the model's features")
    n_rows = n_starts - 1
    if n_rows != shape[0] or n_rows < 0 or n_entries != n_indices:
        raise _wrong_starts()
    features.admit_sparse(n_rows, n_entries, "shape")
    starts = members.read("indptr").astype(np.int64)
    if starts[0] != 0 or starts[-1] != n_entries or (np.diff(starts) < 0).any():
        raise _wrong_starts()
    values = np.asarray(members.read("data"), dtype=np.float64)
    indices = members.read("indices").astype(np.int64)
    return MatrixRows(csr_of(values, indices, starts, features.width, ROWS), ROWS)


def _says_csr(members: _Members) -> bool:
    header = members.headers["format"]
    if math.prod(header.shape) * header.dtype.itemsize > MAX_EXTRA_BYTES:
        return False
    return members.read("format").tobytes().rstrip(b"\0").replace(b"\0", b"") == b"csr"


def _wrong_members() -> Invalid:
    return invalid_field("body", "wrong_members", "the archive must contain X, or data, indices, indptr and shape")


def _wrong_starts() -> Invalid:
    detail = "must ascend from 0 to the number of values and have one entry more than there are rows"
    return invalid_field("indptr", "wrong_starts", detail)


def _header(stream: IO[bytes], n_bytes: int) -> Header:
    """Parse the header of an npy file of the given size in bytes. Nothing is unpickled."""
    try:
        version = npy_format.read_magic(stream)
        read = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}[version]
        shape, is_fortran, dtype = read(stream, max_header_size=MAX_HEADER_BYTES)
    except Exception:  # numpy evaluates the header as a Python literal, which can fail in many ways
        raise Unparsable("The body is not a valid npy array.") from None
    if dtype.hasobject:
        raise invalid_field("body", "wrong_type", "must have a numeric type")
    if not is_possible(shape):
        raise invalid_field("body", "wrong_shape", "its header has a shape that no array can have")
    held = n_bytes - stream.tell()
    if math.prod(shape) * dtype.itemsize != held:
        detail = f"its header declares {math.prod(shape) * dtype.itemsize} bytes; the data has {held}"
        raise invalid_field("body", "wrong_size", detail)
    return Header(shape, is_fortran, dtype, stream.tell())


def _as_array(raw: bytes, header: Header) -> Array:
    """Return the array of an npy file without a copy."""
    held = len(raw) - header.offset
    values = np.frombuffer(raw, header.dtype, offset=header.offset) if held else np.empty(0, header.dtype)
    return values.reshape(header.shape, order="F" if header.is_fortran else "C")


def _matrix(array: Array) -> MatrixRows:
    return MatrixRows(np.ascontiguousarray(array, dtype=np.float64), ROWS)
