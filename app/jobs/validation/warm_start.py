"""A job that starts from the weights of a model: which version that is, and whether its weights mean the same here."""

from sqlalchemy.orm import Session

from app.db.tables import DatasetRow
from app.errors import Invalid, NotFound, invalid_field
from app.jobs.schemas import TrainRequest
from app.jobs.validation.preprocessing import resolve
from app.jobs.validation.task import CLASS_TASKS
from app.models import file
from app.models import service as models
from app.storage import BlobStore


def settled(session: Session, request: TrainRequest) -> TrainRequest:
    """The request with the version that its reference means now; a newer one does not change the job."""
    if request.warm_start is None:
        return request
    return request.model_copy(update={"warm_start": models.locate(session, request.warm_start).id})


def check(session: Session, blobs: BlobStore, request: TrainRequest, dataset: DatasetRow, task: str) -> None:
    """Refuse weights of another task, of other classes or of other features."""
    if request.warm_start is None:
        return
    try:
        model = models.resolve(session, request.warm_start)
    except NotFound:
        raise _refusal("unknown_model", "there is no such model") from None
    if model.task != task:
        raise _refusal("task_mismatch", f"it is a model of task {model.task}, and this job's task is {task}")
    header, _ = file.read_header(blobs.path(model.blob))
    if task in CLASS_TASKS and set(header.classes) != {one["label"] for one in dataset.classes}:
        raise _refusal("class_mismatch", "it was trained on other classes than the dataset has")
    if header.preprocess is None and resolve(request, dataset) is None:
        _check_features(header, dataset)


def _check_features(header: file.Header, dataset: DatasetRow) -> None:
    if header.n_features != dataset.n_features:
        detail = f"it has {header.n_features} features, and the dataset {dataset.n_features}"
        raise _refusal("feature_mismatch", detail)
    names = [column["name"] for column in dataset.columns if column["role"] == "feature"]
    if names and header.feature_names and names != header.feature_names:
        raise _refusal("feature_mismatch", "its features have other names, or another order, than the dataset's")


def _refusal(code: str, detail: str) -> Invalid:
    return invalid_field("warm_start", code, detail)
