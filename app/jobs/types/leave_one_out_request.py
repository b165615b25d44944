"""The job type `leave_one_out`: it bounds the leave-one-out error of a stored model."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from sqlalchemy.orm import Session

from app.jobs import repository
from app.jobs.model_jobs import (
    OnModel,
    Plan,
    check_features,
    check_labels_known,
    find_model,
    on_model,
    training_dataset,
)
from app.jobs.result_schemas import JobResult
from app.jobs.schemas import JobOptions
from app.names import Text
from app.storage import BlobStore
from app.web.fields import DatasetId

BYTES_AN_ENTRY = 24
"""Memory in bytes per stored value for a training without a row: one copy of the remaining rows, and one copy by the
solver. Larger: larger memory estimates. Set by hand; no measurement is recorded."""


class LeaveOneOutOptions(JobOptions):
    """Options of leave-one-out bounds."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"refits": 100}]})

    dataset_id: Text | None = Field(
        None, description="Dataset with the training rows; null: the dataset that the model was trained on."
    )
    refits: Annotated[int, Field(ge=0, le=100_000)] = Field(
        0, description="Maximum rows to decide by a training without the row, if the bounds leave their label open."
    )


class LeaveOneOutRequest(OnModel, LeaveOneOutOptions):
    """Bound the error of predicting every training row by the model of all other rows, without training them all."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"type": "leave_one_out", "model": "radar"}]})

    type: Literal["leave_one_out"] = Field(description="Job type.")


class LeaveOneOutResult(JobResult):
    """Result of leave-one-out bounds: the exact figure lies from `lower` to `upper`."""

    metric: str | None = Field(description="`error`, or `mae` for regression; null: the task has none.")
    lower: float | None = Field(description="Proven lower bound of the metric; null: see `reason`.")
    upper: float | None = Field(description="Proven upper bound of the metric; null: see `reason`.")
    undecided: int | None = Field(description="Rows whose label the bounds leave open; null: no labels, or no bounds.")
    refits: int = Field(description="Rows that were tried by a training without them.")
    relative_gap: float | None = Field(description="Relative gap of the model of all rows; null: no bounds.")
    trained: bool = Field(description="Whether the stored solution was not precise enough, so that training continued.")
    reason: str | None = Field(description="Why there are no bounds; null: there are.")
    rows: int = Field(description="Number of training rows.")
    notes: list[str] = Field(description="Remarks about the computation.")
    dataset_id: DatasetId


def _plan(session: Session, request: LeaveOneOutRequest, blobs: BlobStore) -> Plan:
    model = find_model(session, request.model, blobs)
    dataset = training_dataset(session, request.dataset_id, model.row)
    check_labels_known(model, dataset)
    check_features(model, dataset)
    training = repository.get(session, model.row.job_id or "")
    peak_bytes = 0 if training is None else training.peak_bytes
    return Plan(model.row, dataset, peak_bytes + (BYTES_AN_ENTRY * dataset.nnz if request.refits else 0))


JOB_TYPE = on_model(LeaveOneOutRequest, _plan, result=LeaveOneOutResult)
