"""Everything that a report says: the model, and its training job and dataset as far as they still exist."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from app.datasets import repository as datasets
from app.db.tables import JobRow, ModelRow
from app.jobs import repository as jobs
from app.models.schemas import ClassWeights, Model

MAX_POINTS = 400
"""Maximum points of the convergence curve that are read. Larger: a longer table behind the chart. Set by hand."""
NOT_REPRODUCED = ("webhook",)
"""Parameters that a request to train again leaves out: the address of a webhook can contain a secret."""


@dataclass(frozen=True)
class Facts:
    model: Model
    weights: list[ClassWeights]
    """Strongest weights of each class."""
    trace: list[dict[str, Any]]
    """Points of the convergence curve that have bounds; empty: imported, or the job was deleted."""
    dataset: dict[str, Any] | None
    """Columns, classes and warnings of the training dataset; None: imported, or it was deleted."""
    sent: dict[str, Any] | None = None
    """The training request, with defaults filled in; None: imported, or the job was deleted."""

    @property
    def request(self) -> dict[str, Any] | None:
        """Return the request that trains the model again; None: it was imported. Of a deleted job it is made of the
        model's parameters."""
        lineage = self.model.lineage
        if lineage.get("job_id") is None or lineage.get("dataset_id") is None:
            return None
        given = self.model.params if self.sent is None else self.sent
        params = {name: value for name, value in given.items() if value is not None}
        for name in NOT_REPRODUCED:
            params.pop(name, None)
        return {"dataset_id": lineage["dataset_id"], "model": self.model.name, **params, "type": "train"}


def job_of(session: Session, model: ModelRow) -> JobRow | None:
    job_id = model.card["lineage"].get("job_id")
    return None if job_id is None else jobs.get(session, job_id, with_trace=True)


def trace_of(job: JobRow | None, model: ModelRow) -> list[dict[str, Any]]:
    """Return the points of the training's convergence curve that have bounds. Of a race: those of the winner."""
    if job is None:
        return []
    points = [one for one in job.trace if one.get("solver") in (None, model.solver)]
    points = [one for one in points if one.get("primal") is not None and one.get("dual_bound") is not None]
    step = max(1, len(points) // MAX_POINTS)
    return points[:-1:step] + points[-1:]


def dataset_of(session: Session, model: ModelRow) -> dict[str, Any] | None:
    dataset_id = model.card["lineage"].get("dataset_id")
    row = None if dataset_id is None else datasets.get(session, dataset_id)
    if row is None:
        return None
    names = ("id", "name", "format", "sha256", "bytes", "n_rows", "n_features", "storage", "task_hint")
    said = {name: getattr(row, name) for name in names}
    return {**said, "classes": row.classes, "columns": row.columns, "warnings": row.warnings}
