"""The checkpoints of a job: when one is due, what it contains, and resuming from an earlier one.

Checkpoint and interim model are written as blobs; then one fenced write stores them in the job's row and makes it their
owner. A crash in between leaves files without an owner, which the sweep deletes.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import solvers
from app.errors import DatabaseUnavailable
from app.jobs import queue
from app.jobs.repository import Claim
from app.storage.ownership import BlobsGone, reclaim
from app.tabular.types import Array
from app.worker.train import checkpoint_file
from app.worker.train.checkpoint_file import Header, State, UnusableCheckpoint
from app.worker.train.encode_model import encode_interim
from app.worker.train.load import Work
from app.worker.worker_context import WorkerContext

log = logging.getLogger(__name__)

FIRST_SECONDS = 1.0
"""Seconds of training before the first checkpoint. Larger: short jobs write none, and more work is lost after a crash.
Set by hand; no measurement is recorded."""
MOST_COST = 0.05
"""Maximum fraction of the training time that checkpoints can take. Larger: more frequent checkpoints, slower training.
Set by hand; no measurement is recorded."""


class Note(NamedTuple):
    """The result of a finished training of a fold."""

    report: dict[str, Any]
    scores: Array
    """Scores of the held-out rows."""
    model: bytes | None = None
    """The model file of the fold, for prediction sets; None: it is not kept."""


@dataclass(frozen=True)
class Found:
    """The state of an earlier attempt."""

    header: Header
    state: State
    notes: list[Note]

    @property
    def passes(self) -> int:
        """Passes of the interrupted training."""
        counts = [value for name, value in self.state.items() if name.endswith("run.passes")]
        return int(sum(counts))

    @property
    def seconds(self) -> float:
        """Seconds of the interrupted training."""
        return float(self.state["run.seconds"])


class Checkpoints:
    """Writes checkpoints: the first after one second, then at growing intervals up to `checkpoint_seconds`."""

    def __init__(self, context: WorkerContext, claim: Claim, work: Work) -> None:
        self._context = context
        self._claim = claim
        self._work = work
        self._interval = min(FIRST_SECONDS, context.checkpoint_seconds)
        self._next = time.monotonic() + self._interval

    def find(self) -> Found | None:
        """Return the state of an earlier attempt if this one can continue from it. Stores an event in either case."""
        job = self._work.job
        if job.checkpoint is None:
            return None
        try:
            header, state = read_own(self._context, self._work, job.checkpoint)
        except UnusableCheckpoint as reason:
            self.begin_anew(str(reason))
            return None
        if header.kind != "training":
            return None
        notes = [
            Note(report, state.pop(_scores_of(number)), _bytes(state.pop(_model_of(number), None)))
            for number, report in enumerate(header.folds)
        ]
        found = Found(header, state, notes)
        self._tell("job.resumed", {"training": header.training, "passes": found.passes, "seconds": header.seconds})
        return found

    def begin_anew(self, reason: str) -> None:
        log.warning("%s starts from the beginning: %s", self._claim.job_id, reason)
        self._tell("job.restarted", {"reason": reason})

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self._next

    def save(
        self, report: solvers.StepReport, where: dict[str, Any], notes: Sequence[Note], model_of: Work | None
    ) -> None:
        """Write a checkpoint, and the interim model if the solver is training the final model.

        Raises LeaseLost if another worker has the job. If the disk is full, the training continues without the
        checkpoint.
        """
        began = time.monotonic()
        try:
            self._write(report, where, notes, model_of)
        except (OSError, DatabaseUnavailable, BlobsGone) as error:
            log.warning("could not write a checkpoint of %s: %s", self._claim.job_id, error)
        now, limit = time.monotonic(), self._context.checkpoint_seconds
        self._interval = min(2.0 * self._interval, limit)
        self._next = now + max(self._interval, min((now - began) / MOST_COST, limit))

    def _write(
        self, report: solvers.StepReport, where: dict[str, Any], notes: Sequence[Note], model_of: Work | None
    ) -> None:
        header = Header(
            job_id=self._claim.job_id,
            fence=self._claim.fence,
            data=self._work.dataset.sha256,
            code=checkpoint_file.code_version(),
            seed=self._work.request.seed,
            folds=[note.report for note in notes],
            **where,
        )
        arrays = {_scores_of(number): note.scores for number, note in enumerate(notes)}
        kept = {number: note.model for number, note in enumerate(notes) if note.model is not None}
        arrays |= {_model_of(number): np.frombuffer(model, dtype=np.uint8) for number, model in kept.items()}
        new = {
            "checkpoint": checkpoint_file.write(self._context.blobs, header, {**report.snapshot(copy=False), **arrays})
        }
        if model_of is not None and (content := encode_interim(model_of, self._claim, report)):
            new["snapshot"] = self._context.blobs.put(content), len(content)
        with self._context.database.write() as session:
            replaced = queue.keep(session, self._claim, new, self._context.blobs)
        reclaim(self._context.database, self._context.blobs, replaced)

    def _tell(self, event: str, data: dict[str, Any]) -> None:
        with self._context.database.write() as session:
            queue.tell(session, self._claim, event, data)


def read_own(context: WorkerContext, work: Work, blob: str) -> tuple[Header, State]:
    """Read a checkpoint of this job. Raises UnusableCheckpoint if it belongs to other data or another version."""
    header, state = checkpoint_file.read(context.blobs, blob)
    if (header.job_id, header.data) != (work.job.id, work.dataset.sha256):
        raise UnusableCheckpoint("the checkpoint belongs to other data")
    if header.code != checkpoint_file.code_version():
        raise UnusableCheckpoint("the checkpoint was written by another version")
    return header, state


class NoCheckpoints:
    """Writes no checkpoints: for the trainings of a job that starts again after an interruption."""

    is_due = False

    def find(self) -> None:
        return None

    def begin_anew(self, reason: str) -> None:
        pass

    def save(
        self, report: solvers.StepReport, where: dict[str, Any], notes: Sequence[Note], model_of: Work | None
    ) -> None:
        pass


def _scores_of(number: int) -> str:
    """Return the name of a fold's scores among the arrays of the state."""
    return f"note.{number}.scores"


def _model_of(number: int) -> str:
    """Return the name of a fold's model file among the arrays of the state."""
    return f"note.{number}.model"


def _bytes(array: Array | None) -> bytes | None:
    return None if array is None else array.tobytes()
