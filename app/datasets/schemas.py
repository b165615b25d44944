"""The shapes of a dataset over HTTP."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from app.errors import ErrorItem
from app.tabular.frame import Kind

Label = str | int | float
Status = Literal["processing", "ready", "invalid"]
TaskHint = Literal["binary", "multiclass", "regression"]


class ClassCount(BaseModel):
    label: Label
    count: int


class Column(BaseModel):
    name: str
    role: Literal["feature", "target", "weight", "group", "ignored"]
    kind: Kind | None = Field(None, description="what it holds; null: it is ignored")
    missing: int | None = Field(None, description="how many of its cells have no value")
    levels: int | None = Field(None, description="how many different values a categorical column has")
    reason: str | None = Field(None, description="how its kind was guessed")


class FileWarning(BaseModel):
    code: str
    detail: str


class DatasetError(BaseModel):
    code: str
    message: str


class DatasetSummary(BaseModel):
    id: str
    name: str | None
    status: Status
    done: bool = Field(description="ready or invalid: nothing will change any more")
    sha256: str = Field(description="of the uploaded bytes")
    bytes: int
    n_rows: int | None = Field(description="this and the next four: null until the file has been read")
    n_features: int | None
    nnz: int | None
    storage: Literal["dense", "csr"] | None
    task_hint: TaskHint | None
    labels: dict[str, str]
    created_at: datetime


class Dataset(DatasetSummary):
    format: str
    classes: list[ClassCount] = Field(description="empty when the labels are real numbers")
    columns: list[Column] = Field(
        description="the first 1000, features first; `GET …/columns` pages through all of them. Empty for files "
        "without names whose features are all numbers, like libsvm"
    )
    n_columns: int = Field(description="how many `columns` there are in all")
    warnings: list[FileWarning]
    deduplicated: bool = Field(False, description="these bytes and options were already here")
    error: DatasetError | None = Field(None, description="why the file is invalid")
    errors: list[ErrorItem] = Field([], description="the first places where the file is invalid")
    expires_at: datetime | None = Field(None, description="when an invalid dataset is forgotten")


class Deleted(BaseModel):
    id: str
    deleted: Literal[True] = True
    bytes_freed: int = Field(description="of files that nothing else needs")


class PreviewRow(BaseModel):
    label: Label
    values: list[bool | float | str | None] = Field(
        description="null: missing; dates as ISO 8601; texts are cut at 1000 characters"
    )
    indices: list[int] | None = Field(description="columns of the values in a sparse dataset; null: all, in order")
    weight: float | None
    group: int | None


class Preview(BaseModel):
    dataset_id: str
    n_rows: int
    n_features: int
    columns: list[str] | None = Field(description="names of the features that are shown; null: they have none")
    target: str | None
    data: list[PreviewRow]


class Quantiles(BaseModel):
    """Values below which this share of the column lies; estimated from a sample of the rows if there are many."""

    q05: float | None
    q25: float | None
    q50: float | None
    q75: float | None
    q95: float | None


class Histogram(BaseModel):
    """Ten ranges of equal width from min to max; every value is counted."""

    edges: list[float]
    counts: list[int]


class LevelCount(BaseModel):
    level: str
    count: int


class Range(BaseModel):
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    std: float | None = Field(None, description="of the population: divided by count")
    quantiles: Quantiles | None = None


class ColumnStatistics(Range):
    """One feature. A figure that is too large to compute, or that says nothing of its kind, is null.

    Dates count as seconds since 1970-01-01 UTC.
    """

    index: int
    name: str | None
    kind: Kind
    count: int = Field(description="rows that have a value")
    missing: int
    zeros: int | None = None
    histogram: Histogram | None = None
    levels: int | None = Field(None, description="categorical: how many different values there are")
    top: list[LevelCount] | None = Field(None, description="categorical: the most frequent of them")
    length: Range | None = Field(None, description="text: of the number of characters")


class Issue(BaseModel):
    """Something about the data that makes training fail, mislead or crawl."""

    code: str
    severity: Literal["error", "warning", "info"]
    detail: str
    remedy: str
    count: int | None = Field(None, description="how many rows or columns are concerned")
    rows: list[int] = Field([], description="the first of them, from 0")
    columns: list[str] = Field([], description="the first of them: names, or numbers from 0 where there are none")


class Issues(BaseModel):
    dataset_id: str
    data: list[Issue] = Field(description="worst first; empty: nothing was found")
