"""The shapes of a dataset over HTTP."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

Label = str | int | float


class ClassCount(BaseModel):
    label: Label
    count: int


class Column(BaseModel):
    name: str
    role: Literal["feature", "target", "weight", "ignored"]


class FileWarning(BaseModel):
    code: str
    detail: str


class DatasetSummary(BaseModel):
    id: str
    name: str | None
    status: Literal["ready"]
    done: bool
    sha256: str = Field(description="of the uploaded bytes")
    bytes: int
    n_rows: int
    n_features: int
    nnz: int
    storage: Literal["dense", "csr"]
    task_hint: Literal["binary", "multiclass", "regression"]
    labels: dict[str, str]
    created_at: datetime


class Dataset(DatasetSummary):
    format: str
    classes: list[ClassCount] = Field(description="empty when the labels are real numbers")
    columns: list[Column] = Field(description="empty for libsvm files, whose columns have no names")
    warnings: list[FileWarning]
    deduplicated: bool = Field(False, description="these bytes and options were already here")
    error: None = None
