"""The files of unfinished uploads. One writer at a time, by a lock that the system releases when a process dies.

A file may be longer than what was acknowledged: a killed process wrote bytes that it could not report.
The next writer begins at the acknowledged offset and writes over them.
"""

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from app.errors import Locked


class Part:
    """An open, locked file that grows from an offset on."""

    def __init__(self, file: BinaryIO, path: Path, offset: int) -> None:
        self._file = file
        self.path = path
        self.offset = offset
        self.durable_offset = offset
        file.seek(offset)

    def write(self, chunk: bytes) -> None:
        self._file.write(chunk)
        self.offset += len(chunk)

    def sync(self) -> int:
        """Make everything that was written durable; returns the offset that may now be acknowledged."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self.durable_offset = self.offset
        return self.offset

    def seal(self) -> str:
        """Cut off what was never acknowledged; returns the hash of the rest."""
        self._file.truncate(self.offset)
        self.sync()
        with self.path.open("rb") as whole:
            return hashlib.file_digest(whole, "sha256").hexdigest()

    def close(self) -> None:
        self._file.close()  # which unlocks it

    def __enter__(self) -> "Part":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class PartFiles:
    """A folder of them, `uploads/up_…`, on the file system of the blobs."""

    def __init__(self, root: Path) -> None:
        self._root = root / "uploads"
        self._root.mkdir(parents=True, exist_ok=True)

    def path(self, upload_id: str) -> Path:
        return self._root / upload_id

    def create(self, upload_id: str) -> None:
        """Make the empty file, durably: an upload whose row exists has one."""
        self.path(upload_id).touch(exist_ok=False)
        folder = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def lock(self, upload_id: str) -> BinaryIO:
        """Open a file for writing, alone. Raises FileNotFoundError if the upload is gone."""
        file = self.path(upload_id).open("r+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise Locked("Another request is writing to this upload; try again when it has ended.") from None
        return file

    def remove(self, upload_id: str) -> None:
        self.path(upload_id).unlink(missing_ok=True)

    def older_than(self, seconds: float) -> Iterator[str]:
        for file in self._root.iterdir():
            try:
                if time.time() - file.stat().st_mtime >= seconds:
                    yield file.name
            except FileNotFoundError:
                continue
