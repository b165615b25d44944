"""The job type `evaluate`: it evaluates a stored model on a dataset."""

from typing import Literal

from pydantic import ConfigDict, Field
from sqlalchemy.orm import Session

from app.jobs.admission import JUDGED_NUMBERS_A_ROW, PROCESS_BYTES
from app.jobs.model_jobs import (
    BLOCK_BYTES,
    OnDataset,
    OnModel,
    Plan,
    check_features,
    check_labels_known,
    find_model,
    on_model,
)
from app.jobs.result_schemas import JobResult
from app.jobs.schemas import PositiveClass
from app.jobs.validation.named_dataset import ready_dataset
from app.jobs.validation.positive_class import check_positive_class
from app.models.metrics.schemas import TaskMetrics
from app.storage import BlobStore


class EvaluateOptions(OnDataset):
    """Options of an evaluation."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"dataset_id": "ds_…"}]})

    positive_class: PositiveClass = Field(
        None,
        description="Of two classes, the label that precision, recall, F1 and the areas are about; null: that of the "
        "model, or `classes[1]` of a model that has none.",
    )


class EvaluateRequest(OnModel, EvaluateOptions):
    """Evaluate a model on a dataset and store the report."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"type": "evaluate", "dataset_id": "ds_…", "model": "radar"}]}
    )

    type: Literal["evaluate"] = Field(description="Job type.")


class EvaluateResult(JobResult):
    """Result of an evaluation."""

    evaluation_id: str = Field(description="Id of the stored report (`ev_…`).")
    rows: int = Field(description="Number of rows that were scored.")
    failed_rows: int = Field(description="Number of rows without a score.")
    metrics: TaskMetrics = Field(description="Metrics on the scored rows.")


def _plan(session: Session, request: EvaluateRequest, blobs: BlobStore) -> Plan:
    model = find_model(session, request.model, blobs)
    dataset = ready_dataset(session, "dataset_id", request.dataset_id)
    check_labels_known(model, dataset)
    check_features(model, dataset, whole=True)
    check_positive_class(request.positive_class, model.row.task, model.row.card["classes"])
    numbers_a_row = JUDGED_NUMBERS_A_ROW + 2 * max(1, len(model.row.card["classes"]))
    return Plan(model.row, dataset, PROCESS_BYTES + BLOCK_BYTES + 8 * dataset.n_rows * numbers_a_row)


JOB_TYPE = on_model(EvaluateRequest, _plan, result=EvaluateResult)
