"""What the tests of `app` are made of: rows with sensible defaults, model files, and the HTTP service in process."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import numpy as np
import scipy.sparse as sp
from fastapi import FastAPI
from sqlalchemy import Engine, func, select
from sqlalchemy.orm import DeclarativeBase, Session

from app.config import Settings
from app.datasets.inspection.stored_blocks import ArrayFiles
from app.db import Database
from app.db.migrate import upgrade
from app.db.tables import Base, DatasetRow, JobRow, ModelRow
from app.error_codes import error_codes
from app.ids import new_id
from app.jobs import repository as jobs
from app.models import file
from app.models.file import Header
from app.models.repository import Location
from app.predictions.model_cache import ServedModel
from app.storage import BlobStore
from app.tabular.frame import Strings

SOAK = int(os.environ.get("HYPERPLANE_SOAK_EXAMPLES", "1"))
NOBODY = "01m7h944fsex4m8e47tq1ns5tn"  # the part of an id that says which one; given out to nothing
REGISTERED_CODES = {entry.code for entry in error_codes()}
LOOPBACK_URL = "http://127.0.0.1:8000"


@contextmanager
def migrated_database(url: str) -> Iterator[Database]:
    """A database at the newest schema; an SQLite file that is not there yet begins as a copy of one that is."""
    database = Database(url)
    path = Path(database.url.database or "") if database.engine.dialect.name == "sqlite" else None
    if path is None or path.exists():
        upgrade(database)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_migrated_file())
    try:
        yield database
    finally:
        database.close()


@cache
def _migrated_file() -> bytes:
    """What an SQLite database with every migration and no row is."""
    with TemporaryDirectory() as folder:
        database = Database(f"sqlite:///{folder}/migrated.sqlite3")
        upgrade(database)
        database.close()
        return Path(folder, "migrated.sqlite3").read_bytes()


class AnyBlobs(BlobStore):
    """A store in which every blob is there, for rows whose files are not looked at."""

    def __init__(self) -> None:
        super().__init__(Path("/nowhere"), create=False)

    def holds(self, sha256: str) -> bool:
        return True


ANY_BLOBS = AnyBlobs()


class Interrupted(Exception):
    """What ends an `interrupted_write`."""


@contextmanager
def interrupted_write(database: Database) -> Iterator[Session]:
    """A unit of work that fails after its last statement."""
    with suppress(Interrupted), database.write() as session:
        yield session
        raise Interrupted


def empty_tables(engine: Engine) -> None:
    with engine.begin() as connection:
        for table in reversed(Base.metadata.sorted_tables):
            connection.execute(table.delete())


def count_rows(database: Database, table: type[DeclarativeBase]) -> int:
    with database.read() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def dataset_row(**values: Any) -> DatasetRow:
    dataset_id = new_id("ds")
    defaults: dict[str, Any] = {
        "id": dataset_id,
        "name": None,
        "status": "ready",
        "fingerprint": dataset_id.rjust(64, "0"),
        "format": "csv",
        "sha256": "0" * 64,
        "bytes": 12,
        "n_rows": 3,
        "n_features": 2,
        "nnz": 6,
        "storage": "dense",
        "task_hint": "binary",
        "arrays": {"X": "1" * 64, "y": "2" * 64},
        "label_names": None,
        "classes": [{"label": -1, "count": 1}, {"label": 1, "count": 2}],
        "columns": [{"name": "a", "role": "feature"}],
        "warnings": [],
        "labels": {},
        "created_at": datetime.now(UTC),
    }
    return DatasetRow(**{**defaults, **values})


def array_files(
    folder: Path,
    X: Any,
    y: Any,
    kind: str = "dense",
    group: Any = None,
    levels: dict[int, list[str]] | None = None,
    texts: dict[int, list[str]] | None = None,
) -> ArrayFiles:
    """A matrix stored as the arrays of a dataset, and what its columns of codes and lengths stand for."""
    store = BlobStore(folder)
    if kind == "sparse":
        rows = sp.csr_array(X)
        indices, indptr = rows.indices.astype(np.int32), rows.indptr.astype(np.int64)
        arrays = {"data": rows.data, "indices": indices, "indptr": indptr, "y": np.asarray(y)}
    else:
        arrays = {"X": np.asarray(X), "y": np.asarray(y)}
    if group is not None:
        arrays["group"] = np.asarray(group, dtype=np.int64)
    for part, columns in (("levels", levels or {}), ("text", texts or {})):
        for number, values in columns.items():
            strings = Strings.of(values)
            arrays[f"{part}.{number}.bytes"] = strings.bytes
            arrays[f"{part}.{number}.offsets"] = np.append(strings.starts, strings.ends[-1])
    return ArrayFiles(folder, {name: store.put_array(array) for name, array in arrays.items()}, *X.shape)


def job_row(**values: Any) -> JobRow:
    defaults: dict[str, Any] = {
        "id": new_id("job"),
        "type": "train",
        "status": "queued",
        "dataset_id": f"ds_{NOBODY}",
        "model_name": "m",
        "spec": {"dataset_id": f"ds_{NOBODY}", "tol": 1e-3},
        "labels": {},
        "priority": 0,
        "created_at": datetime.now(UTC),
    }
    return JobRow(**{**defaults, **values})


def queued_jobs(database: Database, priorities: Sequence[int]) -> list[str]:
    """Ids of new queued jobs with these priorities, oldest first."""
    rows = [job_row(priority=priority) for priority in priorities]
    with database.write() as session:
        for row in rows:
            jobs.insert(session, row)
    return [row.id for row in rows]


def model_row(job_id: str, **values: Any) -> ModelRow:
    defaults: dict[str, Any] = {
        "id": new_id("mdl"),
        "name": "m",
        "job_id": job_id,
        "blob": "3" * 64,
        "task": "binary",
        "solver": "dcd",
        "converged": True,
        "card": {"classes": [-1, 1]},
        "created_at": datetime.now(UTC),
    }
    return ModelRow(**{**defaults, **values})


def model_header(n_features: int = 3, **values: Any) -> Header:
    defaults: dict[str, Any] = {
        "task": "binary",
        "classes": ["no", "yes"],
        "n_features": n_features,
        "feature_names": None,
        "card": {"certificate": {"relative_gap": 1e-4}},
    }
    return Header(**{**defaults, **values})


def model_bytes(
    coef: Iterable[Any],
    intercept: Any = 0.25,
    thresholds: Sequence[float] | None = None,
    arrays: dict[str, Any] | None = None,
    **header: Any,
) -> bytes:
    weights = np.array(list(coef), dtype=np.float64)
    arrays = {**(arrays or {}), "coef": weights, "intercept": np.atleast_1d(np.array(intercept, dtype=np.float64))}
    if thresholds is not None:
        arrays["thresholds"] = np.array(thresholds, dtype=np.float64)
    return file.encode(model_header(weights.shape[-1], **header), arrays)


def served_model(folder: Path, coef: Iterable[Any], intercept: Any = 0.25, **header: Any) -> ServedModel:
    path = folder / "model"
    path.write_bytes(model_bytes(coef, intercept, **header))
    return ServedModel.opened(Location(f"mdl_{NOBODY}", "m", 1, ""), file.read(path))


def temporary_settings(folder: Path, **values: Any) -> Settings:
    return Settings(data_dir=folder, **values)


class InProcess:
    """Calls the application without a socket. An error that the application lets out becomes its 500 answer."""

    def __init__(self, app: FastAPI, base_url: str = LOOPBACK_URL) -> None:
        self.app = app
        self._base_url = base_url

    def request(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        async def call() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url=self._base_url, trust_env=False) as client:
                return await client.request(method, path, **arguments)

        return asyncio.run(call())

    def get(self, path: str, **arguments: Any) -> httpx.Response:
        return self.request("GET", path, **arguments)

    def post(self, path: str, **arguments: Any) -> httpx.Response:
        return self.request("POST", path, **arguments)


async def in_chunks(content: bytes, size: int) -> AsyncIterator[bytes]:
    """A body that does not say its length."""
    for start in range(0, len(content), size):
        yield content[start : start + size]


def checked_problem(response: httpx.Response, status: int) -> dict[str, Any]:
    """The answer's problem document; everything that every refusal promises is asserted."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert body["status"] == status
    assert body["error"] == body["detail"]
    assert body["type"] == f"/docs/errors#{body['code']}"
    assert body["code"] in REGISTERED_CODES, "add an entry to app/error_codes"
    assert body["request_id"] == response.headers["x-request-id"]
    assert body["request_id"].startswith("req_")
    assert body["retryable"] or status not in (408, 423, 429, 503, 507)
    assert ("retry-after" in response.headers) is body["retryable"]
    return body
