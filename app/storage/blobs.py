"""Immutable files on a local disk, named by the hash of their content. A crash leaves the old state or the new one.

A file is written to a temporary name on the same file system, synced with fsync and renamed to its hash, and its folder
is synced. Only then can a database row refer to the file (ownership.py, which also deletes files that no row needs).
The rename replaces an existing file of the same name. Its bytes should be equal; if it is damaged, the rename repairs
it.

After a failed fsync the kernel can drop the bytes, and a second fsync would succeed. A file whose fsync failed is
therefore never committed.
"""

import hashlib
import math
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

BLOCK_BYTES = 8 << 20
"""Bytes per read and write of a file. Larger: fewer calls, more memory. Set by hand; no measurement is recorded."""


class UntrustedBytes(OSError):
    """Raised when the fsync of a received file failed. Its bytes can be lost, and a later fsync would not report
    that."""


class StagedFile:
    """A file that is being written. Its temporary name exists until the `with` block ends, even after a commit."""

    def __init__(self, store: "BlobStore") -> None:
        store.check()
        self._store = store
        handle, name = tempfile.mkstemp(dir=store.staging, prefix="blob-")
        self.path = Path(name)
        self._file = os.fdopen(handle, "wb")
        self._is_durable = False

    def flush(self) -> None:
        self._file.flush()

    def discard(self) -> None:
        self._file.close()
        self.path.unlink(missing_ok=True)

    def _commit_as(self, sha256: str) -> str:
        """Sync the file and give it the name `sha256`. Returns `sha256`. Can be called again if the blob was deleted
        meanwhile."""
        if not self._is_durable:
            self._file.flush()
            self._sync()
            self._file.close()
            self._is_durable = True
        self._store.name_file(self.path, sha256)
        return sha256

    def _sync(self) -> None:
        """Fsync the file. If that fails, the file is closed, so that no later commit succeeds."""
        try:
            os.fsync(self._file.fileno())
        except OSError:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()


class StagedBlob(StagedFile):
    """A staged file that is hashed and counted while it is written."""

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
    """A `.npy` file that grows by rows. After the commit other processes can map it without a copy.

    The header contains the number of rows, so it is written last, and the file is read once more to compute its hash.
    """

    def __init__(self, store: "BlobStore", dtype: np.dtype[Any], row_shape: tuple[int, ...]) -> None:
        if dtype.hasobject:
            raise ValueError("arrays of Python objects cannot be stored; convert the array to numbers")
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
            raise ValueError(
                f"rows of {rows.dtype} {rows.shape[1:]} cannot be appended to an array of {self._dtype} "
                f"{self._row_shape}"
            )
        self._file.write(np.ascontiguousarray(rows).data)
        self.n_rows += len(rows)

    def blocks(self) -> Iterator[np.ndarray[Any, Any]]:
        """Yield the rows written so far in blocks of bounded size."""
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
        with ThreadPoolExecutor(1) as beside:  # fsync in a thread, in parallel with the hash, which takes as long
            synced = beside.submit(self._sync)
            sha256 = hash_file(self.path)
            synced.result()
        return self._commit_as(sha256)

    def _write_header(self) -> None:
        shape = (self.n_rows, *self._row_shape)
        header = {"descr": np.lib.format.dtype_to_descr(self._dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, header)


class BlobStore:
    """A folder of blobs: `blobs/ab/cdef…`, and `staging/` for files that are being written.

    `check` is called before every read and write. It raises OSError if the folder does not belong to the database
    (identity.py). Without `check`, the constructor creates the folders, unless `create` is false.
    """

    def __init__(self, root: Path, check: Callable[[bool], None] | None = None, *, create: bool = True) -> None:
        self.root = root / "blobs"
        self.staging = root / "staging"
        self._check = check
        self._durable_folders: set[Path] = set()
        if check is None and create:
            make_folders(root)

    def check(self, establish: bool = True) -> None:
        """Raise OSError if this store does not belong to the database (`StoreIdentity.check`)."""
        if self._check is not None:
            self._check(establish)

    def explain(self, error: OSError) -> OSError:
        """Return StoreAway if the store is not available, else the error itself. A file that is missing because its
        volume is not mounted is not lost."""
        if isinstance(error, FileNotFoundError):
            try:
                self.check()
            except OSError as reason:
                return reason
        return error

    def stage(self) -> StagedBlob:
        return StagedBlob(self)

    def stage_array(self, dtype: np.dtype[Any], row_shape: tuple[int, ...]) -> StagedArray:
        return StagedArray(self, dtype, row_shape)

    def put(self, content: bytes) -> str:
        with self.stage() as staged:
            staged.write(content)
            return staged.commit()

    def adopt(self, file: Path, sha256: str) -> None:
        """Sync a file of the same file system and add its known hash as a second name.

        Raises UntrustedBytes if the fsync fails. The client must then send the bytes again.
        """
        self.check()
        with file.open("rb") as opened:
            try:
                os.fsync(opened.fileno())
            except OSError as error:
                raise UntrustedBytes(error.errno, error.strerror) from error
        self.name_file(file, sha256)

    def name_file(self, file: Path, sha256: str) -> None:
        """Link a synced file of the same file system under its hash. Replaces a file of that name."""
        self.check(establish=False)
        final, second = self._file(sha256), self.staging / f"name-{secrets.token_hex(8)}"
        self._make_durable(final.parent)
        os.utime(file)  # the grace period of `sweep` starts now, even if the file is old
        os.link(file, second)
        try:
            os.replace(second, final)
        finally:
            second.unlink(missing_ok=True)  # renaming onto another link of the same file keeps both names
        fsync_folder(final.parent)

    def _make_durable(self, folder: Path) -> None:
        """Create a folder of blobs. Each process syncs the parent folder once, because the process that created the
        folder can have crashed before its sync."""
        if folder not in self._durable_folders:
            folder.mkdir(exist_ok=True)
            fsync_folder(self.root)
            self._durable_folders.add(folder)

    def remove(self, sha256: str, grace_seconds: float = 0.0) -> int:
        """Delete a blob that is older than `grace_seconds`. Returns the bytes freed. Only `ownership.reclaim` calls
        this."""
        return _remove(self._file(sha256), grace_seconds)

    def put_array(self, array: np.ndarray[Any, Any]) -> str:
        with self.stage_array(array.dtype, array.shape[1:]) as staged:
            staged.append(array)
            return staged.commit()

    def map_array(self, sha256: str) -> np.ndarray[Any, Any]:
        mapped: np.ndarray[Any, Any] = np.load(self.path(sha256), mmap_mode="r", allow_pickle=False)
        return mapped

    def load_array(self, sha256: str) -> np.ndarray[Any, Any]:
        """Load a small array into memory. Mapping the array would keep its file open."""
        loaded: np.ndarray[Any, Any] = np.load(self.path(sha256), allow_pickle=False)
        return loaded

    def path(self, sha256: str) -> Path:
        """Return the path of a blob. Raises OSError if the store is not available, because a missing file then proves
        nothing."""
        self.check(establish=False)
        return self._file(sha256)

    def _file(self, sha256: str) -> Path:
        return self.root / sha256[:2] / sha256[2:]

    def holds(self, sha256: str) -> bool:
        """Return whether the file of a blob exists. Does not read its bytes."""
        return self.path(sha256).exists()

    def size(self, sha256: str) -> int:
        return self.path(sha256).stat().st_size

    def is_intact(self, sha256: str) -> bool:
        """Return whether the file of a blob exists and its bytes have the hash in its name."""
        try:
            return hash_file(self.path(sha256)) == sha256
        except FileNotFoundError:
            return False

    def __iter__(self) -> Iterator[str]:
        self.check(establish=False)
        for file in sorted(self.root.glob("??/*")):
            yield file.parent.name + file.name

    def untouched(self, seconds: float) -> Iterator[str]:
        """Yield the hashes of blobs that are older than `seconds`."""
        for sha256 in self:
            try:
                if time.time() - self._file(sha256).stat().st_mtime >= seconds:
                    yield sha256
            except FileNotFoundError:
                continue

    def check_writable(self) -> None:
        """Raise OSError if blobs cannot be written at the moment."""
        self.check()
        with tempfile.TemporaryFile(
            dir=self.staging
        ) as file:  # a file without a name, so that it is not mistaken for an upload
            file.write(b"writable")
            file.flush()

    def sweep_staging(self, grace_seconds: float) -> int:
        """Delete unfinished files of killed processes that are older than `grace_seconds`. Returns the bytes freed."""
        self.check()
        return sum(_remove(file, grace_seconds) for file in self.staging.iterdir())


def _remove(file: Path, grace_seconds: float) -> int:
    try:
        status = file.stat()
        if time.time() - status.st_mtime < grace_seconds:
            return 0
        file.unlink()
    except FileNotFoundError:
        return 0  # another process has removed or committed the file
    return status.st_size


def hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def make_folders(root: Path) -> None:
    """Create the folders of a store and sync them."""
    make_durable_folder(root / "blobs")
    make_durable_folder(root / "staging")


def make_durable_folder(folder: Path) -> None:
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
