"""Check that a job can use the dataset of its request."""

from sqlalchemy.orm import Session

from app.datasets import service as datasets
from app.db.tables import DatasetRow
from app.errors import AppError, Conflict, invalid_field


def ready_dataset(session: Session, field: str, dataset_id: str, *, labelled: bool = True) -> DatasetRow:
    """Return a dataset that is ready and, with `labelled`, has labels. Raises AppError otherwise."""
    dataset = datasets.find(session, dataset_id)
    if dataset is None:
        raise unknown_dataset(field)
    if dataset.status == "invalid":
        raise invalid_field(
            field, "dataset_invalid", "the file of this dataset is invalid; `GET /v1/datasets/{id}` shows why"
        )
    if dataset.status != "ready":
        detail = (
            f"{field}: the dataset is still being read; GET /v1/datasets/{dataset.id}?wait=60 waits until it is ready."
        )
        raise Conflict(detail, code="dataset_not_ready")
    if labelled and "y" not in dataset.arrays:
        detail = (
            "the dataset was uploaded with target=none and has no labels; "
            "`POST /v1/datasets/{id}/reread?target=<column>` reads the file with labels"
        )
        raise invalid_field(field, "no_labels", detail)
    return dataset


def unknown_dataset(field: str) -> AppError:
    return invalid_field(field, "unknown_dataset", "there is no such dataset; `GET /v1/datasets` lists them")
