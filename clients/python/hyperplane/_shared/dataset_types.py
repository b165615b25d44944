"""Types of the answers about datasets and uploads. Fields that they do not name are kept as well (see `Answer`)."""

from datetime import datetime

from hyperplane._shared.answers import Answer

__all__ = [
    "ClassCount",
    "Column",
    "ColumnStatistics",
    "Dataset",
    "DatasetSummary",
    "Deleted",
    "Fault",
    "FileError",
    "FileWarning",
    "Issue",
    "Issues",
    "Label",
    "Preview",
    "Upload",
]

Label = str | int | float


class ClassCount(Answer):
    """A class and the number of its rows."""

    label: Label
    count: int


class Column(Answer):
    """A column of a dataset."""

    name: str
    role: str
    kind: str | None
    missing: int | None
    levels: int | None
    reason: str | None
    format: dict[str, str] | None


class FileWarning(Answer):
    """Something about a file or a model that its user should know."""

    code: str
    detail: str


class Fault(Answer):
    """One fault of a request or of an uploaded file."""

    code: str
    detail: str
    field: str | None
    line: int | None
    column: int | None


class FileError(Answer):
    """Why a file could not be read."""

    code: str
    message: str


class DatasetSummary(Answer):
    """A dataset in a list."""

    id: str
    name: str | None
    status: str
    done: bool
    sha256: str
    bytes: int
    n_rows: int | None
    n_features: int | None
    nnz: int | None
    storage: str | None
    task_hint: str | None
    labels: dict[str, str]
    created_at: datetime


class Dataset(DatasetSummary):
    """A dataset."""

    format: str
    classes: list[ClassCount]
    columns: list[Column]
    n_columns: int
    warnings: list[FileWarning]
    deduplicated: bool
    error: FileError | None
    errors: list[Fault]
    expires_at: datetime | None

    def _repr_html_(self) -> str:
        from hyperplane._shared.html import dataset_html

        return dataset_html(self)


class Preview(Answer):
    """The first rows of a dataset."""

    dataset_id: str
    n_rows: int
    n_features: int
    columns: list[str] | None
    target: str | None
    data: list[Answer]


class ColumnStatistics(Answer):
    """What is known about the values of a column."""

    index: int
    name: str | None
    kind: str
    count: int
    missing: int


class Issue(Answer):
    """A finding in a dataset, and its remedy."""

    code: str
    severity: str
    detail: str
    remedy: str
    rows: list[int]
    columns: list[str]


class Issues(Answer):
    """The findings in a dataset."""

    dataset_id: str
    data: list[Issue]


class Deleted(Answer):
    """A deletion."""

    id: str
    deleted: bool
    bytes_freed: int | None
    """None: the answer of the service was lost."""


class Upload(Answer):
    """A resumable upload."""

    id: str
    offset: int
    length: int | None
    complete: bool
    dataset_id: str | None
    created_at: datetime
    expires_at: datetime
