"""Opens the arrays of a stored dataset. Arrays are memory-mapped; only the names of categories are copied."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from app.datasets.schemas import Label
from app.db.tables import DatasetRow
from app.storage import BlobStore
from app.tabular.cell_format import CellFormat
from app.tabular.frame import Beside, Column, Frame, Strings

LEFT_OUT = "ignored"
"""Prefix of the arrays of columns that were left out."""
SAMPLED_NUMBERS, SAMPLED_PARTS = 4096, 16


@dataclass(frozen=True)
class DatasetArrays:
    """The features of a dataset, its target y as numbers, and the label of each value of y. Without labels, y is NaN.

    `group` is the number of each row's group. Groups are numbered from 0 in order of appearance, and their rows need
    not be adjacent.
    """

    frame: Frame
    y: np.ndarray[Any, Any]
    weight: np.ndarray[Any, Any] | None
    group: np.ndarray[Any, Any] | None
    label_names: Sequence[str] | None

    @property
    def X(self) -> Any:  # noqa: N802
        """Return the features as numbers, dense or CSR. `app/tabular/frame.py` defines how columns that are not numeric
        are encoded."""
        return self.frame.X

    def label(self, value: Any) -> Label:
        """Return the label, as written in the file, of a value of y."""
        if self.label_names is not None:
            return self.label_names[int(value)]
        number = float(value)
        return int(number) if number.is_integer() else number

    def codes(self, classes: Sequence[Label]) -> np.ndarray[Any, Any]:
        """Return the position of each row's label in `classes`."""
        values = np.unique(self.y)
        positions = {label: position for position, label in enumerate(classes)}
        lookup = np.array([positions[self.label(value)] for value in values], dtype=np.int64)
        return lookup[np.searchsorted(values, self.y)]

    def rows(self, chosen: np.ndarray[Any, Any]) -> "DatasetArrays":
        weight = None if self.weight is None else self.weight[chosen]
        group = None if self.group is None else self.group[chosen]
        return replace(self, frame=self.frame.rows(chosen), y=self.y[chosen], weight=weight, group=group)


def mean_squared_norm(blobs: BlobStore, dataset: DatasetRow) -> float | None:
    """Return the mean of |x|^2 over a sample of rows, for estimates of training time; None if it is unknown."""
    try:
        values = blobs.map_array(dataset.arrays["data" if dataset.storage == "csr" else "X"]).reshape(-1)
    except OSError:
        return None  # the worker reports missing files
    parts = np.linspace(0, max(0, len(values) - SAMPLED_NUMBERS), SAMPLED_PARTS).astype(np.int64)
    sampled = np.concatenate([values[start : start + SAMPLED_NUMBERS] for start in parts]).astype(np.float64)
    with np.errstate(over="ignore"):
        mean = float(np.square(sampled).mean()) * len(values) / max(1, dataset.n_rows) if len(sampled) else 0.0
    return mean if 0.0 < mean < np.inf else None


def open_arrays(
    blobs: BlobStore, dataset: DatasetRow, features: Sequence[dict[str, Any]] | None = None, *, whole: bool = False
) -> DatasetArrays:
    """Open the arrays of a dataset. `features` are the stored descriptions of its features, or of the first ones.

    With `whole`, the frame also has the columns that were left out when the file was read, after the features. A model
    that was trained on another file can need them.
    """
    shown = None if features is None else len(features)
    arrays = {
        name: blobs.load_array(sha256) if ".levels." in f".{name}" else blobs.map_array(sha256)
        for name, sha256 in dataset.arrays.items()
        if _is_wanted(name, shown, whole)
    }
    if dataset.storage == "csr":
        # scipy needs row pointers and indices of one type. Converting the row pointers copies less than converting the
        # indices.
        starts = arrays["indptr"].astype(np.int32) if dataset.nnz <= np.iinfo(np.int32).max else arrays["indptr"]
        parts = (arrays["data"], arrays["indices"], starts)
        matrix: Any = sp.csr_array(parts, shape=(dataset.n_rows, dataset.n_features), copy=False)
    else:
        matrix = arrays["X"]
    if features is None:
        features = [column for column in dataset.columns or () if column["role"] == "feature"]
    columns = [_column(arrays, number, column) for number, column in enumerate(features)]
    texts = {j: strings for j in range(len(columns)) if (strings := _strings(arrays, f"text.{j}"))}
    frame = Frame(matrix, columns, texts)
    if whole and f"{LEFT_OUT}.X" in arrays:
        frame = _with_left_out(frame, arrays, left_out_columns(dataset))
    y = arrays["y"] if "y" in arrays else np.broadcast_to(np.nan, dataset.n_rows)
    return DatasetArrays(frame, y, arrays.get("weight"), arrays.get("group"), dataset.label_names)


def left_out_columns(dataset: DatasetRow) -> list[dict[str, Any]]:
    """Return the stored descriptions of the columns that were left out when the file was read, but are stored. A column
    that the client named in `ignore` has no kind and is not stored."""
    return [column for column in dataset.columns or () if column["role"] == "ignored" and "kind" in column]


def _is_wanted(name: str, shown: int | None, whole: bool) -> bool:
    if name.startswith(f"{LEFT_OUT}."):
        return whole
    return shown is None or "." not in name or int(name.split(".")[1]) < shown


def _with_left_out(frame: Frame, arrays: Mapping[str, Any], stored: Sequence[dict[str, Any]]) -> Frame:
    parts = {name.removeprefix(f"{LEFT_OUT}."): array for name, array in arrays.items() if name.startswith(LEFT_OUT)}
    more = [_column(parts, number, column) for number, column in enumerate(stored)]
    found = ((number, _strings(parts, f"text.{number}")) for number in range(len(more)))
    texts = {frame.n_features + number: strings for number, strings in found if strings is not None}
    columns = [*frame.columns, *more]
    return Frame(Beside(frame.X, parts["X"]), columns, {**frame.texts, **texts})


def open_columns(blobs: BlobStore, dataset: DatasetRow, features: Sequence[dict[str, Any]], first: int) -> list[Column]:
    """Open the features of a dataset that follow the first `first` ones, with the names of their categories."""
    found = []
    for number, feature in enumerate(features, first):
        names = [f"levels.{number}.{part}" for part in ("bytes", "offsets")]
        arrays = {name: blobs.load_array(dataset.arrays[name]) for name in names if name in dataset.arrays}
        found.append(_column(arrays, number, feature))
    return found


def _column(arrays: Mapping[str, Any], number: int, stored: dict[str, Any]) -> Column:
    levels = _strings(arrays, f"levels.{number}")
    return Column(stored["name"], stored.get("kind", "numeric"), levels, CellFormat.of(stored.get("format")))


def _strings(arrays: Mapping[str, Any], name: str) -> Strings | None:
    if f"{name}.offsets" not in arrays:
        return None
    return Strings.stored(arrays[f"{name}.bytes"], arrays[f"{name}.offsets"])
