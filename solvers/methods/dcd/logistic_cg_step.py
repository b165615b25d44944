"""A Newton step in all alphas of the logistic dual, by conjugate gradients, for phases of slow coordinate descent.

With the log-odds t_i, the margins m_i = y_i f(x_i) and the curvatures r_i^2 = C_i sigma(t_i) (1 - sigma(t_i)), a Newton
step d of the dual solves (diag(1 / r_i^2) + Z Z') d = -(m + t), where row i of Z is y_i h_i. In u = d / r the matrix is
I + R Z Z' R, which is well behaved even if r_i tends to 0. The point moves along d by the best of several step lengths;
each alpha_i keeps at least the fraction _LEFT of its distance from a bound. X is read in order, whereas an epoch reads
it in random order.
"""

from typing import NamedTuple

import numpy as np

from solvers.linalg.types import Floats
from solvers.methods.dcd.logistic_epoch import entropy_sum
from solvers.problem.problems import BinaryProblem

__all__ = ["MOST_READS", "LogisticMove", "take_logistic_cg_step"]

_ITERATIONS = 12
"""Maximum conjugate-gradient iterations in a step. Larger: a better direction, more passes over X. Set by hand; no
measurement is recorded."""
_SETTLED = 1e-4
"""The iterations end once the squared residual is below this fraction of the first one. Smaller: more precise
directions, more passes. Set by hand; no measurement is recorded."""
_SHORTER, _TRIALS = 0.4, 6
"""Factor between the step lengths tried along the direction (1, 0.4, 0.4^2, ...), and their maximum number. Each takes
one pass over X. A factor closer to 1: finer search, more passes. Set by hand; no measurement is recorded."""
_LEFT = 0.1
"""Least fraction of an alpha's distance from its bound that a step leaves. Larger: shorter steps. Set by hand; no
measurement is recorded."""
MOST_READS = 1 + 2 * _ITERATIONS + _TRIALS
"""Maximum passes over X in one step, derived from the constants above."""


class LogisticMove(NamedTuple):
    """A better dual point, if one was found, and the number of passes over X."""

    logits: Floats
    alpha: Floats
    w: Floats
    entropy: float
    is_better: bool
    reads: int


def take_logistic_cg_step(
    problem: BinaryProblem, norms: Floats, logits: Floats, alpha: Floats, w: Floats, entropy: float
) -> LogisticMove:
    """Return the dual point after the step; `norms` are |h_i|^2 with the bias feature."""
    right = _margins(problem, w)
    # Rows that were not visited yet have no log-odds; those of the current margin replace them.
    t = np.where(alpha > 0.0, logits, -right)
    roots = np.sqrt(problem.loss.curvature(t, problem.costs))  # type: ignore[arg-type]  # logistic loss has one
    right += t
    right *= -roots
    change, reads = _newton_direction(problem, norms, roots, right)
    change *= roots
    del right, roots
    lower, _ = problem.loss.dual_bounds(t, problem.costs, 0.0)
    upper, _ = problem.loss.dual_bounds(-t, problem.costs, 0.0)  # C - alpha, exact even if alpha is close to C
    del t
    best = LogisticMove(logits, alpha, w, entropy, False, 0)
    reads, value, length = reads + 1, entropy - 0.5 * float((w * w).sum()), 1.0
    for _ in range(_TRIALS):
        part = np.clip(length * change, (_LEFT - 1.0) * lower, (1.0 - _LEFT) * upper)
        moved = np.divide(lower + part, upper - part, out=np.ones_like(part), where=problem.costs > 0.0)
        del part
        np.log(moved, out=moved, where=moved > 0.0)
        shares, _ = problem.loss.dual_bounds(moved, problem.costs, 0.0)
        weights = problem.weights_of(shares)
        reached = entropy_sum(shares, problem.costs)
        dual = reached - 0.5 * float((weights * weights).sum())
        reads += 1
        if dual > value:
            value, best = dual, LogisticMove(moved, shares, weights, reached, True, 0)
        elif best.is_better:
            break
        length *= _SHORTER
    return best._replace(reads=reads)


def _newton_direction(problem: BinaryProblem, norms: Floats, roots: Floats, residual: Floats) -> tuple[Floats, int]:
    """Solve (I + R Z Z' R) u = residual by conjugate gradients, preconditioned by the diagonal; return u and the
    passes.

    The residual is overwritten.
    """
    u, reads = np.zeros_like(residual), 0
    direction = residual / (1.0 + roots * roots * norms)
    product = float((residual * direction).sum())
    enough = _SETTLED * product
    for _ in range(_ITERATIONS):
        if not product > enough:
            break
        image = _margins(problem, problem.weights_of(roots * direction))
        image *= roots
        image += direction
        reads += 2
        length = product / float((direction * image).sum())
        u += length * direction
        image *= length
        residual -= image
        scaled = residual / (1.0 + roots * roots * norms)
        before, product = product, float((residual * scaled).sum())
        direction *= product / before
        direction += scaled
    return u, reads


def _margins(problem: BinaryProblem, w: Floats) -> Floats:
    """Return y_i h_i . w of every row. Costs one pass."""
    scores = np.empty(problem.data.n_rows)
    problem.data.margins(w[:-1], scores)
    scores += problem.bias_feature * w[-1]
    scores *= problem.signs
    return scores
