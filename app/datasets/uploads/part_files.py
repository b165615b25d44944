"""The files of unfinished uploads. A file lock allows one writer; the operating system releases the lock when a process
dies.

If a process was killed before it acknowledged bytes, the file is longer than the acknowledged offset. The next writer
begins at the acknowledged offset and overwrites the bytes after it.
"""

import errno
import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from types import TracebackType

from app.errors import Locked
from app.storage.blobs import UntrustedBytes, fsync_folder, make_durable_folder


class Part:
    """An open, locked file that is written from an offset on.

    After a failed write or fsync, nothing more is written, synced or acknowledged, because a second fsync can succeed
    although bytes are lost. The client continues at the last acknowledged offset and sends the rest again.
    """

    def __init__(self, file: FileIO, path: Path, offset: int) -> None:
        self._file = file
        self.path = path
        self.offset = offset
        self.durable_offset = offset
        self.is_trusted = True

    def write(self, chunk: bytes) -> None:
        left = memoryview(chunk)
        with self._trusted():
            while left:
                written = os.pwrite(self._file.fileno(), left, self.offset)
                self.offset += written
                left = left[written:]

    def sync(self) -> int:
        """Fsync all written bytes. Returns the offset that can be acknowledged."""
        with self._trusted():
            os.fsync(self._file.fileno())
        self.durable_offset = self.offset
        return self.offset

    def seal(self) -> str:
        """Remove the bytes after the acknowledged offset. Returns the SHA-256 of the rest. Raises UntrustedBytes after
        a failed write."""
        with self._trusted():
            self._file.truncate(self.offset)
        self.sync()
        with self.path.open("rb") as whole:
            return hashlib.file_digest(whole, "sha256").hexdigest()

    @contextmanager
    def _trusted(self) -> Iterator[None]:
        if not self.is_trusted:
            raise UntrustedBytes(errno.EIO, "an earlier write to this upload failed")
        try:
            yield
        except OSError as error:
            self.is_trusted = False
            raise UntrustedBytes(error.errno, error.strerror) from error

    def close(self) -> None:
        self._file.close()  # closing releases the lock

    def __enter__(self) -> "Part":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class PartFiles:
    """The folder of the files `uploads/up_…`, on the file system of the blobs.

    `check` raises OSError if the store is not the one that the database knows (app/storage/identity.py).
    """

    def __init__(self, root: Path, check: Callable[[], None] = lambda: None) -> None:
        self._root = root / "uploads"
        self.check = check
        self._folder_is_durable = False

    def path(self, upload_id: str) -> Path:
        return self._root / upload_id

    def create(self, upload_id: str) -> None:
        """Create the empty file of an upload and fsync its folder. Every upload with a database row must have a
        file."""
        self.check()
        if not self._folder_is_durable:
            make_durable_folder(self._root)
            fsync_folder(self._root.parent)  # the process that created the folder can have died before its own fsync
            self._folder_is_durable = True
        self.path(upload_id).touch(exist_ok=False)
        fsync_folder(self._root)

    def replace(self, upload_id: str) -> None:
        """Replace a file whose bytes cannot be trusted with a new empty file."""
        draft = self.path(f"{upload_id}.new")
        draft.touch()
        draft.replace(self.path(upload_id))
        fsync_folder(self._root)

    def lock(self, upload_id: str) -> FileIO:
        """Open the file of an upload for exclusive writing. Raises FileNotFoundError if the upload is deleted."""
        self.check()
        file = self.path(upload_id).open("r+b", buffering=0)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise Locked("Another request is writing to this upload; retry when it has ended.") from None
        return file

    def remove(self, upload_id: str) -> None:
        self.path(upload_id).unlink(missing_ok=True)

    def older_than(self, seconds: float) -> Iterator[str]:
        if not self._root.exists():
            return
        for file in self._root.iterdir():
            try:
                if time.time() - file.stat().st_mtime >= seconds:
                    yield file.name
            except FileNotFoundError:
                continue
