"""A parse queue whose reader does as a test says, with its database and its files."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from anyio import CapacityLimiter

from app.config import Settings
from app.datasets.formats import ReadOptions
from app.datasets.reading.parse import Parsed
from app.datasets.reading.parse_queue import ParseQueue
from app.datasets.service import Received
from app.db import Database
from app.db.tables import DatasetRow
from app.storage import BlobStore, ownership

DESCRIPTION = {
    **{"n_rows": 2, "n_features": 1, "nnz": 2, "storage": "dense", "task_hint": "binary"},
    **{"label_names": None, "classes": [], "columns": [], "warnings": []},
}


@dataclass
class Reader:
    """Stands in for the parser_pool: `read` is what happens to every file."""

    read: Callable[[], Parsed]
    files: int = 0

    def __post_init__(self) -> None:
        self.limiter = CapacityLimiter(4)

    def ingest(self, path: Path, _format: str, _options: ReadOptions) -> Parsed:
        assert path.read_bytes() == b"file"
        self.files += 1
        return self.read()


@dataclass
class House:
    settings: Settings
    database: Database
    blobs: BlobStore

    def processor(self, read: Callable[[], Parsed]) -> ParseQueue:
        return ParseQueue(self.settings, self.database, self.blobs, Reader(read))  # type: ignore[arg-type]

    def parsed(self) -> Parsed:
        arrays = {"X": self.blobs.put_array(np.ones((2, 1))), "y": self.blobs.put_array(np.array([0.0, 1.0]))}
        return Parsed(arrays, {sha256: self.blobs.size(sha256) for sha256 in arrays.values()}, dict(DESCRIPTION))

    def received(self, name: str | None = None) -> tuple[Path, Received]:
        file = self.blobs.staging / "received"
        file.write_bytes(b"file")
        with self.blobs.stage() as staged:
            staged.write(b"file")
            return file, Received(staged.sha256, 4, "csv", ReadOptions(ignore=("a",)), name, {})

    def row(self) -> DatasetRow:
        with self.database.read() as session:
            (row,) = session.query(DatasetRow).all()
            return row

    def owned(self) -> set[str]:
        with self.database.read() as session:
            return set(ownership.owners(session))


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, 20))


async def settled(house: House) -> DatasetRow:
    while house.row().status == "processing":
        await asyncio.sleep(0.01)
    return house.row()
