"""Immutable files by content hash on a local disk, written so that a crash leaves the old state or the new.

Order of a write: a temporary file on the same file system, its bytes, fsync, rename to the hash,
fsync of the folder. Only then may a database row name it. Who needs a blob is written in the
table `blob_owners`, in the transaction of the owning row; what nobody owns is deleted by `sweep`
after a grace period, so a file that is about to be owned is never taken away.
"""

import hashlib
import os
import tempfile
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

COPY_BYTES = 1 << 20


class StagedBlob:
    """A file being written. Leaving the `with` block without `commit()` removes it."""

    def __init__(self, store: "BlobStore") -> None:
        self._store = store
        handle, name = tempfile.mkstemp(dir=store.staging, prefix="blob-")
        self.path = Path(name)
        self._file = os.fdopen(handle, "wb")
        self._hash = hashlib.sha256()
        self.size = 0

    def write(self, chunk: bytes | memoryview) -> int:
        self._hash.update(chunk)
        self._file.write(chunk)
        self.size += len(chunk)
        return len(chunk)

    def flush(self) -> None:
        self._file.flush()

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def commit(self) -> str:
        """Make the bytes durable under their hash and return it."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        final = self._store.path(self.sha256)
        try:
            os.utime(final)  # already there: its grace period starts anew, a new owner is on its way
            self.path.unlink()
        except FileNotFoundError:
            _make_durable_folder(final.parent)
            os.replace(self.path, final)
        _fsync_folder(final.parent)
        return self.sha256

    def __enter__(self) -> "StagedBlob":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self.path.unlink(missing_ok=True)


class BlobStore:
    """A folder of blobs: `blobs/ab/cdef…`, and `staging/` for files that are not yet anything."""

    def __init__(self, root: Path) -> None:
        self.root = root / "blobs"
        self.staging = root / "staging"
        _make_durable_folder(self.root)
        _make_durable_folder(self.staging)

    def stage(self) -> StagedBlob:
        return StagedBlob(self)

    def put(self, content: bytes) -> str:
        with self.stage() as staged:
            staged.write(content)
            return staged.commit()

    def put_array(self, array: np.ndarray[Any, Any]) -> str:
        """Store an array as a `.npy` file, which other processes can map without a copy."""
        with self.stage() as staged:
            np.lib.format.write_array(staged, np.ascontiguousarray(array), allow_pickle=False)
            return staged.commit()

    def map_array(self, sha256: str) -> np.ndarray[Any, Any]:
        mapped: np.ndarray[Any, Any] = np.load(self.path(sha256), mmap_mode="r", allow_pickle=False)
        return mapped

    def path(self, sha256: str) -> Path:
        return self.root / sha256[:2] / sha256[2:]

    def size(self, sha256: str) -> int:
        return self.path(sha256).stat().st_size

    def is_intact(self, sha256: str) -> bool:
        """Whether the file is there and its bytes still have the hash that it is named by."""
        digest = hashlib.sha256()
        try:
            with self.path(sha256).open("rb") as file:
                while chunk := file.read(COPY_BYTES):
                    digest.update(chunk)
        except FileNotFoundError:
            return False
        return digest.hexdigest() == sha256

    def __iter__(self) -> Iterator[str]:
        for file in sorted(self.root.glob("??/*")):
            yield file.parent.name + file.name

    def check_writable(self) -> None:
        """Raise OSError if a blob could not be written now."""
        with self.stage() as staged:
            staged.write(b"writable")
            staged.flush()

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


def _make_durable_folder(folder: Path) -> None:
    missing = [folder, *folder.parents]
    missing = missing[: next((i for i, parent in enumerate(missing) if parent.exists()), len(missing))]
    folder.mkdir(parents=True, exist_ok=True)
    for created in missing:
        _fsync_folder(created.parent)


def _fsync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
