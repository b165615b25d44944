"""Reads the arrays of an npz archive as streams of rows.

The header of an array must agree with the size of its archive member, and the declared sizes must be within the limit.
No object is unpickled.
"""

import lzma
import math
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from app.datasets.formats.compressed import Ceiling, is_of_the_disk
from app.datasets.formats.table import FileError, InvalidFile, excerpt, plural
from app.tabular.types import Array

__all__ = ["Member", "open_members", "refuse"]

COPY_BYTES = 1 << 20
"""Bytes per read while an array in Fortran order is copied. Larger: fewer calls, more memory. Set by hand; no
measurement is recorded."""
MAX_HEADER_BYTES = 10_000
"""Maximum bytes of an .npy header: the limit of numpy."""
DAMAGES = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    lzma.LZMAError,
    UnicodeDecodeError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    OSError,
)


def refuse(code: str, detail: str) -> InvalidFile:
    return InvalidFile([FileError(None, None, code, detail)])


class Member:
    """An array that is read from its first row to its last."""

    def __init__(self, name: str, stream: IO[bytes], n_bytes: int) -> None:
        self.name = name
        self._stream = stream
        self.shape, self.is_fortran, self.dtype = _read_header(stream, name)
        said, held = math.prod(self.shape) * self.dtype.itemsize, n_bytes - stream.tell()
        if said != held:
            detail = f"The header of the array {excerpt(name)} declares {said} bytes; it has {held}."
            raise refuse("wrong_size", detail)
        self._mapped: Array | None = None
        self._next_row = 0

    @property
    def n_rows(self) -> int:
        return self.shape[0]

    @property
    def row_bytes(self) -> int:
        return self.dtype.itemsize * math.prod(self.shape[1:])

    def check(self, n_dimensions: int, kinds: str, wanted: str) -> None:
        """Raise InvalidFile if the array has another number of dimensions, or a dtype whose `kind` is not in
        `kinds`."""
        if len(self.shape) != n_dimensions:
            raise refuse(
                "wrong_shape", f"The array {excerpt(self.name)} must have {plural(n_dimensions, 'dimension')}."
            )
        is_long = self.dtype.kind == "f" and self.dtype.itemsize > 8
        if self.dtype.kind not in kinds or is_long:
            detail = f"The array {excerpt(self.name)} has the type {excerpt(str(self.dtype))}; {wanted} are needed."
            raise refuse("unsupported_type", detail)

    def read(self, n_rows: int) -> Array:
        """Read the next rows in the byte order of this machine."""
        first, self._next_row = self._next_row, self._next_row + n_rows
        if self._mapped is not None:
            rows = np.ascontiguousarray(self._mapped[first : self._next_row])
        else:
            raw = self._stream.read(n_rows * self.row_bytes)
            if len(raw) != n_rows * self.row_bytes:
                raise EOFError
            rows = np.frombuffer(raw, dtype=self.dtype).reshape(n_rows, *self.shape[1:])
        return rows.astype(self.dtype.newbyteorder("="), copy=False)

    def lay_out(self, file: IO[bytes]) -> None:
        """Copy an array in Fortran order to a file in C order, so that its rows can be read one after another."""
        while block := self._stream.read(COPY_BYTES):
            file.write(block)
        file.flush()
        self._mapped = np.memmap(file, dtype=self.dtype, mode="r", shape=self.shape, order="F")


@contextmanager
def open_members(
    path: Path, ignore: frozenset[str], ceiling: Ceiling, check_names: Callable[[set[str]], None]
) -> Iterator[dict[str, Member]]:
    """Open the arrays of an archive by name, except the ignored ones. Names are checked before any is opened."""
    with ExitStack() as open_files:
        try:
            archive = open_files.enter_context(zipfile.ZipFile(path))
            ceiling.check(sum(info.file_size for info in archive.infolist()), path.stat().st_size)
            infos: dict[str, zipfile.ZipInfo] = {}
            for info in archive.infolist():
                name = info.filename.removesuffix(".npy")
                if name in infos:
                    raise refuse("duplicate_name", f"The archive has two arrays named {excerpt(name)}; rename one.")
                if name not in ignore:
                    infos[name] = info
            check_names(set(infos))
            members: dict[str, Member] = {}
            for name, info in infos.items():
                stream = open_files.enter_context(archive.open(info))
                members[name] = member = Member(name, stream, info.file_size)
                if member.is_fortran and len(member.shape) > 1:
                    member.lay_out(open_files.enter_context(tempfile.TemporaryFile(dir=ceiling.scratch)))
            yield members
        except DAMAGES as error:
            if is_of_the_disk(error):
                raise
            raise refuse(
                "unreadable_file", "The file is not a complete and valid npz archive; write it again."
            ) from None


def _read_header(stream: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    try:
        version = np.lib.format.read_magic(stream)
        shape, is_fortran, dtype = readers[version](stream, max_header_size=MAX_HEADER_BYTES)
    except (ValueError, KeyError):
        raise refuse("bad_header", f"The array {excerpt(name)} has no valid .npy header; write it again.") from None
    if dtype.hasobject or dtype.names is not None or dtype.itemsize == 0:
        raise refuse(
            "unsupported_type", f"The array {excerpt(name)} contains Python objects or records; convert it to numbers."
        )
    if any(length < 0 for length in shape):
        raise refuse("bad_header", f"The array {excerpt(name)} has a negative length; write it again.")
    return shape, is_fortran, dtype
