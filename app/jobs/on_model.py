"""Submitting jobs on a model that is there already: which model and which rows are settled before they are queued."""

from typing import Any

from sqlalchemy.orm import Session

from app.datasets import service as datasets
from app.db.engine import current_time
from app.db.tables import JobRow, ModelRow
from app.errors import AppError, Conflict, NotFound, invalid_field
from app.ids import new_id
from app.jobs import repository
from app.jobs.model_requests import OnModelRequest, VerifyRequest
from app.jobs.service import error_items, ready_dataset
from app.jobs.state import JobStatus
from app.models import service as models


def submit(session: Session, request: OnModelRequest) -> JobRow:
    """Queue it for the version that the reference means now; a moved alias does not change the job."""
    model, dataset_id = _settled(session, request)
    job = JobRow(
        id=new_id("job"),
        type=request.type,
        status=JobStatus.QUEUED,
        dataset_id=dataset_id,
        model_name=model.name,
        model_id=model.id,
        spec=request.model_dump(mode="json", exclude={"labels"}),
        labels=request.labels,
        priority=request.priority,
        created_at=current_time(session),
    )
    repository.insert(session, job)
    return job


def validate(session: Session, request: OnModelRequest) -> dict[str, Any]:
    """What `submit` would say, as `schemas.Validation` lists it."""
    try:
        _settled(session, request)
    except AppError as refusal:
        return {"valid": False, "estimate": None, "errors": error_items(refusal)}
    return {"valid": True, "estimate": None, "errors": []}


def _settled(session: Session, request: OnModelRequest) -> tuple[ModelRow, str]:
    """The model and the id of the rows."""
    try:
        model = models.resolve(session, request.model)
    except NotFound:
        raise invalid_field("model", "unknown_model", "there is no such model") from None
    return model, _dataset_to_verify(session, request, model)


def _dataset_to_verify(session: Session, request: VerifyRequest, model: ModelRow) -> str:
    if model.job_id is None:
        detail = f"{model.name}:{model.version} was imported: nothing here says what it was trained for."
        raise Conflict(detail, code="model_not_trained_here")
    if request.dataset_id is not None:
        return ready_dataset(session, "dataset_id", request.dataset_id).id
    lineage: dict[str, Any] = model.card["lineage"]
    if datasets.find(session, lineage["dataset_id"]) is None:
        detail = "The dataset that it was trained on is deleted; upload it again and give its `dataset_id`."
        raise Conflict(detail, code="dataset_deleted")
    dataset_id: str = lineage["dataset_id"]
    return dataset_id
