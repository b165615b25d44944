"""Reads labels of any type: text, numbers and booleans as classes, or real numbers as targets."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.errors import InvalidProblem
from solvers.linalg.types import Floats

__all__ = ["Labels", "read_labels"]


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels as sorted classes with each row's class number, or as real numbers without classes."""

    classes: NDArray[Any]
    codes: NDArray[np.intp]
    values: Floats | None = None

    @property
    def n_rows(self) -> int:
        return self.codes.size if self.values is None else self.values.size

    @property
    def n_classes(self) -> int | None:
        return None if self.values is not None else self.classes.size


def read_labels(y: object, task: str) -> Labels:
    """Read labels of any type. With task auto, floats that are not whole numbers mean regression."""
    array = np.asarray(y)
    if array.ndim != 1:
        raise InvalidProblem("y", f"has {array.ndim} dimensions; one label per row is needed")
    if array.size == 0:
        raise InvalidProblem("y", "is empty; one label per row is needed")
    if array.dtype.kind not in "biufUSO":
        raise InvalidProblem("y", f"holds {array.dtype} values; use text, numbers or booleans as labels")
    if array.dtype.kind == "U" and isinstance(y, list | tuple) and not set(map(type, y)) <= {str, np.str_}:
        raise InvalidProblem("y", "mixes text with other labels; give all labels one type")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array))[0])
        raise InvalidProblem("y", f"row {row} (counted from 0) is NaN or infinite; drop such rows or correct the label")
    if task in ("ordinal", "regression") and array.dtype.kind not in "iuf":
        raise InvalidProblem(
            "y", f"labels of task {task} are numbers; these hold {array.dtype} values; encode them as numbers"
        )
    if array.dtype.kind == "O":
        return _read_object_labels(array)
    if task == "regression":
        return _real_labels(array)
    classes, codes = _sorted_classes(array)
    fractional = array.dtype.kind == "f" and bool((classes != np.round(classes)).any())
    if task == "auto" and classes.size > 2 and fractional:
        return _real_labels(array)
    return Labels(classes, codes)


def _sorted_classes(array: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Do the same as np.unique, but without sorting if there are only two different numbers."""
    if array.dtype.kind in "biuf":
        ends = np.array([array.min(), array.max()])
        is_last = array == ends[1]
        if ends[0] != ends[1] and np.count_nonzero(is_last) + np.count_nonzero(array == ends[0]) == array.size:
            return ends, is_last.astype(np.intp)
    return np.unique(array, return_inverse=True)


def _real_labels(array: NDArray[Any]) -> Labels:
    return Labels(array[:0], np.empty(0, dtype=np.intp), array.astype(np.float64))


def _read_object_labels(array: NDArray[Any]) -> Labels:
    try:
        classes, codes = np.unique(array, return_inverse=True)
    except TypeError:
        raise InvalidProblem("y", "mixes labels that cannot be sorted; give all labels one type") from None
    if any(label is None or label != label for label in classes):
        raise InvalidProblem("y", "has missing labels; drop those rows first")
    return Labels(classes, codes)
