"""A training problem: the rows, their signs and costs, in the exact dtypes that the kernels expect.

    P(w, b) = 1/2 |w|^2 (+ 1/2 (b / bias_scale)^2 if the bias is regularised)
              + sum_i costs_i * max(0, 1 - signs_i (w . x_i + b)) ^ exponent

This module turns what a user gave (any labels, class and sample weights) into that form and rejects
what has no meaning.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import InvalidProblem
from .rows import Floats, Rows, read_only
from .setting import Setting

__all__ = ["Labels", "Problem", "build_problem", "read_labels"]


@dataclass(frozen=True, eq=False)
class Problem:
    """What a method is given to solve. All arrays are read-only."""

    setting: Setting
    data: Rows
    classes: NDArray[Any]
    """The labels as they came, sorted; a positive score means `classes[1]`."""
    signs: Floats
    """y_i: +1 for rows of `classes[1]`, -1 for the others."""
    costs: Floats
    """C_i: C times class and sample weight (over the sum of sample weights if c_scale is mean)."""
    total_cost: float
    """sum_i C_i, which is also P(0, 0)."""

    @property
    def bias_feature(self) -> float:
        """The value of the constant feature that stands for a regularised bias; 0 without one."""
        return self.setting.bias_scale if self.setting.bias == "regularized" else 0.0

    def weights_of(self, alpha: Floats) -> Floats:
        """w(alpha) = sum_i alpha_i y_i x_i, and in its last place the weight of the bias feature: one pass."""
        signed = alpha * self.signs
        w = np.empty(self.data.n_features + 1)
        self.data.weighted_column_sums(signed, w[:-1])
        w[-1] = self.bias_feature * float(signed.sum())
        return w


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels as classes (sorted) and each row's number in them, or as real numbers."""

    classes: NDArray[Any] | None
    codes: NDArray[np.intp] | None
    n_rows: int

    @property
    def n_classes(self) -> int | None:
        return None if self.classes is None else self.classes.size


def read_labels(y: object, task: str) -> Labels:
    """Labels of any type; floats that are not whole numbers mean regression if the task is left open."""
    array = np.asarray(y)
    if array.ndim != 1:
        raise InvalidProblem("y", f"has {array.ndim} dimensions; one label a row is needed")
    if array.size == 0:
        raise InvalidProblem("y", "is empty; one label a row is needed")
    if array.dtype.kind not in "biufUSO":
        raise InvalidProblem("y", f"holds {array.dtype} values; labels are text, numbers or booleans")
    if array.dtype.kind == "U" and isinstance(y, list | tuple) and not set(map(type, y)) <= {str, np.str_}:
        raise InvalidProblem("y", "mixes text with other labels; give all labels one type")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array))[0])
        raise InvalidProblem("y", f"row {row} (counted from 0) is NaN or infinite")
    if array.dtype.kind == "O":
        return _read_object_labels(array)
    classes, codes = np.unique(array, return_inverse=True)
    fractional = array.dtype.kind == "f" and bool((classes != np.round(classes)).any())
    if task == "regression" or (task == "auto" and classes.size > 2 and fractional):
        return Labels(None, None, array.size)
    return Labels(classes, codes, array.size)


def build_problem(
    setting: Setting,
    data: Rows,
    labels: Labels,
    *,
    sample_weight: object,
    class_weight: Mapping[object, float] | str | None,
) -> Problem:
    """The problem in the form of this module's docstring."""
    if labels.classes is None or labels.codes is None:
        raise InvalidProblem("y", "real-valued labels have no classes to separate")
    multipliers = _sample_multipliers(sample_weight, data.n_rows)
    weight_of_class = _class_multipliers(class_weight, labels.classes, labels.codes)
    scale = setting.C / float(multipliers.sum()) if setting.c_scale == "mean" else setting.C
    with np.errstate(over="ignore"):
        costs = scale * weight_of_class[labels.codes] * multipliers
        total_cost = float(costs.sum())
    if not np.isfinite(total_cost):
        raise InvalidProblem("C", "times the weights overflows; use smaller weights or a smaller C")
    if total_cost <= 0.0:
        raise InvalidProblem("class_weight", "leaves no row with a weight above zero")
    return Problem(
        setting=setting,
        data=data,
        classes=labels.classes,
        signs=read_only(np.where(labels.codes == 1, 1.0, -1.0)),
        costs=read_only(costs),
        total_cost=total_cost,
    )


def _read_object_labels(array: NDArray[Any]) -> Labels:
    try:
        classes, codes = np.unique(array, return_inverse=True)
    except TypeError:
        raise InvalidProblem("y", "mixes labels that cannot be sorted; give all labels one type") from None
    if any(label is None or label != label for label in classes):
        raise InvalidProblem("y", "has missing labels; drop those rows first")
    return Labels(classes, codes, array.size)


def _sample_multipliers(sample_weight: object, n_rows: int) -> Floats:
    if sample_weight is None:
        return np.ones(n_rows)
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidProblem("sample_weight", "must be numbers, one a row") from None
    if weights.shape != (n_rows,):
        raise InvalidProblem(
            "sample_weight", f"has shape {weights.shape}; one number for each of the {n_rows} rows is needed"
        )
    unusable = ~(np.isfinite(weights) & (weights >= 0.0))
    if unusable.any():
        row = int(np.flatnonzero(unusable)[0])
        raise InvalidProblem(
            "sample_weight",
            f"row {row} (counted from 0) is {weights[row]:g}; weights are finite and not negative",
        )
    if not weights.any():
        raise InvalidProblem("sample_weight", "is zero everywhere; at least one row must count")
    with np.errstate(over="ignore"):
        total = weights.sum()
    if not np.isfinite(total):
        raise InvalidProblem("sample_weight", "adds up to infinity; use smaller weights")
    return weights


def _class_multipliers(
    class_weight: Mapping[object, float] | str | None, classes: NDArray[Any], codes: NDArray[np.intp]
) -> Floats:
    if class_weight is None:
        return np.ones(classes.size)
    if isinstance(class_weight, str):
        return codes.size / (classes.size * np.bincount(codes, minlength=classes.size))
    # Tables that came as JSON have text for keys, so a label also answers to its text.
    number_of = {str(label): k for k, label in enumerate(classes.tolist())}
    number_of.update({label: k for k, label in enumerate(classes.tolist())})
    multipliers = np.ones(classes.size)
    for label, weight in class_weight.items():
        if label not in number_of:
            known = ", ".join(str(known)[:40] for known in classes[:10].tolist())
            raise InvalidProblem("class_weight", f"names {label!r:.60}, but the labels are {known}")
        multipliers[number_of[label]] = weight
    return multipliers
