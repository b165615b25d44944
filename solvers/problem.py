"""A training problem: the rows with their targets and costs, in the exact dtypes that the kernels expect.

    Problem
      BinaryProblem       1/2 |w|^2 + 1/2 (b / bias_scale)^2 + sum_i C_i max(0, 1 - y_i (w . x_i + b))^p
      MulticlassProblem   1/2 |W|^2 + 1/2 |b / bias_scale|^2 + sum_i C_i max_m ([m != y_i] + f_m(x_i) - f_yi(x_i))
      OrdinalProblem      1/2 |w|^2 + sum over pairs (y_i > y_j, same group) of C_ij max(0, 1 - w . (x_i - x_j))

The term of b is there if the bias is regularised. This module turns what a user gave (any labels, class and
sample weights, groups) into that form and rejects what has no meaning.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import InvalidProblem
from .rows import Floats, Rows, read_only
from .setting import Setting

__all__ = [
    "BinaryProblem",
    "Labels",
    "MulticlassProblem",
    "OrdinalProblem",
    "Problem",
    "build_problem",
    "read_labels",
]


@dataclass(frozen=True, eq=False)
class Problem:
    """What a method is given to solve. All arrays are read-only."""

    setting: Setting
    data: Rows
    classes: NDArray[Any]
    """The labels as they came, sorted."""
    costs: Floats
    """C_i: C times class and sample weight (over the sum of sample weights if c_scale is mean)."""
    total_cost: float
    """P(0, 0), which is the sum of the costs of all rows or pairs."""

    @property
    def bias_feature(self) -> float:
        """The value of the constant feature that stands for a regularised bias; 0 without one."""
        return self.setting.bias_scale if self.setting.bias == "regularized" else 0.0

    @property
    def primal_floor(self) -> float:
        """The primal value below which gaps are measured against the costs instead."""
        return 1e-12 * self.total_cost


@dataclass(frozen=True, eq=False)
class BinaryProblem(Problem):
    """Two classes; a positive score means `classes[1]`."""

    signs: Floats
    """y_i: +1 for rows of `classes[1]`, -1 for the others."""

    def weights_of(self, alpha: Floats) -> Floats:
        """w(alpha) = sum_i alpha_i y_i x_i, and in its last place the weight of the bias feature: one pass."""
        signed = alpha * self.signs
        w = np.empty(self.data.n_features + 1)
        self.data.weighted_column_sums(signed, w[:-1])
        w[-1] = self.bias_feature * float(signed.sum())
        return w


@dataclass(frozen=True, eq=False)
class MulticlassProblem(Problem):
    """Any number of classes, one weight vector each, trained jointly (Crammer and Singer)."""

    codes: NDArray[np.int32]
    """Each row's position in `classes`."""


@dataclass(frozen=True, eq=False)
class OrdinalProblem(Problem):
    """Rows in an order to be learned; only rows of one group are compared, and equal ranks are no pair.

    `costs` are the sample weights s_i here, and a pair costs C_ij = pair_scale s_i s_j.
    """

    ranks: NDArray[np.int32]
    """Each row's position in `classes`, which are numbers."""
    groups: NDArray[np.int32]
    """Each row's group, counted from 0."""
    pair_scale: float


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
    if array.dtype.kind == "O" and task != "ordinal":
        return _read_object_labels(array)
    classes, codes = np.unique(array, return_inverse=True)
    if task == "ordinal" and array.dtype.kind not in "iuf":
        raise InvalidProblem("y", "ordinal labels are compared as numbers; give each rank a number")
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
    groups: object = None,
) -> Problem:
    """The problem in the form of this module's docstring."""
    if labels.classes is None or labels.codes is None:
        raise InvalidProblem("y", "real-valued labels have no classes to separate")
    multipliers = _sample_multipliers(sample_weight, data.n_rows)
    if setting.task == "ordinal":
        return _ordinal_problem(setting, data, labels.classes, labels.codes, multipliers, groups)
    weight_of_class = _class_multipliers(class_weight, labels.classes, labels.codes)
    scale = setting.C / float(multipliers.sum()) if setting.c_scale == "mean" else setting.C
    with np.errstate(over="ignore"):
        costs = scale * weight_of_class[labels.codes] * multipliers
        total_cost = float(costs.sum())
    _reject_useless_costs(total_cost, "class_weight", "leaves no row with a weight above zero")
    common = setting, data, labels.classes, read_only(costs), total_cost
    if setting.task == "multiclass":
        return MulticlassProblem(*common, codes=read_only(labels.codes.astype(np.int32)))
    return BinaryProblem(*common, signs=read_only(np.where(labels.codes == 1, 1.0, -1.0)))


def _ordinal_problem(
    setting: Setting, data: Rows, classes: NDArray[Any], ranks: NDArray[np.intp], multipliers: Floats, groups: object
) -> OrdinalProblem:
    codes = _group_codes(groups, data.n_rows)
    weight = _weight_of_pairs(ranks, codes, multipliers)
    if weight <= 0.0:
        raise InvalidProblem("groups", "have no two rows of different rank (and weight above zero) in any one group")
    pair_scale = setting.C / weight if setting.c_scale == "mean" else setting.C
    total_cost = pair_scale * weight
    _reject_useless_costs(total_cost, "C", "times the weight of all pairs is too small; use a larger C")
    return OrdinalProblem(
        setting=setting,
        data=data,
        classes=classes,
        costs=read_only(multipliers),
        total_cost=total_cost,
        ranks=read_only(ranks.astype(np.int32)),
        groups=read_only(codes.astype(np.int32)),
        pair_scale=pair_scale,
    )


def _reject_useless_costs(total_cost: float, argument: str, why_zero: str) -> None:
    if not np.isfinite(total_cost):
        raise InvalidProblem("C", "times the weights overflows; use smaller weights or a smaller C")
    if total_cost <= 0.0:
        raise InvalidProblem(argument, why_zero)


def _group_codes(groups: object, n_rows: int) -> NDArray[np.intp]:
    if groups is None:
        return np.zeros(n_rows, dtype=np.intp)
    array = np.asarray(groups)
    if array.shape != (n_rows,):
        raise InvalidProblem("groups", f"has shape {array.shape}; one group for each of the {n_rows} rows is needed")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array))[0])
        raise InvalidProblem("groups", f"row {row} (counted from 0) is NaN or infinite")
    try:
        return np.unique(array, return_inverse=True)[1]
    except TypeError:
        raise InvalidProblem("groups", "mixes values that cannot be sorted; give all groups one type") from None


def _weight_of_pairs(ranks: NDArray[np.intp], groups: NDArray[np.intp], multipliers: Floats) -> float:
    """The sum of s_i s_j over all pairs: half of (a group's weight squared - its ranks' weights squared)."""
    _, cells = np.unique(groups * (int(ranks.max()) + 1) + ranks, return_inverse=True)
    of_cells, of_groups = np.bincount(cells, multipliers), np.bincount(groups, multipliers)
    group_of_cell = np.zeros(of_cells.size, dtype=np.intp)
    group_of_cell[cells] = groups
    # Each cell against the rest of its group, so that no large squares are subtracted from each other.
    return 0.5 * float((of_cells * (of_groups[group_of_cell] - of_cells)).sum())


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
