"""The declaration of a job type, and the steps that all types share to check and queue a job.

The modules of app/jobs/types use it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_args

from sqlalchemy.orm import Session

from app.datasets import service as datasets
from app.db.engine import current_time
from app.db.job_state import JobStatus
from app.db.tables import DatasetRow, JobRow
from app.errors import AppError, ErrorItem
from app.ids import new_id
from app.jobs import repository
from app.jobs.admission import Admission, Needs
from app.jobs.result_schemas import JobResult
from app.jobs.schemas import JobOptions
from app.jobs.validation.named_dataset import unknown_dataset

Asked = TypeVar("Asked", bound=JobOptions)


@dataclass(frozen=True)
class JobType(Generic[Asked]):
    """A job type from the client's point of view."""

    request: type[Asked]
    """Schema of the request body. Its field `type` is a Literal with the name of the type."""
    submit: Callable[[Session, Asked, Admission], JobRow]
    """Check a request as far as possible without reading rows, then queue the job. Raises AppError."""
    validate: Callable[[Session, Asked, Admission], dict[str, Any]]
    """Return the fields of `schemas.Validation`: what `submit` would refuse. Stores nothing."""
    result: type[JobResult]
    """Schema of `result` of a succeeded job. Its required fields differ from those of all other types."""
    has_interim_model: bool = False
    """Whether a running job has an interim model, so that clients can predict with it and finish the job early."""

    @property
    def name(self) -> str:
        return str(get_args(self.request.model_fields["type"].annotation)[0])

    @property
    def is_default(self) -> bool:
        """Whether a request without a type has this type."""
        return not self.request.model_fields["type"].is_required()


def enqueue(
    session: Session,
    request: JobOptions,
    dataset: DatasetRow,
    *,
    peak_bytes: int,
    model_name: str | None,
    model_id: str | None = None,
    other_datasets: Mapping[str, str] | None = None,
) -> JobRow:
    """Queue a job. Its datasets cannot be deleted before it is done.

    `other_datasets` maps fields of the request, other than `dataset_id`, to the ids of datasets.
    """
    for field, dataset_id in {"dataset_id": dataset.id, **(other_datasets or {})}.items():
        if not datasets.hold(session, dataset_id):
            raise unknown_dataset(field)
    job_id, spec = new_id("job"), request.model_dump(mode="json", by_alias=True, exclude={"labels", "webhook"})
    job = JobRow(
        id=job_id,
        type=spec["type"],
        status=JobStatus.QUEUED,
        dataset_id=dataset.id,
        model_name=model_name or f"model-{job_id[-12:]}",
        model_id=model_id,
        spec=spec,
        labels=request.labels,
        priority=request.priority,
        peak_bytes=peak_bytes,
        created_at=current_time(session),
    )
    repository.insert(session, job)
    return job


def verdict(refusals: Sequence[AppError], needs: Needs | None = None) -> dict[str, Any]:
    """Return the fields of `schemas.Validation`: reasons for a refusal, and the estimated cost."""
    errors = [item for refusal in refusals for item in error_items(refusal)]
    return {"valid": not errors, "estimate": needs, "errors": errors}


def error_items(refusal: AppError) -> list[dict[str, Any]]:
    """Return the errors of a refusal, or the refusal itself as one error."""
    items = refusal.errors or [ErrorItem(code=refusal.code, detail=refusal.detail)]
    return [item.model_dump(exclude_none=True) for item in items]
