"""A worker's pipeline without its processes: datasets are stored, jobs submitted and run in the test's own process."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from app.config import Settings
from app.db import Database
from app.db.queries import list_events
from app.db.tables import DatasetRow
from app.jobs import lease
from app.jobs import service as jobs
from app.jobs.admission import Admission
from app.jobs.schemas import JobOptions
from app.jobs.types.train_request import TrainRequest
from app.models import file
from app.models import service as models
from app.storage import BlobStore
from app.tabular.frame import Frame
from app.worker.executor import execute
from app.worker.worker_context import WorkerContext
from tests.support.builders import dataset_row, migrated_database

Array = np.ndarray[Any, Any]
Json = dict[str, Any]


def described(frame: Frame) -> list[Json]:
    """The columns as a dataset's row has them."""
    return [
        {
            "name": column.name,
            "role": "feature",
            "kind": column.kind,
            "missing": int(np.isnan(frame.X[:, j]).sum()),
            "levels": len(column.levels) if column.levels else None,
        }
        for j, column in enumerate(frame.columns)
    ]


class Bench:
    """Stores datasets, submits jobs and runs them here, in this process."""

    def __init__(self, database: Database, blobs: BlobStore) -> None:
        self.database, self.blobs = database, blobs
        self.context = WorkerContext(database, blobs, threads=2)

    def store_frame(self, frame: Frame, y: Array, **others: Array) -> str:
        """The id of a dataset with named columns of any kind."""
        strings = {f"text.{j}": texts for j, texts in frame.texts.items()}
        strings |= {f"levels.{j}": column.levels for j, column in enumerate(frame.columns) if column.levels}
        arrays = {f"{name}.bytes": texts.bytes for name, texts in strings.items()}
        arrays |= {f"{name}.offsets": np.concatenate([[0], texts.ends]) for name, texts in strings.items()}
        return self.store(frame.X, y, described(frame), **arrays, **others)

    def store(self, X: Array, y: Array, columns: Sequence[Json] = (), **arrays: Array) -> str:
        """The id of a dataset; labels that are text become codes, as a reader does it."""
        names, classes = None, []
        if y.dtype.kind == "U":
            names, y = np.unique(y, return_inverse=True)
            y, names = y.astype(np.int32), names.tolist()
        values, counts = np.unique(y, return_counts=True)
        if names or (len(values) <= 100 and np.array_equal(values, np.trunc(values))):
            labels = names or [int(value) for value in values]
            classes = [{"label": label, "count": int(n)} for label, n in zip(labels, counts, strict=True)]
        kept = {"X": X, "y": y if names else y.astype(np.float64), **arrays}
        row = dataset_row(
            n_rows=len(y),
            n_features=X.shape[1],
            arrays={name: self.blobs.put_array(np.ascontiguousarray(array)) for name, array in kept.items()},
            label_names=names,
            classes=classes,
            columns=list(columns),
            options={"group": "query"} if "group" in arrays else None,
        )
        with self.database.write() as session:
            session.add(row)
        return row.id

    def describe(self, dataset_id: str, **values: Any) -> None:
        """Change what is known of a dataset."""
        with self.database.write() as session:
            for name, value in values.items():
                setattr(session.get_one(DatasetRow, dataset_id), name, value)

    def submit(self, dataset_id: str, **fields: Any) -> str:
        with self.database.write() as session:
            request = TrainRequest(dataset_id=dataset_id, model="m", **fields)
            return jobs.submit(session, request, Admission(self.blobs, Settings())).id

    def run(self, dataset_id: str, stop_reason: Callable[[], Any] = lambda: None, **fields: Any) -> Json:
        """The job after its run."""
        return self.execute(self.submit(dataset_id, **fields), stop_reason)

    def run_on_model(self, request: JobOptions, stop_reason: Callable[[], Any] = lambda: None) -> Json:
        with self.database.write() as session:
            job_id = jobs.submit(session, request, Admission(self.blobs, Settings())).id
        return self.execute(job_id, stop_reason)

    def execute(self, job_id: str, stop_reason: Callable[[], Any] = lambda: None) -> Json:
        """The job after it was claimed and worked on once more."""
        with self.database.write() as session:
            claim = lease.claim_next(session, "wrk_test", 60.0)
        assert claim is not None
        assert claim.job_id == job_id
        execute(self.context, claim, stop_reason)
        return self.job(job_id)

    def job(self, job_id: str) -> Json:
        with self.database.read() as session:
            return jobs.show(session, jobs.get(session, job_id))

    def events(self, job_id: str, *kinds: str) -> list[Json]:
        """Return the events of a job of these kinds."""
        with self.database.read() as session:
            return [event.data for event in list_events(session, job_id, 10_000, None) if event.type in kinds]

    def model(self, job: Json) -> tuple[Json, file.ModelFile]:
        """A finished job's card and file."""
        assert job["status"] == "succeeded", job["error"]
        with self.database.read() as session:
            row = models.resolve(session, job["model_id"])
            return row.card, file.read(self.blobs.path(row.blob))


@contextmanager
def worker_bench(folder: Path, database_url: str | None = None) -> Iterator[Bench]:
    with migrated_database(database_url or f"sqlite:///{folder / 'test.sqlite3'}") as database:
        yield Bench(database, BlobStore(folder))


def noisy(rows: int, seed: int = 0) -> tuple[Array, Array]:
    """Features and a noisy signal in them."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, 4))
    return X, X @ np.array([2.0, -1.0, 0.5, 0.0]) + 0.5 * random.normal(size=rows)


def three_words(signal: Array) -> Array:
    return np.array(["low", "middle", "high"])[np.digitize(signal, [-1.0, 1.0])]
