"""The bias of dual coordinate descent, by the proximal point method.

A regularised bias is a constant feature of all rows. As part of every row, this feature would add as much to the
curvature of each alpha_i as the rest of a normalised row, which halves every step. With S = sum_i alpha_i y_i, its term
of the dual is

    -1/2 beta^2 S^2 = min over b of  b^2 / (2 beta^2) - b S.

Instead, the proximal term pull/2 (b - b_0)^2 is added around a centre b_0. Then b = share (S + pull b_0), and share = 1
/ (1 / beta^2 + pull) replaces beta^2 in the curvature. The centre moves to b several times per epoch. This converges
fast while many alphas change with b. If few do, the difference between b and beta^2 S persists, and the pull is
reduced. The pull also falls with time. At pull = 0 this is the method of the paper, so the limit is the same.
"""

from dataclasses import dataclass

from numba import njit

from solvers.linalg.types import Array, Floats
from solvers.state import State

__all__ = ["ProximalBias", "adapt_pull", "bias_mismatch", "bias_share"]


@dataclass(slots=True)
class ProximalBias(State):
    balance: Floats  # [b, S]: the intercept and sum_i alpha_i y_i
    pull: float  # strength of the proximal term; 0 if there is no bias or for the method of the paper


@njit(cache=True, nogil=True)
def bias_share(bias_feature: float, pull: float) -> float:
    """Return the change of b per unit of S: bias_feature^2, or less if the pull is positive."""
    return bias_feature * bias_feature / (1.0 + bias_feature * bias_feature * pull)


@njit(cache=True, nogil=True)
def bias_mismatch(bias_feature: float, balance: Array) -> float:
    """Return the term of the gap that comes from the difference between b and beta^2 S."""
    apart = balance[0] / bias_feature - bias_feature * balance[1] if bias_feature > 0.0 else 0.0
    return 0.5 * apart * apart


@njit(cache=True, nogil=True)
def adapt_pull(bias_feature: float, pull: float, balance: Array, gap: float, updates: int) -> tuple[float, float]:
    """Quarter the pull if the mismatch of the bias exceeds the rows' gap; set it to 0 if no alpha changed.

    Returns the pull for the next epoch and the mismatch.
    """
    if bias_feature == 0.0:
        return pull, 0.0
    mismatch = bias_mismatch(bias_feature, balance)
    if mismatch > gap or updates == 0:
        pull = 0.25 * pull if updates > 0 else 0.0
    return pull, mismatch
