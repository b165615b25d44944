"""Provides the preview, the statistics and the issues of a dataset to the endpoints.

Statistics and issues are computed by a child process on the first request and stored with the dataset.
"""

import asyncio
import math
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from anyio import to_thread
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from app.config import Settings
from app.datasets import repository, service
from app.datasets.arrays import open_arrays, open_columns
from app.datasets.inspection import doctor, statistics
from app.datasets.inspection.findings import Facts
from app.datasets.inspection.stored_blocks import ArrayFiles
from app.datasets.reading.parser_pool import ParserPool
from app.db import Database
from app.db.tables import DatasetRow
from app.errors import Unavailable, invalid_field
from app.storage import BlobStore
from app.storage.ownership import own
from app.tabular.frame import Column, Frame
from app.tabular.types import Array
from app.web.pagination import INVALID_CURSOR, MAX_PAGE, Page
from app.web.thread_rooms import WRITES

SHOWN_COLUMNS = 1000
"""Maximum number of columns in a dataset response and in a preview. Larger: larger responses. Set by hand; no
measurement is recorded."""
MAX_COLUMN = 2**31 - 1 - 2 * MAX_PAGE
"""Largest column number in a cursor. The number plus a page must fit into 32 bits."""
SHOWN_CHARACTERS = 1000
"""Maximum characters of a text in a preview. Larger: larger responses. Set by hand; no measurement is recorded."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Result = TypeVar("Result")


class ColumnRecord(NamedTuple):
    """The statistics of a column. The cursor of the next page stores `id`."""

    id: str
    column: Column | None
    record: Any


@dataclass(frozen=True)
class Figures:
    """The mapped statistics of a dataset, and the descriptions of its first columns."""

    records: Array
    first: int
    columns: Sequence[Column]
    """Descriptions of the first columns; empty if the columns have no names."""
    n_rows: int
    n_features: int

    def page(self, limit: int) -> list[ColumnRecord]:
        """Return the statistics of the next `limit` columns."""
        numbers = range(self.first, min(self.first + limit, self.n_features))
        columns: Sequence[Column | None] = self.columns or [None] * len(numbers)
        return [ColumnRecord(str(i), column, self._record(i)) for i, column in zip(numbers, columns, strict=False)]

    def _record(self, number: int) -> Any:
        place = int(np.searchsorted(self.records["column"], number))
        if place < len(self.records) and self.records["column"][place] == number:
            return self.records[place]
        return statistics.of_zeros(self.n_rows)[0]


def following_number(page: Page) -> int:
    """Return the number of the first item of a page: the number after the cursor, or 0."""
    if page.cursor_id is None:
        return 0
    if not page.cursor_id.isdecimal() or int(page.cursor_id[:18]) > MAX_COLUMN:
        raise invalid_field("cursor", "invalid_cursor", INVALID_CURSOR)
    return int(page.cursor_id) + 1


def preview(
    blobs: BlobStore, dataset: DatasetRow, features: Sequence[dict[str, Any]], target: str | None, rows: int
) -> dict[str, Any]:
    """Return the fields of `schemas.Preview`. `features` are the descriptions of the features to show."""
    stored = open_arrays(blobs, dataset, features)
    names = [column["name"] for column in features]
    width = min(dataset.n_features, SHOWN_COLUMNS)
    data = []
    for number in range(min(rows, dataset.n_rows)):
        if dataset.storage == "csr":
            entries = slice(stored.X.indptr[number], stored.X.indptr[number + 1])
            indices = stored.X.indices[entries][:SHOWN_COLUMNS].tolist()
            values = stored.X.data[entries][:SHOWN_COLUMNS].tolist()
        else:
            indices, values = None, [_shown_value(stored.frame, number, column) for column in range(width)]
        weight = None if stored.weight is None else float(stored.weight[number])
        group = None if stored.group is None else int(stored.group[number])
        label = stored.label(stored.y[number]) if "y" in dataset.arrays else None
        data.append({"label": label, "values": values, "indices": indices, "weight": weight, "group": group})
    return {
        "dataset_id": dataset.id,
        "n_rows": dataset.n_rows,
        "n_features": dataset.n_features,
        "columns": names or None,
        "target": target,
        "data": data,
    }


class Inspector:
    """Computes statistics and issues in child processes. Simultaneous requests for the same result share one
    computation. Each API process has one Inspector."""

    def __init__(self, settings: Settings, database: Database, blobs: BlobStore, parser_pool: ParserPool) -> None:
        self._data_dir = settings.data_dir
        self._database = database
        self._blobs = blobs
        self._parser_pool = parser_pool
        self._under_way: dict[tuple[str, str], asyncio.Task[Any]] = {}

    async def statistics(self, dataset_id: str, first: int, limit: int) -> list[ColumnRecord]:
        """Return the statistics of at most `limit` columns, from column `first` on."""

        def read() -> tuple[DatasetRow, list[Column]]:
            with self._database.read() as session:
                dataset, features, _ = service.read_features(session, dataset_id, first, limit)
            return dataset, open_columns(self._blobs, dataset, features, first)

        dataset, columns = await run_in_threadpool(read)
        records = await run_in_threadpool(self._blobs.map_array, await self._statistics_blob(dataset))
        figures = Figures(records, first, columns, dataset.n_rows, dataset.n_features)
        return await run_in_threadpool(figures.page, limit)

    async def issues(self, dataset_id: str) -> list[dict[str, Any]]:
        light = await run_in_threadpool(self._get_ready, dataset_id, service.get_light)
        if light.issues is not None:
            return light.issues
        dataset = await run_in_threadpool(self._get_ready, dataset_id)
        return await self._once(("issues", dataset_id), lambda: self._find_issues(dataset))

    async def _statistics_blob(self, dataset: DatasetRow) -> str:
        stored = dataset.statistics
        if stored is not None and statistics.is_current(await run_in_threadpool(self._blobs.map_array, stored)):
            return stored
        return await self._once(("statistics", dataset.id), lambda: self._compute_statistics(dataset))

    async def _once(self, key: tuple[str, str], start: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Start a computation, or wait for the one that runs for this key. The computation continues if a waiting
        client disconnects."""
        task = self._under_way.get(key)
        if task is None:
            task = asyncio.create_task(start())
            self._under_way[key] = task
            task.add_done_callback(lambda _: self._under_way.pop(key, None))
        result: Result = await asyncio.shield(task)
        return result

    async def _compute_statistics(self, dataset: DatasetRow) -> str:
        sha256, size = await self._in_child(statistics.compute, self._array_files(dataset))

        def keep() -> None:
            with self._database.write() as session:
                if repository.set_statistics(session, dataset.id, dataset.statistics, sha256):
                    own(session, self._blobs, dataset.id, {sha256: size})

        await WRITES.run(keep)
        return sha256

    async def _find_issues(self, dataset: DatasetRow) -> list[dict[str, Any]]:
        facts = Facts(
            classes=dataset.classes,
            feature_names=_feature_names(dataset),
            warnings=dataset.warnings,
            labels_are_text=dataset.label_names is not None,
            kinds=[column.get("kind", "numeric") for column in _features(dataset)] or None,
        )
        statistics = await self._statistics_blob(dataset)
        found = await self._in_child(doctor.examine, self._array_files(dataset), facts, statistics)

        def keep() -> None:
            with self._database.write() as session:
                repository.set_issues(session, dataset.id, found)

        await WRITES.run(keep)
        return found

    async def _in_child(self, function: Callable[..., Result], *arguments: Any) -> Result:
        work = partial(self._parser_pool.run, function, *arguments)
        try:
            return await to_thread.run_sync(work, limiter=self._parser_pool.limiter)
        except FileNotFoundError as error:  # the store is not available, or the dataset was deleted meanwhile
            reason = await run_in_threadpool(self._blobs.explain, error)
            if reason is not error:
                raise reason from error
            raise Unavailable("Files of this dataset were deleted during the request; retry.") from error

    def _get_ready(self, dataset_id: str, read: Callable[[Session, str], DatasetRow] = service.get) -> DatasetRow:
        with self._database.read() as session:
            return service.get_ready(session, dataset_id, read)

    def _array_files(self, dataset: DatasetRow) -> ArrayFiles:
        return ArrayFiles(self._data_dir, dataset.arrays, dataset.n_rows, dataset.n_features)


def show_column(column: ColumnRecord) -> dict[str, Any]:
    """Return the fields of `schemas.ColumnStatistics`."""
    record, kind = column.record, column.column.kind if column.column else "numeric"
    shown = {
        "index": int(column.id),
        "name": column.column.name if column.column else None,
        "kind": kind,
        "count": int(record["count"]),
        "missing": int(record["missing"]),
    }
    if kind == "categorical":
        assert column.column is not None
        assert column.column.levels is not None
        levels = column.column.levels
        counted = zip(record["top"].tolist(), record["top_counts"].tolist(), strict=True)
        top = [{"level": _shortened(levels[code]), "count": count} for code, count in counted if count]
        return {**shown, "levels": len(levels), "top": top}
    if kind == "text":
        return {**shown, "length": _range(record)}
    low, high = float(record["min"]), float(record["max"])
    histogram = None
    if math.isfinite(high - low):
        edges = np.linspace(low, high, statistics.BINS + 1).tolist()
        histogram = {"edges": edges, "counts": record["histogram"].tolist()}
    return {**shown, "zeros": int(record["zeros"]), **_range(record), "histogram": histogram}


def _range(record: Any) -> dict[str, Any]:
    shares = (f"q{100 * share:02.0f}" for share in statistics.SHARES)
    return {
        **{field: _finite(record[field]) for field in ("min", "max", "mean", "std")},
        "quantiles": dict(zip(shares, map(_finite, record["quantiles"]), strict=True)),
    }


def _shown_value(frame: Frame, row: int, number: int) -> Any:
    """Return a value as a client would write it, or None if it is missing."""
    value = float(frame.X[row, number])
    if math.isnan(value) or not frame.columns:
        return None if math.isnan(value) else value
    column = frame.columns[number]
    if column.kind == "categorical":
        assert column.levels is not None
        return _shortened(column.levels[int(value)])
    if column.kind == "text":
        return _shortened(frame.texts[number][row])
    if column.kind == "date":
        return _shown_date(value)
    return bool(value) if column.kind == "boolean" else value


def _shown_date(seconds: float) -> str | float:
    try:
        return (EPOCH + timedelta(seconds=seconds)).isoformat()
    except OverflowError:  # before the year 1 or after 9999
        return seconds


def _shortened(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"


def _features(dataset: DatasetRow) -> list[dict[str, Any]]:
    return [column for column in dataset.columns if column["role"] == "feature"]


def _feature_names(dataset: DatasetRow) -> list[str] | None:
    return [column["name"] for column in _features(dataset)] or None


def _finite(number: Any) -> float | None:
    return float(number) if math.isfinite(number) else None
