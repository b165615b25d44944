"""The job type `verify`: it recomputes the certificate of a stored model."""

from typing import Literal

from pydantic import Field, StrictBool
from sqlalchemy.orm import Session

from app.datasets import service as datasets
from app.db.tables import DatasetRow, ModelRow
from app.errors import Conflict
from app.jobs import repository
from app.jobs.model_jobs import OnModel, Plan, check_features, check_labels_known, find_model, on_model
from app.jobs.schemas import JobOptions
from app.jobs.validation.named_dataset import ready_dataset
from app.names import Text
from app.storage import BlobStore


class VerifyOptions(JobOptions):
    """Options of a verification."""

    dataset_id: Text | None = Field(
        None, description="Dataset with the training rows; null: the dataset that the model was trained on."
    )
    rows: StrictBool = Field(
        False,
        description="Also write the training rows as the solver saw them, for the program of `format=verifier`. "
        "`GET /v1/jobs/{id}/output` returns the file (npz).",
    )


class VerifyRequest(OnModel, VerifyOptions):
    """Recompute a certificate: the primal value from weights and data, the bound from the stored dual point."""

    type: Literal["verify"] = Field(description="Job type.")


def _plan(session: Session, request: VerifyRequest, blobs: BlobStore) -> Plan:
    model = find_model(session, request.model, blobs)
    dataset = _dataset(session, request, model.row)
    check_labels_known(model, dataset)
    check_features(model, dataset)
    training = repository.get(session, model.row.job_id or "")
    peak_bytes = 0 if training is None else training.peak_bytes  # a verification needs the memory of the training
    return Plan(model.row, dataset, peak_bytes)


def _dataset(session: Session, request: VerifyRequest, model: ModelRow) -> DatasetRow:
    if model.job_id is None:
        detail = f"{model.name}:{model.version} was imported, so the problem that it solves is not known here."
        raise Conflict(detail, code="model_not_trained_here")
    if request.dataset_id is not None:
        return ready_dataset(session, "dataset_id", request.dataset_id)
    dataset = datasets.find(session, model.card["lineage"]["dataset_id"])
    if dataset is None:
        detail = "The dataset that the model was trained on is deleted; upload it again and give its `dataset_id`."
        raise Conflict(detail, code="dataset_deleted")
    return dataset


JOB_TYPE = on_model(
    VerifyRequest,
    _plan,
    result_fields="primal, dual_bound, gap, relative_gap, per_class, bound_from, matches, differences, claimed, output",
)
