"""The job type `evaluate`: it evaluates a stored model on a dataset."""

from typing import Literal

from pydantic import Field
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
from app.jobs.validation.named_dataset import ready_dataset
from app.storage import BlobStore


class EvaluateOptions(OnDataset):
    """Options of an evaluation."""


class EvaluateRequest(OnModel, EvaluateOptions):
    """Evaluate a model on a dataset and store the report."""

    type: Literal["evaluate"] = Field(description="Job type.")


def _plan(session: Session, request: EvaluateRequest, blobs: BlobStore) -> Plan:
    model = find_model(session, request.model, blobs)
    dataset = ready_dataset(session, "dataset_id", request.dataset_id)
    check_labels_known(model, dataset)
    check_features(model, dataset)
    numbers_a_row = JUDGED_NUMBERS_A_ROW + 2 * max(1, len(model.row.card["classes"]))
    return Plan(model.row, dataset, PROCESS_BYTES + BLOCK_BYTES + 8 * dataset.n_rows * numbers_a_row)


JOB_TYPE = on_model(EvaluateRequest, _plan, result_fields="evaluation_id, rows, failed_rows, metrics")
