"""The job type `train`: it trains a certified model on a dataset."""

from typing import Any, Literal

from pydantic import ConfigDict, Field
from sqlalchemy.orm import Session

from app.db.tables import JobRow
from app.errors import AppError
from app.jobs.admission import Admission, Needs
from app.jobs.schemas import JobOptions, SplitByDataset, TrainingSpec
from app.jobs.submission import JobType, enqueue, verdict
from app.jobs.validation import training
from app.jobs.validation.named_dataset import ready_dataset


class TrainRequest(JobOptions, TrainingSpec):
    """Train a model. `GET /v1/solvers` lists the solvers and what each supports."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"dataset_id": "ds_…", "model": "radar", "split": {"test": 0.2}}]}
    )

    type: Literal["train"] = Field("train", description="Job type. `train` is the default.")


def submit(session: Session, request: TrainRequest, admission: Admission) -> JobRow:
    dataset = ready_dataset(session, "dataset_id", request.dataset_id)
    for refusal in training.refusals(session, request, dataset, admission.blobs):
        raise refusal
    request = training.with_settled_start(session, request)
    needs = admission.needs(session, request, dataset)
    admission.admit(needs.peak_bytes)
    split = request.split
    return enqueue(
        session,
        request,
        dataset,
        peak_bytes=needs.peak_bytes,
        model_name=request.model or dataset.name,
        other_datasets={training.TEST_DATASET: split.test_dataset_id} if isinstance(split, SplitByDataset) else None,
    )


def validate(session: Session, request: TrainRequest, admission: Admission) -> dict[str, Any]:
    """List all errors of a request, not only the first."""
    needs: Needs | None = None
    try:
        dataset = ready_dataset(session, "dataset_id", request.dataset_id)
        refusals = list(training.refusals(session, request, dataset, admission.blobs))
        if not refusals:
            needs = admission.needs(session, request, dataset)
            admission.admit(needs.peak_bytes)
    except AppError as refusal:
        refusals = [refusal]
    return verdict(refusals, needs)


JOB_TYPE = JobType(
    TrainRequest,
    submit,
    validate,
    result_fields="status, converged, task, task_reason, strategy, solver, solver_reason, certificate, metrics, "
    "training, and cross_validation {by, folds, mean, std} and calibration {method, rows, held_out} if there was one",
    has_interim_model=True,
)
