"""The proximal bias of dual coordinate descent.

A regularised bias is a feature that all rows share. As a part of every row it adds as much to the curvature of each
alpha_i as the rest of a normalised row does, and halves every step. With S = sum_i alpha_i y_i its term of the dual is

    -1/2 beta^2 S^2 = min over b of  b^2 / (2 beta^2) - b S

The proximal point method keeps b near a centre b_0 instead: with pull/2 (b - b_0)^2 added, b = share (S + pull b_0),
where share = 1 / (1 / beta^2 + pull) replaces beta^2 in the curvature. The centre moves to b several times an epoch.
This converges fast while many alphas react to b. If they do not, b and beta^2 S stay apart, and the pull is reduced. It
is also reduced with time, and without it this is the method of the paper, so the limit is the same.
"""

from dataclasses import dataclass

from numba import njit

from solvers.linalg.types import Array, Floats
from solvers.state import State

__all__ = ["ProximalBias", "adapt_pull", "bias_mismatch", "bias_share"]


@dataclass(slots=True)
class ProximalBias(State):
    balance: Floats  # [b, S]: the intercept and sum_i alpha_i y_i
    pull: float  # strength of the proximal term; 0 without a bias, and for the method of the paper


@njit(cache=True, nogil=True)
def bias_share(bias_feature: float, pull: float) -> float:
    """How far b moves with S: bias_feature^2, less with a pull."""
    return bias_feature * bias_feature / (1.0 + bias_feature * bias_feature * pull)


@njit(cache=True, nogil=True)
def bias_mismatch(bias_feature: float, balance: Array) -> float:
    """The part of the gap that comes from b and beta^2 S being apart."""
    apart = balance[0] / bias_feature - bias_feature * balance[1] if bias_feature > 0.0 else 0.0
    return 0.5 * apart * apart


@njit(cache=True, nogil=True)
def adapt_pull(bias_feature: float, pull: float, balance: Array, gap: float, updates: int) -> tuple[float, float]:
    """Quarter the pull if the mismatch of the bias exceeds the rows' gap, drop it if no alpha moves any more.

    Returns the pull for the next epoch and the mismatch.
    """
    if bias_feature == 0.0:
        return pull, 0.0
    mismatch = bias_mismatch(bias_feature, balance)
    if mismatch > gap or updates == 0:
        pull = 0.25 * pull if updates > 0 else 0.0
    return pull, mismatch
