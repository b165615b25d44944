"""Code that the job types that train a model share (train, tune, race): checks, the estimate and queueing."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from sqlalchemy.orm import Session

from app.db.tables import DatasetRow, JobRow
from app.errors import AppError
from app.jobs.admission import Admission, Needs
from app.jobs.result_schemas import JobResult
from app.jobs.schemas import SplitByDataset
from app.jobs.submission import JobType, enqueue, verdict
from app.jobs.validation.named_dataset import ready_dataset
from app.jobs.validation.training import TEST_DATASET
from app.storage import BlobStore

Asked = TypeVar("Asked", bound=Any)
"""A request body: JobOptions with the fields of TrainingTarget and RunLimits."""
Refusals = Callable[[Session, Asked, DatasetRow, BlobStore], Iterable[AppError]]
Estimate = Callable[[Session, Asked, DatasetRow, Admission], Needs]
Settle = Callable[[Session, Asked], Asked]


def training_type(
    request: type[Asked],
    refusals: Refusals[Asked],
    estimate: Estimate[Asked],
    *,
    result: type[JobResult],
    settle: Settle[Asked] = lambda _, request: request,
) -> JobType[Asked]:
    """Build a job type that trains a model.

    `refusals` yields all reasons to refuse a request that are visible without reading rows. `settle` resolves
    references of an accepted request, so that later changes do not alter the job.
    """

    def submit(session: Session, request: Asked, admission: Admission) -> JobRow:
        dataset = ready_dataset(session, "dataset_id", request.dataset_id)
        for refusal in refusals(session, request, dataset, admission.blobs):
            raise refusal
        needs, split = estimate(session, request, dataset, admission), request.split
        admission.admit(needs.peak_bytes)
        return enqueue(
            session,
            settle(session, request),
            dataset,
            peak_bytes=needs.peak_bytes,
            model_name=request.model or dataset.name,
            other_datasets={TEST_DATASET: split.test_dataset_id} if isinstance(split, SplitByDataset) else None,
        )

    def validate(session: Session, request: Asked, admission: Admission) -> dict[str, Any]:
        """List all errors of a request, not only the first, with the estimate even where it exceeds the budget."""
        needs: Needs | None = None
        try:
            dataset = ready_dataset(session, "dataset_id", request.dataset_id)
            found = list(refusals(session, request, dataset, admission.blobs))
            if not found:
                needs = estimate(session, request, dataset, admission)
                admission.admit(needs.peak_bytes)
        except AppError as refusal:
            found = [refusal]
        return verdict(found, needs)

    return JobType(request, submit, validate, result=result, has_interim_model=True)
