"""A Newton step in all alphas of the logistic dual, by conjugate gradients, where coordinate descent is slow.

With the log-odds t_i, the margins m_i = y_i f(x_i) and the curvatures r_i^2 = C_i sigma(t_i) (1 - sigma(t_i)), a Newton
step d of the dual solves (diag(1 / r_i^2) + Z Z') d = -(m + t), where row i of Z is y_i h_i. In u = d / r the matrix is
I + R Z Z' R, which stays harmless where r_i vanishes. The step goes along d by the best of some lengths;
an alpha_i keeps at least _LEFT of its distance from a bound. X is read in order, not in random order as by an
epoch.
"""

from typing import NamedTuple

import numpy as np

from solvers.linalg.types import Floats
from solvers.methods.dcd.logistic_epoch import entropy_sum
from solvers.problem.problems import BinaryProblem

__all__ = ["MOST_READS", "LogisticMove", "take_logistic_cg_step"]

_ITERATIONS = 12
"""Conjugate-gradient iterations in a step. Larger: more reads of X, a better direction."""
_SETTLED = 1e-4
"""The iterations end once the squared residual is below this share of the first one."""
_SHORTER, _TRIALS = 0.4, 6
"""Lengths tried along the direction: 1, 0.4, 0.4^2, ..."""
_LEFT = 0.1
"""Share of an alpha's distance from a bound that a step leaves at least."""
MOST_READS = 1 + 2 * _ITERATIONS + _TRIALS
"""Upper bound on the reads of X in one step."""


class LogisticMove(NamedTuple):
    """A better dual point, if one was found, and the reads of X."""

    logits: Floats
    alpha: Floats
    w: Floats
    entropy: float
    is_better: bool
    reads: int


def take_logistic_cg_step(
    problem: BinaryProblem, norms: Floats, logits: Floats, alpha: Floats, w: Floats, entropy: float
) -> LogisticMove:
    """Return where the step leads; `norms` are |h_i|^2, bias feature included."""
    right = _margins(problem, w)
    # A row that no step has reached yet has no log-odds of its own.
    t = np.where(alpha > 0.0, logits, -right)
    roots = np.sqrt(problem.loss.curvature(t, problem.costs))  # type: ignore[arg-type]  # logistic loss has one
    right += t
    right *= -roots
    change, reads = _newton_direction(problem, norms, roots, right)
    change *= roots
    del right, roots
    lower, _ = problem.loss.dual_bounds(t, problem.costs, 0.0)
    upper, _ = problem.loss.dual_bounds(-t, problem.costs, 0.0)  # C - alpha, exact where alpha is next to C
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
    """Solve (I + R Z Z' R) u = residual by conjugate gradients with the diagonal as preconditioner; count the reads.

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
    """y_i h_i . w: one read."""
    scores = np.empty(problem.data.n_rows)
    problem.data.margins(w[:-1], scores)
    scores += problem.bias_feature * w[-1]
    scores *= problem.signs
    return scores
