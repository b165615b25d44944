"""Builds a problem from the user's labels, class weights, sample weights and groups; rejects meaningless input."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from solvers.data.rows import Rows, read_only
from solvers.errors import InvalidProblem
from solvers.linalg.types import Floats
from solvers.problem.labels import Labels
from solvers.problem.problems import BinaryProblem, MulticlassProblem, OrdinalProblem, Problem, RegressionProblem
from solvers.problem.spec import ProblemSpec

__all__ = ["build_problem", "one_against_rest"]

COST_ERROR = 2.0**-46
"""Bound on the relative rounding error of a cost that does not underflow. It allows for 64 operations: three products,
and the 25 + log2(rows) additions of numpy's pairwise sum, by which C is divided if `c_scale` is `mean`."""


def build_problem(
    spec: ProblemSpec,
    data: Rows,
    labels: Labels,
    *,
    sample_weight: object,
    class_weight: Mapping[object, float] | str | None,
    groups: object = None,
) -> Problem:
    """Build the problem (problems.py) from labels and weights."""
    multipliers = _sample_multipliers(sample_weight, data.n_rows)
    if spec.task == "ordinal":
        return _ordinal_problem(spec, data, labels, multipliers, groups)
    if labels.values is not None:
        costs = _row_costs(spec, multipliers, np.ones(data.n_rows))
        return RegressionProblem(spec, data, labels.classes, *costs, targets=read_only(labels.values))
    weight_of_class = _class_multipliers(class_weight, labels)
    common = spec, data, labels.classes, *_row_costs(spec, multipliers, weight_of_class[labels.codes])
    if spec.task == "multiclass":
        return MulticlassProblem(*common, codes=read_only(labels.codes.astype(np.int32)))
    return BinaryProblem(*common, signs=read_only(np.where(labels.codes == 1, 1.0, -1.0)))


def one_against_rest(
    spec: ProblemSpec,
    data: Rows,
    labels: Labels,
    *,
    sample_weight: object,
    class_weight: Mapping[object, float] | str | None,
) -> list[BinaryProblem]:
    """Build one binary problem per class. A class's weight applies only to its own rows, in its own problem."""
    multipliers = _sample_multipliers(sample_weight, data.n_rows)
    weight_of_class = _class_multipliers(class_weight, labels)
    problems = []
    for k, weight in enumerate(weight_of_class):
        is_own = labels.codes == k
        costs = _row_costs(spec, multipliers, np.where(is_own, weight, 1.0))
        signs = read_only(np.where(is_own, 1.0, -1.0))
        problems.append(BinaryProblem(spec, data, np.array([False, True]), *costs, signs=signs))
    return problems


def _row_costs(spec: ProblemSpec, multipliers: Floats, weights: Floats) -> tuple[Floats, float, float]:
    """Return C_i of every row, their sum, and their relative error."""
    scale = spec.C / float(multipliers.sum()) if spec.c_scale == "mean" else spec.C
    with np.errstate(over="ignore"):
        costs = scale * weights
        costs *= multipliers
        total_cost = float(costs.sum())
    _reject_useless_costs(total_cost, "class_weight", "leaves no row with a weight above zero")
    is_exact = spec.c_scale == "sum" and bool((weights == 1.0).all() and (multipliers == 1.0).all())
    return read_only(costs), total_cost, 0.0 if is_exact else COST_ERROR


def _ordinal_problem(
    spec: ProblemSpec, data: Rows, labels: Labels, multipliers: Floats, groups: object
) -> OrdinalProblem:
    codes = _group_codes(groups, data.n_rows)
    weight = _weight_of_pairs(labels.codes, codes, multipliers)
    if weight <= 0.0:
        if groups is None:
            raise InvalidProblem(
                "sample_weight", "leaves no two rows of different rank; give such rows a weight above zero"
            )
        raise InvalidProblem(
            "groups", "have no two rows of different rank (and weight above zero) in any one group; use larger groups"
        )
    pair_scale = spec.C / weight if spec.c_scale == "mean" else spec.C
    total_cost = pair_scale * weight
    _reject_useless_costs(total_cost, "C", "multiplied by the weight of all pairs is too small; use a larger C")
    return OrdinalProblem(
        spec=spec,
        data=data,
        classes=labels.classes,
        costs=read_only(np.ascontiguousarray(multipliers)),
        total_cost=total_cost,
        cost_error=COST_ERROR,
        ranks=read_only(labels.codes.astype(np.int32)),
        groups=read_only(codes.astype(np.int32)),
        pair_scale=pair_scale,
    )


def _reject_useless_costs(total_cost: float, argument: str, why_zero: str) -> None:
    if not np.isfinite(total_cost):
        raise InvalidProblem("C", "multiplied by the weights overflows; use smaller weights or a smaller C")
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
        raise InvalidProblem(
            "groups", f"row {row} (counted from 0) is NaN or infinite; drop the row or give it a group"
        )
    try:
        return np.unique(array, return_inverse=True)[1]
    except TypeError:
        raise InvalidProblem("groups", "mixes values that cannot be sorted; give all groups one type") from None


def _weight_of_pairs(ranks: NDArray[np.intp], groups: NDArray[np.intp], multipliers: Floats) -> float:
    """Return the sum of s_i s_j over all pairs. For one group it is half of (the squared weight of the group minus the
    squared weights of its ranks)."""
    _, cells = np.unique(groups * (int(ranks.max()) + 1) + ranks, return_inverse=True)
    of_cells, of_groups = np.bincount(cells, multipliers), np.bincount(groups, multipliers)
    group_of_cell = np.zeros(of_cells.size, dtype=np.intp)
    group_of_cell[cells] = groups
    # The weight of each rank is multiplied by the rest of its group, so that no large squares are subtracted.
    return 0.5 * float((of_cells * (of_groups[group_of_cell] - of_cells)).sum())


def _sample_multipliers(sample_weight: object, n_rows: int) -> Floats:
    if sample_weight is None:
        return np.broadcast_to(1.0, (n_rows,))  # takes no memory and no time to fill
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidProblem("sample_weight", "must be numbers, one per row") from None
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
        raise InvalidProblem("sample_weight", "has an infinite sum; use smaller weights")
    return weights


def _class_multipliers(class_weight: Mapping[object, float] | str | None, labels: Labels) -> Floats:
    classes, codes = labels.classes, labels.codes
    if class_weight is None:
        return np.ones(classes.size)
    if isinstance(class_weight, str):
        return codes.size / (classes.size * np.bincount(codes, minlength=classes.size))
    # JSON objects have text keys, so the table can name a label by its text.
    number_of = {str(label): k for k, label in enumerate(classes.tolist())}
    number_of.update({label: k for k, label in enumerate(classes.tolist())})
    multipliers = np.ones(classes.size)
    for label, weight in class_weight.items():
        if label not in number_of:
            known = ", ".join(str(known)[:40] for known in classes[:10].tolist())
            raise InvalidProblem("class_weight", f"names {label!r:.60}, but the labels are {known}")
        multipliers[number_of[label]] = weight
    return multipliers
