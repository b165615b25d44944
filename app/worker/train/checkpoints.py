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
from app.worker.failures import PermanentFailure
from app.worker.train import checkpoint_file
from app.worker.train.checkpoint_file import Header, State, UnusableCheckpoint
from app.worker.train.encode_model import encode_model
from app.worker.train.load import Work
from app.worker.train.result_metrics import labels_of
from app.worker.worker_context import WorkerContext

log = logging.getLogger(__name__)

FIRST_SECONDS = 1.0
"""Seconds of training before the first checkpoint. Larger: short jobs write none, and more work is lost after a
crash."""
MOST_COST = 0.05
"""Maximum share of the time for checkpoints. Larger: more frequent checkpoints, slower training."""


class Note(NamedTuple):
    """The result of a finished training of a fold."""

    report: dict[str, Any]
    scores: Array
    """Scores of the held-out rows."""


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
            header, state = checkpoint_file.read(self._context.blobs, job.checkpoint)
            if (header.job_id, header.data) != (job.id, self._work.dataset.sha256):
                raise UnusableCheckpoint("the checkpoint belongs to other data")
            if header.code != checkpoint_file.code_version():
                raise UnusableCheckpoint("the checkpoint was written by another version")
        except UnusableCheckpoint as reason:
            self.begin_anew(str(reason))
            return None
        scores = [state.pop(_scores_of(number)) for number in range(len(header.folds))]
        found = Found(header, state, [Note(*both) for both in zip(header.folds, scores, strict=True)])
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

        Raises LeaseLost if another worker has the job. Without free disk space the training continues without it.
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
        scores = {_scores_of(number): note.scores for number, note in enumerate(notes)}
        new = {
            "checkpoint": checkpoint_file.write(self._context.blobs, header, {**report.snapshot(copy=False), **scores})
        }
        if model_of is not None and (content := self._model_file(report, model_of)):
            new["snapshot"] = self._context.blobs.put(content), len(content)
        with self._context.database.write() as session:
            replaced = queue.keep(session, self._claim, new, self._context.blobs)
        reclaim(self._context.database, self._context.blobs, replaced)

    def _model_file(self, report: solvers.StepReport, work: Work) -> bytes | None:
        """Encode the interim model, if its weights are finite. Its card has only a few fields."""
        if not report.has_model:
            return None
        model = report.model()
        if not (np.isfinite(model.coef).all() and np.isfinite(model.intercept).all()):
            return None
        gap = report.relative_gap
        card = {
            "classes": labels_of(work.train, model),
            "job_id": self._claim.job_id,
            "attempt": self._claim.fence,
            "passes": report.passes,
            "seconds": report.seconds,
            "relative_gap": gap if gap is not None and np.isfinite(gap) else None,
        }
        try:
            return encode_model(work, model, card)
        except PermanentFailure:  # its weights can become finite later
            return None

    def _tell(self, event: str, data: dict[str, Any]) -> None:
        with self._context.database.write() as session:
            queue.tell(session, self._claim, event, data)


def _scores_of(number: int) -> str:
    """Return the name of a fold's scores among the arrays of the state."""
    return f"note.{number}.scores"
