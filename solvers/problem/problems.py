"""Training problems: the rows with their targets and costs, in the exact dtypes that the kernels expect.

    Problem
      BinaryProblem       1/2 |w|^2 + 1/2 (b / bias_scale)^2 + sum_i C_i l(y_i (w . x_i + b)) with the loss l
      MulticlassProblem   1/2 |W|^2 + 1/2 |b / bias_scale|^2 + sum_i C_i max_m ([m != y_i] + f_m(x_i) - f_yi(x_i))
                          logistic: sum_i C_i log sum_m exp(f_m(x_i) - f_yi(x_i))
      OrdinalProblem      1/2 |w|^2 + sum over pairs (y_i > y_j, same group) of C_ij max(0, 1 - w . (x_i - x_j))
      RegressionProblem   1/2 |w|^2 + 1/2 (b / bias_scale)^2 + sum_i C_i max(0, |y_i - w . x_i - b| - epsilon)^p

The term of b is present only if the bias is regularised. build.py builds these problems from the user's input.
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
    """The input of a method. All arrays are read-only."""

    spec: ProblemSpec
    data: Rows
    classes: NDArray[Any]
    """The distinct labels as given, sorted; empty for regression."""
    costs: Floats
    """C_i: C times class weight times sample weight (divided by the sum of sample weights if c_scale is mean)."""
    total_cost: float
    """The sum of the costs of all rows or pairs. Except in regression this is P(0, 0)."""
    cost_error: float
    """Largest relative difference between a cost and C times the weights in exact arithmetic. The optimum is concave in
    the costs and 0 at zero costs, so a bound lowered by this fraction also holds for the exact costs."""

    @property
    def loss(self) -> Loss:
        """The loss function."""
        return self.spec.loss_function

    @property
    def bias_feature(self) -> float:
        """The value of the constant feature of a regularised bias; 0 if the bias is not regularised."""
        return self.spec.bias_scale if self.spec.bias == "regularized" else 0.0

    @property
    def primal_floor(self) -> float:
        """Smallest divisor of a relative gap, used if the primal value is below it."""
        return 1e-12 * self.total_cost


@dataclass(frozen=True, eq=False)
class BinaryProblem(Problem):
    """Two classes. A positive score means `classes[1]`."""

    signs: Floats
    """y_i: +1 for rows of `classes[1]`, -1 for the others."""

    @property
    def loss(self) -> MarginLoss:
        assert isinstance(self.spec.loss_function, MarginLoss)
        return self.spec.loss_function

    def weights_of(self, alpha: Floats) -> Floats:
        """Return w(alpha) = sum_i alpha_i y_i x_i, followed by the weight of the bias feature. Costs one pass."""
        signed = alpha * self.signs
        w = np.empty(self.data.n_features + 1)
        self.data.weighted_column_sums(signed, w[:-1])
        w[-1] = self.bias_feature * float(signed.sum())
        return w


@dataclass(frozen=True, eq=False)
class MulticlassProblem(Problem):
    """Any number of classes, one weight vector each, trained jointly (Crammer and Singer 2001)."""

    codes: NDArray[np.int32]
    """The index of each row's class in `classes`."""


@dataclass(frozen=True, eq=False)
class OrdinalProblem(Problem):
    """Rows whose order is to be learned. Only rows of one group are compared; rows of equal rank form no pair.

    Here `costs` are the sample weights s_i, and a pair costs C_ij = pair_scale s_i s_j.
    """

    ranks: NDArray[np.int32]
    """The index of each row's rank in `classes`, which are numbers."""
    groups: NDArray[np.int32]
    """The group of each row, counted from 0."""
    pair_scale: float


@dataclass(frozen=True, eq=False)
class RegressionProblem(Problem):
    """Real-valued targets. Errors up to `spec.epsilon` cost nothing."""

    targets: Floats

    @property
    def loss(self) -> TubeLoss:
        assert isinstance(self.spec.loss_function, TubeLoss)
        return self.spec.loss_function


MOST_RANKS = 256
"""Maximum number of distinct labels that count as ranks. More distinct labels count as real-valued relevance: scores
then order the rows, but no thresholds are computed. Larger: thresholds for more labels, more time. Set by hand; no
measurement is recorded."""


def rank_thresholds(problem: OrdinalProblem, coef: Floats) -> Floats | None:
    """Return the thresholds with the smallest weighted sum of rank errors |predicted - true| on the training rows.

    The sum of rank errors is a sum over the thresholds. Threshold k contributes the weight of the rows of rank <= k
    above it and of the other rows not above it. So each threshold is the exact optimum of a one-dimensional problem.
    Choosing the lowest of equally good ones keeps the thresholds in order. Each lies midway between two scores; at the
    ends, half a margin beyond them.
    """
    if problem.classes.size > MOST_RANKS:
        return None
    scores = np.empty(problem.data.n_rows)
    problem.data.margins(coef, scores)
    order = np.argsort(scores, kind="stable")
    scores, ranks, weights = scores[order], problem.ranks[order], problem.costs[order]
    # A cut before position c has rows c, c + 1, ... above it. There is no cut between equal scores.
    possible = np.concatenate([[True], scores[1:] > scores[:-1], [True]])
    edges = np.concatenate([[scores[0] - 1.0], scores, [scores[-1] + 1.0]])
    places = 0.5 * (edges[:-1] + edges[1:])
    thresholds = np.empty(problem.classes.size - 1)
    for k in range(thresholds.size):
        is_above = np.where(ranks > k, weights, -weights)
        mistakes = np.concatenate([[0.0], np.cumsum(is_above)])
        thresholds[k] = places[np.argmin(np.where(possible, mistakes, np.inf))]
    return thresholds
