"""A training problem: the rows with their targets and costs, in the exact dtypes that the kernels expect.

    Problem
      BinaryProblem       1/2 |w|^2 + 1/2 (b / bias_scale)^2 + sum_i C_i l(y_i (w . x_i + b)), l as the loss has it
      MulticlassProblem   1/2 |W|^2 + 1/2 |b / bias_scale|^2 + sum_i C_i max_m ([m != y_i] + f_m(x_i) - f_yi(x_i))
                          logistic: sum_i C_i log sum_m exp(f_m(x_i) - f_yi(x_i))
      OrdinalProblem      1/2 |w|^2 + sum over pairs (y_i > y_j, same group) of C_ij max(0, 1 - w . (x_i - x_j))
      RegressionProblem   1/2 |w|^2 + 1/2 (b / bias_scale)^2 + sum_i C_i max(0, |y_i - w . x_i - b| - epsilon)^p

The term of b is there if the bias is regularised. build.py builds them from what a user gave.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.data.rows import Rows
from solvers.linalg.types import Floats
from solvers.problem.losses.loss import Loss, MarginLoss, TubeLoss
from solvers.problem.spec import ProblemSpec

__all__ = ["BinaryProblem", "MulticlassProblem", "OrdinalProblem", "Problem", "RegressionProblem", "rank_thresholds"]


@dataclass(frozen=True, eq=False)
class Problem:
    """What a method is given to solve. All arrays are read-only."""

    spec: ProblemSpec
    data: Rows
    classes: NDArray[Any]
    """The labels as they came, sorted; empty for regression."""
    costs: Floats
    """C_i: C times class and sample weight (over the sum of sample weights if c_scale is mean)."""
    total_cost: float
    """The sum of the costs of all rows or pairs; except in regression this is P(0, 0)."""
    cost_error: float
    """How far a cost can be, relatively, from C times the weights in exact arithmetic. The optimum is concave in the
    costs and 0 without them, so a bound that is lowered by this part of it is one for the exact costs too."""

    @property
    def loss(self) -> Loss:
        """What an error costs."""
        return self.spec.loss_function

    @property
    def bias_feature(self) -> float:
        """The value of the constant feature that stands for a regularised bias; 0 without one."""
        return self.spec.bias_scale if self.spec.bias == "regularized" else 0.0

    @property
    def primal_floor(self) -> float:
        """The primal value below which gaps are measured against the costs instead."""
        return 1e-12 * self.total_cost


@dataclass(frozen=True, eq=False)
class BinaryProblem(Problem):
    """Two classes; a positive score means `classes[1]`."""

    signs: Floats
    """y_i: +1 for rows of `classes[1]`, -1 for the others."""

    @property
    def loss(self) -> MarginLoss:
        assert isinstance(self.spec.loss_function, MarginLoss)
        return self.spec.loss_function

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
class RegressionProblem(Problem):
    """Real-valued targets; errors up to `spec.epsilon` cost nothing."""

    targets: Floats

    @property
    def loss(self) -> TubeLoss:
        assert isinstance(self.spec.loss_function, TubeLoss)
        return self.spec.loss_function


MOST_RANKS = 256
"""With more distinct labels they are taken for real-valued relevance, which scores order but no threshold names."""


def rank_thresholds(problem: OrdinalProblem, coef: Floats) -> Floats | None:
    """The thresholds with the smallest weighted sum of rank errors |predicted - true| on the training rows.

    That sum is one count of mistakes a threshold (rows of rank <= k above it, others not above it), so each threshold
    is an exact one-dimensional optimum of its own, and taking the lowest one of ties keeps them in order. Each lies
    in the middle between two scores; at the ends, half a unit of the pair loss's margin beyond them.
    """
    if problem.classes.size > MOST_RANKS:
        return None
    scores = np.empty(problem.data.n_rows)
    problem.data.margins(coef, scores)
    order = np.argsort(scores, kind="stable")
    scores, ranks, weights = scores[order], problem.ranks[order], problem.costs[order]
    # A cut before position c has rows c, c + 1, ... above it; equal scores cannot be cut apart.
    possible = np.concatenate([[True], scores[1:] > scores[:-1], [True]])
    edges = np.concatenate([[scores[0] - 1.0], scores, [scores[-1] + 1.0]])
    places = 0.5 * (edges[:-1] + edges[1:])
    thresholds = np.empty(problem.classes.size - 1)
    for k in range(thresholds.size):
        is_above = np.where(ranks > k, weights, -weights)
        mistakes = np.concatenate([[0.0], np.cumsum(is_above)])
        thresholds[k] = places[np.argmin(np.where(possible, mistakes, np.inf))]
    return thresholds
