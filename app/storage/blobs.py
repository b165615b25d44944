"""Immutable files by content hash on a local disk, written so that a crash leaves the old state or the new.

Order of a write: a temporary file on the same file system, its bytes, fsync, rename to the hash,
fsync of the folder. Only then may a database row name it. Who needs a blob is written in the
table `blob_owners`, in the transaction of the owning row; what nobody owns is deleted by `sweep`
after a grace period, so a file that is about to be owned is never taken away.
"""

import hashlib
import math
import os
import tempfile
import time
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

BLOCK_BYTES = 8 << 20


class StagedFile:
    """A file being written. Leaving the `with` block without a commit removes it."""

    def __init__(self, store: "BlobStore") -> None:
        self._store = store
        handle, name = tempfile.mkstemp(dir=store.staging, prefix="blob-")
        self.path = Path(name)
        self._file = os.fdopen(handle, "wb")

    def flush(self) -> None:
        self._file.flush()

    def discard(self) -> None:
        self._file.close()
        self.path.unlink(missing_ok=True)

    def _commit_as(self, sha256: str) -> str:
        """Make the bytes durable under their hash and return it."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        final = self._store.path(sha256)
        try:
            os.utime(final)  # already there: its grace period starts anew, a new owner is on its way
            self.path.unlink()
        except FileNotFoundError:
            _make_durable_folder(final.parent)
            os.replace(self.path, final)
        fsync_folder(final.parent)
        return sha256

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()


class StagedBlob(StagedFile):
    """Bytes that are hashed and counted while they are written."""

    def __init__(self, store: "BlobStore") -> None:
        super().__init__(store)
        self._hash = hashlib.sha256()
        self.size = 0

    def write(self, chunk: bytes | bytearray | memoryview) -> int:
        self._hash.update(chunk)
        self._file.write(chunk)
        self.size += len(chunk)
        return len(chunk)

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def commit(self) -> str:
        return self._commit_as(self.sha256)


class StagedArray(StagedFile):
    """A `.npy` file that grows by rows, which other processes can map without a copy once it is committed.

    Its header tells the number of rows, so it is written last and the hash taken then, by one more read.
    """

    def __init__(self, store: "BlobStore", dtype: np.dtype[Any], row_shape: tuple[int, ...]) -> None:
        if dtype.hasobject:
            raise ValueError("Object arrays cannot be stored.")
        super().__init__(store)
        self._dtype = dtype
        self._row_shape = row_shape
        self._row_bytes = dtype.itemsize * math.prod(row_shape)
        self.n_rows = 0
        self._write_header()
        self._header_bytes = self._file.tell()

    @property
    def n_bytes(self) -> int:
        return self.n_rows * self._row_bytes

    def append(self, rows: np.ndarray[Any, Any]) -> None:
        if rows.dtype != self._dtype or rows.shape[1:] != self._row_shape:
            raise ValueError(f"{rows.dtype} rows of shape {rows.shape[1:]} do not fit {self._dtype} {self._row_shape}.")
        self._file.write(np.ascontiguousarray(rows).data)
        self.n_rows += len(rows)

    def blocks(self) -> Iterator[np.ndarray[Any, Any]]:
        """The rows so far, a bounded number at a time."""
        self._file.flush()
        step = max(1, BLOCK_BYTES // max(1, self._row_bytes))
        for first in range(0, self.n_rows, step):
            n_rows = min(step, self.n_rows - first)
            offset = self._header_bytes + first * self._row_bytes
            flat = np.fromfile(self.path, self._dtype, n_rows * math.prod(self._row_shape), offset=offset)
            yield flat.reshape(n_rows, *self._row_shape)

    def commit(self) -> str:
        self._file.seek(0)
        self._write_header()
        assert self._file.tell() == self._header_bytes, "numpy leaves room for the row count to grow"
        self._file.flush()
        if self.n_bytes < BLOCK_BYTES:
            return self._commit_as(hash_file(self.path))
        with ThreadPoolExecutor(1) as beside:  # the disk takes as long as the hash
            synced = beside.submit(os.fsync, self._file.fileno())
            sha256 = hash_file(self.path)
            synced.result()
        return self._commit_as(sha256)

    def _write_header(self) -> None:
        shape = (self.n_rows, *self._row_shape)
        header = {"descr": np.lib.format.dtype_to_descr(self._dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, header)


class BlobStore:
    """A folder of blobs: `blobs/ab/cdef…`, and `staging/` for files that are not yet anything."""

    def __init__(self, root: Path) -> None:
        self.root = root / "blobs"
        self.staging = root / "staging"
        _make_durable_folder(self.root)
        _make_durable_folder(self.staging)

    def stage(self) -> StagedBlob:
        return StagedBlob(self)

    def stage_array(self, dtype: np.dtype[Any], row_shape: tuple[int, ...]) -> StagedArray:
        return StagedArray(self, dtype, row_shape)

    def put(self, content: bytes) -> str:
        with self.stage() as staged:
            staged.write(content)
            return staged.commit()

    def adopt(self, file: Path, sha256: str) -> None:
        """Make a file of this file system, whose hash is known, durable under it; its old name stays.

        A second name instead of a rename: somebody may be reading the file under its old one.
        """
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
        final = self.path(sha256)
        _make_durable_folder(final.parent)
        with suppress(FileExistsError):
            os.link(file, final)
        os.utime(final)  # its grace period starts now, however old the bytes are
        fsync_folder(final.parent)

    def remove(self, sha256: str) -> int:
        """Delete a blob that nobody owns; returns the bytes freed."""
        try:
            size = self.size(sha256)
            self.path(sha256).unlink()
        except FileNotFoundError:
            return 0
        return size

    def put_array(self, array: np.ndarray[Any, Any]) -> str:
        with self.stage_array(array.dtype, array.shape[1:]) as staged:
            staged.append(array)
            return staged.commit()

    def map_array(self, sha256: str) -> np.ndarray[Any, Any]:
        mapped: np.ndarray[Any, Any] = np.load(self.path(sha256), mmap_mode="r", allow_pickle=False)
        return mapped

    def load_array(self, sha256: str) -> np.ndarray[Any, Any]:
        """A small array in memory: each that is mapped holds a file open."""
        loaded: np.ndarray[Any, Any] = np.load(self.path(sha256), allow_pickle=False)
        return loaded

    def path(self, sha256: str) -> Path:
        return self.root / sha256[:2] / sha256[2:]

    def size(self, sha256: str) -> int:
        return self.path(sha256).stat().st_size

    def is_intact(self, sha256: str) -> bool:
        """Whether the file is there and its bytes still have the hash that it is named by."""
        try:
            return hash_file(self.path(sha256)) == sha256
        except FileNotFoundError:
            return False

    def __iter__(self) -> Iterator[str]:
        for file in sorted(self.root.glob("??/*")):
            yield file.parent.name + file.name

    def check_writable(self) -> None:
        """Raise OSError if a blob could not be written now."""
        with tempfile.TemporaryFile(dir=self.staging) as file:  # without a name: nobody takes it for an upload
            file.write(b"writable")
            file.flush()

    def sweep(self, owned: Collection[str], grace_seconds: float) -> int:
        """Delete what nobody owns and has not been touched for the grace period; returns the bytes freed."""
        freed = 0
        stale = [self.path(sha256) for sha256 in self if sha256 not in owned] + list(self.staging.iterdir())
        for file in stale:
            try:
                status = file.stat()
                if time.time() - status.st_mtime >= grace_seconds:
                    file.unlink()
                    freed += status.st_size
            except FileNotFoundError:
                continue  # another process swept or committed it
        return freed


def hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _make_durable_folder(folder: Path) -> None:
    missing = [folder, *folder.parents]
    missing = missing[: next((i for i, parent in enumerate(missing) if parent.exists()), len(missing))]
    folder.mkdir(parents=True, exist_ok=True)
    for created in missing:
        fsync_folder(created.parent)


def fsync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
