"""Response schemas of `/v1/datasets`."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from app.errors import ErrorItem
from app.tabular.frame import Kind
from app.web.fields import CreatedAt, DatasetId, LabelsShown

Label = str | int | float
Status = Literal["processing", "ready", "invalid"]
TaskHint = Literal["binary", "multiclass", "regression"]

RowCount = Annotated[int, Field(description="Number of rows with this value.")]


class ClassCount(BaseModel):
    """A class and its number of rows."""

    label: Label = Field(description="Label of the class.")
    count: RowCount


class CellFormat(BaseModel):
    """How the numbers or dates of a column are written. A model reads the cells of a request in the same way."""

    decimal: Literal[".", ","] = Field(".", description="Decimal sign.")
    thousands: Literal["", ",", ".", " ", "'"] = Field("", description="Separator of thousands; empty: none.")
    unit: str | None = Field(None, description="Currency code or `%` beside the numbers; null: none.")
    date_order: Literal["ymd", "dmy", "mdy"] = Field(
        "ymd", description="Order of year, month and day in dates that do not begin with the year."
    )


class Column(BaseModel):
    """A column of the uploaded file."""

    name: str = Field(description="Name from the header; for files without names, the number of the column.")
    role: Literal["feature", "target", "weight", "group", "ignored"] = Field(description="What the column is used for.")
    kind: Kind | None = Field(None, description="Kind of the values; null: `ignore` names the column.")
    missing: int | None = Field(None, description="Number of rows without a value.")
    levels: int | None = Field(None, description="Number of different values of a categorical column.")
    reason: str | None = Field(
        None, description="Reason for the kind, with the number of cells that show it; or why the column was left out."
    )
    format: CellFormat | None = Field(
        None, description="How the numbers or dates are written; null: as 1234.5 and 2024-05-31."
    )


class FileWarning(BaseModel):
    """Something in the file that the service had to guess or that looks wrong."""

    code: str = Field(description="Code of the warning, for programs.")
    detail: str = Field(description="The warning, in a sentence.")


class DatasetError(BaseModel):
    """Why a dataset is invalid."""

    code: str = Field(description="Error code; `/docs/errors` explains each of them.")
    message: str = Field(description="What is wrong with the file, in a sentence.")


class DatasetSummary(BaseModel):
    """A dataset in a list. `GET /v1/datasets/{dataset_id}` has all fields."""

    id: DatasetId
    name: str | None = Field(description="Name that the upload request set; null: none.")
    status: Status = Field(description="`processing` while the file is parsed, then `ready` or `invalid`.")
    done: bool = Field(description="True once the status is `ready` or `invalid`, which is final.")
    sha256: str = Field(description="SHA-256 of the uploaded bytes, in hexadecimal.")
    bytes: int = Field(description="Size of the uploaded file in bytes.")
    n_rows: int | None = Field(description="Number of rows; null until the file is parsed.")
    n_features: int | None = Field(description="Number of feature columns; null until the file is parsed.")
    nnz: int | None = Field(description="Number of nonzero values; null until the file is parsed.")
    storage: Literal["dense", "csr"] | None = Field(
        description="Storage of the features: dense matrix or sparse rows (CSR); null until the file is parsed."
    )
    task_hint: TaskHint | None = Field(
        description="Task that the labels suggest. Jobs with `task: auto` use it. null until the file is parsed, and "
        "without labels."
    )
    labels: LabelsShown
    created_at: CreatedAt


class Dataset(DatasetSummary):
    """An uploaded dataset."""

    format: str = Field(description="Format of the file: `csv`, `tsv`, `libsvm`, `ndjson`, `parquet`, `arrow`, `npz`.")
    classes: list[ClassCount] = Field(description="Classes with their numbers of rows; empty for real-valued labels.")
    columns: list[Column] = Field(
        description="The first 1000 columns, features first; `GET …/columns` lists all of them. Empty for files "
        "without names whose features are all numbers, such as libsvm."
    )
    n_columns: int = Field(description="Number of all columns.")
    warnings: list[FileWarning] = Field(
        description="What the service had to guess about the file, and what looks wrong."
    )
    deduplicated: bool = Field(
        False,
        description="True if the same bytes were uploaded before with the same options. The response then is "
        "that dataset.",
    )
    error: DatasetError | None = Field(None, description="Why the file is invalid; null: it is not invalid.")
    errors: list[ErrorItem] = Field([], description="The first places where the file is invalid.")
    expires_at: datetime | None = Field(
        None, description="Time when an invalid dataset is deleted; null: it is not invalid."
    )


class Deleted(BaseModel):
    """Confirmation that a dataset was deleted."""

    id: DatasetId
    deleted: Literal[True] = Field(True, description="Always true.")
    bytes_freed: int = Field(
        description="Total size in bytes of the deleted files. Files that other datasets or models need are kept."
    )


class PreviewRow(BaseModel):
    """A row of the dataset."""

    label: Label | None = Field(description="Label of the row; null: the dataset has no labels.")
    values: list[bool | float | str | None] = Field(
        description="Values of the shown columns. null: missing. Dates are ISO 8601. Texts are cut at 1000 characters."
    )
    indices: list[int] | None = Field(
        description="Column numbers of the values, from 0, in a sparse dataset; null: all columns in order."
    )
    weight: float | None = Field(description="Weight of the row; null: the dataset has no weights.")
    group: int | None = Field(description="Number of the row's group; null: the dataset has no groups.")


class Preview(BaseModel):
    """The first rows of a dataset."""

    dataset_id: DatasetId
    n_rows: int = Field(description="Number of rows of the dataset.")
    n_features: int = Field(description="Number of features of the dataset.")
    columns: list[str] | None = Field(description="Names of the shown features; null: they have no names.")
    target: str | None = Field(description="Name of the target column; null: it has no name, or there is none.")
    data: list[PreviewRow] = Field(description="The rows, in the order of the file.")


class Quantiles(BaseModel):
    """Quantiles of a column, estimated from a sample if the dataset has more than 20,000 rows."""

    q05: float | None = Field(description="Value below which 5 % of the values lie; null: unknown.")
    q25: float | None = Field(description="Value below which 25 % of the values lie; null: unknown.")
    q50: float | None = Field(description="Median; null: unknown.")
    q75: float | None = Field(description="Value below which 75 % of the values lie; null: unknown.")
    q95: float | None = Field(description="Value below which 95 % of the values lie; null: unknown.")


class Histogram(BaseModel):
    """Histogram of a column: ten bins of equal width from the minimum to the maximum."""

    edges: list[float] = Field(description="The 11 edges of the bins, ascending.")
    counts: list[int] = Field(description="Number of values in each bin.")


class LevelCount(BaseModel):
    """A value of a categorical column and its number of rows."""

    level: str = Field(description="The value.")
    count: RowCount


class Range(BaseModel):
    """Minimum, maximum, mean, standard deviation and quantiles of numbers."""

    min: float | None = Field(None, description="Smallest value; null: none, or not meaningful for this kind.")
    max: float | None = Field(None, description="Largest value; null: none, or not meaningful for this kind.")
    mean: float | None = Field(None, description="Arithmetic mean; null: too large to compute, or not meaningful.")
    std: float | None = Field(
        None, description="Standard deviation of the population (divided by count); null as for the mean."
    )
    quantiles: Quantiles | None = Field(None, description="Quantiles; null: not meaningful for this kind.")


class ColumnStatistics(Range):
    """Statistics of one feature. A figure that is too large to compute or not meaningful for the kind is null.

    Dates count as seconds since 1970-01-01 UTC.
    """

    index: int = Field(description="Number of the feature, from 0.")
    name: str | None = Field(description="Name of the feature; null: the file has no names.")
    kind: Kind = Field(description="Kind of the values.")
    count: int = Field(description="Number of rows with a value.")
    missing: int = Field(description="Number of rows without a value.")
    zeros: int | None = Field(None, description="Number of zeros; null: not a numeric column.")
    histogram: Histogram | None = Field(None, description="Distribution of the values; null: not a numeric column.")
    levels: int | None = Field(None, description="Number of different values of a categorical column.")
    top: list[LevelCount] | None = Field(None, description="The most frequent values of a categorical column.")
    length: Range | None = Field(
        None, description="Statistics of the lengths, in characters, of the texts of a text column."
    )


class Issue(BaseModel):
    """A property of the data that makes training fail, slow or misleading."""

    code: str = Field(description="Code of the issue, for programs.")
    severity: Literal["error", "warning", "info"] = Field(
        description="`error`: training fails. `warning`: the model can be poor. `info`: no action is needed."
    )
    detail: str = Field(description="What was found, in a sentence.")
    remedy: str = Field(description="What to do about it.")
    count: int | None = Field(None, description="Number of affected rows or columns; null: not counted.")
    rows: list[int] = Field([], description="The first affected rows, from 0.")
    columns: list[str] = Field(
        [], description="The first affected columns: their names or, in files without names, their numbers from 0."
    )


class Issues(BaseModel):
    """The issues of a dataset."""

    dataset_id: DatasetId
    data: list[Issue] = Field(description="Issues, the worst first; empty: none was found.")
