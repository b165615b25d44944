"""The total loss R(w) of a problem, for cutting-plane methods: its scores, its value, and planes below it.

A plane is defined by one number alpha per row, because the loss of a row has linear lower bounds in its margin m:

    hinge           C max(0, 1 - m)   >= alpha (1 - m)                     0 <= alpha <= C
    squared hinge   C max(0, 1 - m)^2 >= alpha (1 - m) - alpha^2 / (4 C)   0 <= alpha
    several classes C max_m (...)     >= C (1 + f_m - f_y) for any class m, or 0 for the row's own class

The plane cut at given scores has the alpha for which the bounds are equalities there. Its normal is sum_i alpha_i y_i
x_i; its level is the sum of the terms that do not depend on w. The `marks` of a plane store its alpha in the smallest
form: bits, float32 or class numbers. The dual point of a combination of planes is the same combination of their alphas.

Consecutive planes are often similar. If fewer rows became or ceased to be violators than there are violators, the new
normal is computed from the last one by reading only the changed rows. With several classes, a row changes if its chosen
class changes. With squared hinge all violators are read.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numba import njit

from solvers.data.rows import read_only
from solvers.linalg.types import Array, Floats
from solvers.method import Point, Start
from solvers.methods.cutting_planes.bundle import IDLE_SOLVES
from solvers.methods.cutting_planes.oca_line_search import BinaryLine, ClassLine, Line
from solvers.problem.problems import BinaryProblem, MulticlassProblem

__all__ = ["BinaryRisk", "ClassRisk", "Cut", "HingeRisk", "Risk", "SquaredHingeRisk", "risk_of"]


MOST_MARKED_ROWS = 2**22
"""Maximum number of rows for which planes of the squared hinge store marks, at 4 bytes per row and plane. Without marks
there is no dual point. Larger: dual points for more rows, more memory. The value limits memory to 16 MB per plane."""


class Cut(NamedTuple):
    """A plane, and the data from which the next plane is computed."""

    normal: Floats
    level: float
    choices: Array
    """Hinge: 1 for each violator, 0 for other rows. Several classes: the class with the highest loss in each row.
    Squared hinge: empty."""
    marks: Array
    """The alpha of the plane, in compact form."""
    rows_read: int


class Risk(ABC):
    """The loss R of one problem. Weights are one flat vector, which includes the weight of a regularised bias."""

    n_weights: int
    marks: tuple[int, type[np.generic]]
    """Width and data type of a plane's marks."""
    idle_solves = IDLE_SOLVES
    """Number of consecutive solutions with multiplier 0 after which a plane is dropped."""

    @abstractmethod
    def weights_of(self, start: Start) -> Floats:
        """Return the weights of a starting point as one vector."""

    @abstractmethod
    def point(self, weights: Floats, alpha: Floats | None) -> Point:
        """Convert weights and a dual point to the result of a method."""

    @abstractmethod
    def empty_scores(self) -> Floats:
        """Return the scores of all rows at zero weights, as a new array."""

    @abstractmethod
    def find_scores(self, weights: Floats, out: Floats) -> None:
        """Write y_i f(x_i) of all rows, or their scores of all classes. Costs one pass over X."""

    @abstractmethod
    def loss(self, scores: Floats) -> float:
        """Return R at the given scores."""

    @abstractmethod
    def cut(self, scores: Floats, towards: Floats, share: float, last: Cut | None) -> Cut:
        """Return the plane that touches R at the scores (1 - share) scores + share towards."""

    @abstractmethod
    def dual_point(self, marks: Array, planes: Array, multipliers: Floats) -> Floats | None:
        """Return the dual point of a combination of planes. `planes` are indices into `marks`."""

    @property
    def has_dual_points(self) -> bool:
        return self.marks[0] > 0

    @abstractmethod
    def combine(self, alpha: Floats) -> Floats:
        """Return w(alpha). For any weights v with scores s, w(alpha) . v = alpha . s."""

    @abstractmethod
    def line(self, scores: Floats, towards: Floats, square: float, slope: float) -> Line:
        """Return the objective along the line between two points (oca_line_search.py)."""


def risk_of(problem: BinaryProblem | MulticlassProblem) -> Risk:
    if isinstance(problem, MulticlassProblem):
        return ClassRisk(problem)
    return SquaredHingeRisk(problem) if problem.loss.is_squared else HingeRisk(problem)


class BinaryRisk(Risk):
    """Common part of the binary losses."""

    def __init__(self, problem: BinaryProblem) -> None:
        self.problem = problem
        self.n_weights = problem.data.n_features + 1

    def weights_of(self, start: Start) -> Floats:
        bias_feature = self.problem.bias_feature
        return np.append(np.asarray(start.coef), start.intercept / bias_feature if bias_feature > 0.0 else 0.0)

    def point(self, weights: Floats, alpha: Floats | None) -> Point:
        return Point(weights[:-1].copy(), float(self.problem.bias_feature * weights[-1]), alpha)

    def empty_scores(self) -> Floats:
        return np.zeros(self.problem.data.n_rows)

    def find_scores(self, weights: Floats, out: Floats) -> None:
        self.problem.data.margins(weights[:-1], out)
        if self.problem.bias_feature > 0.0:
            out += self.problem.bias_feature * weights[-1]
        out *= self.problem.signs

    def line(self, scores: Floats, towards: Floats, square: float, slope: float) -> Line:
        return BinaryLine(self.problem, scores, towards, square, slope)

    def combine(self, alpha: Floats) -> Floats:
        return self._normal(alpha * self.problem.signs)

    def _normal(self, signed: Floats) -> Floats:
        """Return sum_i signed_i (x_i, bias feature)."""
        normal = np.empty(self.n_weights)
        self.problem.data.weighted_column_sums(signed, normal[:-1])
        normal[-1] = self.problem.bias_feature * float(signed.sum())
        return normal


class HingeRisk(BinaryRisk):
    def __init__(self, problem: BinaryProblem) -> None:
        super().__init__(problem)
        self.marks = -(-problem.data.n_rows // 8), np.uint8

    def loss(self, scores: Floats) -> float:
        return float(_sum_hinge(read_only(scores), self.problem.costs))

    def cut(self, scores: Floats, towards: Floats, share: float, last: Cut | None) -> Cut:
        problem, n = self.problem, scores.size
        choices, signed = np.empty(n, dtype=np.uint8), np.empty(n)
        before = np.zeros(n, dtype=np.uint8) if last is None else last.choices
        ends = read_only(scores), read_only(towards)
        level, chosen, changed = _mark_violators(*ends, share, problem.costs, read_only(before), choices)
        is_change = last is not None and changed < chosen
        _sign_costs(read_only(choices), read_only(before), is_change, problem.signs, problem.costs, signed)
        normal = self._normal(signed)
        if last is not None and is_change:
            normal += last.normal
        return Cut(normal, level, choices, np.packbits(choices), changed if is_change else chosen)

    def dual_point(self, marks: Array, planes: Array, multipliers: Floats) -> Floats:
        alpha = np.zeros(self.problem.data.n_rows)
        _add_marked(read_only(marks), planes, multipliers, alpha)
        alpha *= self.problem.costs
        return alpha


class SquaredHingeRisk(BinaryRisk):
    idle_solves = 10
    """A plane takes 32 times the memory of a hinge plane, so unused planes are dropped sooner. With 50 instead of 10,
    more than twice the planes were kept for the same number of passes (five datasets to 1e-3)."""

    def __init__(self, problem: BinaryProblem) -> None:
        super().__init__(problem)
        n = problem.data.n_rows
        self.marks = n if n <= MOST_MARKED_ROWS else 0, np.float32

    def loss(self, scores: Floats) -> float:
        return float(_sum_squared_hinge(read_only(scores), self.problem.costs))

    def cut(self, scores: Floats, towards: Floats, share: float, last: Cut | None) -> Cut:
        marks, signed = np.empty(self.marks[0], dtype=np.float32), np.empty(scores.size)
        ends = read_only(scores), read_only(towards)
        level, chosen = _weigh_violators(*ends, share, self.problem.signs, self.problem.costs, marks, signed)
        return Cut(self._normal(signed), level, marks[:0], marks, chosen)

    def dual_point(self, marks: Array, planes: Array, multipliers: Floats) -> Floats | None:
        if marks.shape[1] == 0:
            return None
        alpha = np.zeros(self.problem.data.n_rows)
        _add_weighed(read_only(marks), planes, multipliers, alpha)
        return alpha


class ClassRisk(Risk):
    def __init__(self, problem: MulticlassProblem) -> None:
        self.problem = problem
        self.shape = problem.classes.size, problem.data.n_features + 1
        self.n_weights = self.shape[0] * self.shape[1]
        self.marks = problem.data.n_rows, np.uint8 if self.shape[0] <= 256 else np.int32

    def weights_of(self, start: Start) -> Floats:
        weights = np.zeros(self.shape)
        weights[:, :-1] = start.coef
        if self.problem.bias_feature > 0.0:
            weights[:, -1] = np.asarray(start.intercept) / self.problem.bias_feature
        return weights.reshape(-1)

    def point(self, weights: Floats, alpha: Floats | None) -> Point:
        by_class = weights.reshape(self.shape)
        return Point(by_class[:, :-1].copy(), self.problem.bias_feature * by_class[:, -1], alpha)

    def empty_scores(self) -> Floats:
        return np.zeros((self.problem.data.n_rows, self.shape[0]))

    def find_scores(self, weights: Floats, out: Floats) -> None:
        self.problem.data.class_scores(weights.reshape(self.shape), self.problem.bias_feature, out)

    def loss(self, scores: Floats) -> float:
        return float(_sum_class_hinge(read_only(scores), self.problem.codes, self.problem.costs))

    def cut(self, scores: Floats, towards: Floats, share: float, last: Cut | None) -> Cut:
        problem = self.problem
        own = problem.codes.astype(self.marks[1])
        choices = np.empty_like(own)
        before = own if last is None else last.choices
        ends = read_only(scores), read_only(towards)
        level, chosen, changed = _choose_classes(*ends, share, problem.codes, problem.costs, read_only(before), choices)
        normal = np.zeros(self.shape)
        if last is not None and changed < chosen:
            normal += last.normal.reshape(self.shape)
        else:
            before, changed = own, chosen
        problem.data.add_pair_sums(problem.costs, before, choices, problem.bias_feature, normal)
        return Cut(normal.reshape(-1), level, choices, choices, changed)

    def dual_point(self, marks: Array, planes: Array, multipliers: Floats) -> Floats:
        alpha = np.zeros((self.problem.data.n_rows, self.shape[0]))
        for plane, multiplier in zip(planes, multipliers, strict=True):
            _add_chosen(read_only(marks[plane]), self.problem.codes, self.problem.costs, multiplier, alpha)
        return alpha

    def combine(self, alpha: Floats) -> Floats:
        weights = np.empty(self.shape)
        for of_class, shares in zip(weights, np.ascontiguousarray(alpha.T), strict=True):
            self.problem.data.weighted_column_sums(shares, of_class[:-1])
            of_class[-1] = self.problem.bias_feature * float(shares.sum())
        return weights.reshape(-1)

    def line(self, scores: Floats, towards: Floats, square: float, slope: float) -> Line:
        return ClassLine(self.problem, scores, towards, square, slope)


# --- kernels. before, out: the choices of the last plane and of the new one -------------------------------------------

_SUM = {"reassoc", "contract", "nsz"}  # fastmath flags: the compiler may vectorise a sum; NaN and infinity propagate


@njit(cache=True, nogil=True, fastmath=_SUM)
def _sum_hinge(margins: Array, costs: Array) -> float:
    total = 0.0
    for i in range(costs.size):
        total += costs[i] * max(0.0, 1.0 - margins[i])
    return total


@njit(cache=True, nogil=True, fastmath=_SUM)
def _mark_violators(
    margins: Array, towards: Array, share: float, costs: Array, before: Array, out: Array
) -> tuple[float, int, int]:
    """Mark the rows with a margin below 1; return (level, number of violators, number of changed rows)."""
    level, chosen, changed = 0.0, 0, 0
    for i in range(costs.size):
        violates = margins[i] + share * (towards[i] - margins[i]) < 1.0
        level += costs[i] if violates else 0.0
        chosen += violates
        changed += violates != (before[i] != 0)
        out[i] = violates
    return level, chosen, changed


@njit(cache=True, nogil=True)
def _sign_costs(choices: Array, before: Array, is_change: bool, signs: Array, costs: Array, out: Array) -> None:
    """Write C_i y_i for violators. With `is_change`, write it for new violators and its negative for former ones."""
    for i in range(costs.size):
        count = np.int64(choices[i]) - (np.int64(before[i]) if is_change else 0)
        out[i] = count * signs[i] * costs[i]


@njit(cache=True, nogil=True, fastmath=_SUM)
def _sum_squared_hinge(margins: Array, costs: Array) -> float:
    total = 0.0
    for i in range(costs.size):
        slack = max(0.0, 1.0 - margins[i])
        total += costs[i] * slack * slack
    return total


@njit(cache=True, nogil=True, fastmath=_SUM)
def _weigh_violators(
    margins: Array, towards: Array, share: float, signs: Array, costs: Array, marks: Array, signed: Array
) -> tuple[float, int]:
    """Write alpha to the marks (unless these are empty) and y_i alpha_i to signed; return (level, violators)."""
    level, chosen = 0.0, 0
    for i in range(costs.size):
        slack = max(0.0, 1.0 - (margins[i] + share * (towards[i] - margins[i])))
        # alpha is rounded to float32 first, so that the plane and its marks use the same numbers.
        rounded = np.float32(2.0 * costs[i] * slack)
        if i < marks.size:
            marks[i] = rounded
        alpha = np.float64(rounded)
        if alpha > 0.0:
            level += alpha - alpha * (alpha / (4.0 * costs[i]))
            chosen += 1
        signed[i] = signs[i] * alpha
    return level, chosen


@njit(cache=True, nogil=True)
def _add_weighed(marks: Array, planes: Array, multipliers: Array, out: Array) -> None:
    for k in range(multipliers.size):
        row, multiplier = marks[planes[k]], multipliers[k]
        for i in range(out.size):
            out[i] += multiplier * row[i]


@njit(cache=True, nogil=True)
def _add_marked(marks: Array, planes: Array, multipliers: Array, out: Array) -> None:
    for k in range(multipliers.size):
        bits, multiplier = marks[planes[k]], multipliers[k]
        for i in range(out.size):
            if bits[i >> 3] >> np.uint8(7 - (i & 7)) & np.uint8(1):
                out[i] += multiplier


@njit(cache=True, nogil=True)
def _sum_class_hinge(scores: Array, codes: Array, costs: Array) -> float:
    total = 0.0
    for i in range(codes.size):
        row, own = scores[i], codes[i]
        highest = row[own]
        for m in range(row.size):
            if m != own:
                highest = max(highest, 1.0 + row[m])
        total += costs[i] * (highest - row[own])
    return total


@njit(cache=True, nogil=True)
def _choose_classes(
    scores: Array, towards: Array, share: float, codes: Array, costs: Array, before: Array, out: Array
) -> tuple[float, int, int]:
    """Choose the class with the highest loss for each row; return (level, rows with another class, changed rows)."""
    level, chosen, changed = 0.0, 0, 0
    for i in range(codes.size):
        start, end, own = scores[i], towards[i], codes[i]
        highest, choice = start[own] + share * (end[own] - start[own]), own
        for m in range(start.size):
            value = 1.0 + start[m] + share * (end[m] - start[m])
            if m != own and value > highest:
                highest, choice = value, np.int32(m)
        if choice != own:
            level += costs[i]
            chosen += 1
        changed += choice != before[i]
        out[i] = choice
    return level, chosen, changed


@njit(cache=True, nogil=True)
def _add_chosen(chosen: Array, codes: Array, costs: Array, multiplier: float, out: Array) -> None:
    for i in range(codes.size):
        share = multiplier * costs[i]
        out[i, codes[i]] += share
        out[i, np.int64(chosen[i])] -= share
