"""The proximal bias of dual coordinate descent: how the intercept b and S = sum_i alpha_i y_i follow each other.

`balance` is [b, S]. What the pull towards a centre is for is said in dcd.py.
"""

from numba import njit

from solvers.linalg.types import Array

__all__ = ["bias_mismatch", "bias_share", "settle_bias"]


@njit(cache=True, nogil=True)
def bias_share(bias_feature: float, pull: float) -> float:
    """How far b moves with S: bias_feature^2, less where it is pulled to its centre."""
    return bias_feature * bias_feature / (1.0 + bias_feature * bias_feature * pull)


@njit(cache=True, nogil=True)
def bias_mismatch(bias_feature: float, balance: Array) -> float:
    """What b and S add to the gap by being apart."""
    apart = balance[0] / bias_feature - bias_feature * balance[1] if bias_feature > 0.0 else 0.0
    return 0.5 * apart * apart


@njit(cache=True, nogil=True)
def settle_bias(bias_feature: float, pull: float, balance: Array, gap: float, updates: int) -> tuple[float, float]:
    """(pull from now on, what b and S add to the gap by being apart); the pull yields if that is the larger part."""
    if bias_feature == 0.0:
        return pull, 0.0
    mismatch = bias_mismatch(bias_feature, balance)
    if mismatch > gap or updates == 0:
        pull = 0.25 * pull if updates > 0 else 0.0
    return pull, mismatch
