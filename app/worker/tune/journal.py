"""A local file of the trainings that a search finished since it last wrote to the store.

Every finished training is appended at once, so a killed process loses only the training that it was running. Appending
does not fsync: the system keeps written bytes when a process is killed. After a power failure, or on another machine, a
search continues from the store alone.
"""

import contextlib
import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

Table = dict[str, Any]
"""A finished training as `solvers.TuneProgress.stored` returns it."""

RECORD = struct.Struct("<QI")
"""Before each record: its length in bytes and its CRC-32."""


class Journal:
    """The journal of one attempt. Files of earlier attempts are read and deleted, never extended."""

    def __init__(self, folder: Path, job_id: str, fence: int, version: str) -> None:
        """`version`: what a training depends on. Files of another version are ignored."""
        self._folder = folder
        self._job_id = job_id
        self._path = folder / f"search-{job_id}-{fence}"
        self._version = version.encode()

    def find(self) -> list[Table]:
        """Return the trainings of earlier attempts."""
        return [table for file in self._files() if file != self._path for table in self._read(file)]

    def add(self, table: Table) -> None:
        """Append a training. If the file cannot be written, the training is only in memory until the next write to
        the store."""
        content = io.BytesIO()
        np.savez(content, **table)
        with contextlib.suppress(OSError), self._path.open("ab") as file:
            if file.tell() == 0:
                _append(file, self._version)
            _append(file, content.getvalue())

    def clear(self) -> None:
        """Delete the files of this job: the store has their trainings, or the job has ended."""
        for file in self._files():
            file.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        try:
            return sorted(self._folder.glob(f"search-{self._job_id}-*"))
        except OSError:
            return []

    def _read(self, file: Path) -> Iterator[Table]:
        try:
            records = list(_records(file.read_bytes()))
            if records and records[0] == self._version:
                for record in records[1:]:
                    with np.load(io.BytesIO(record), allow_pickle=False) as stored:
                        yield {name: value.item() if value.ndim == 0 else value for name, value in stored.items()}
        except (OSError, ValueError, zipfile.BadZipFile):
            return


def _append(file: io.BufferedWriter, content: bytes) -> None:
    file.write(RECORD.pack(len(content), zlib.crc32(content)) + content)


def _records(content: bytes) -> Iterator[bytes]:
    """Yield the records up to the first one that is not complete."""
    place = 0
    while place + RECORD.size <= len(content):
        length, checksum = RECORD.unpack_from(content, place)
        place += RECORD.size
        record = content[place : place + length]
        if len(record) < length or zlib.crc32(record) != checksum:
            return
        yield record
        place += length
