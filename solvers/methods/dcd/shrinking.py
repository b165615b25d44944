"""Shrinking for dual coordinate descent: which rows an epoch visits, and when a row that was left out is due again.

A row whose alpha_i sits at a bound that its gradient pushes against is left out ("naps") for as many epochs as its
gradient holds the usual one. `wake[i]` is the epoch in which row i is due; `pool[:size]` are the rows that are due now.
"""

from numba import njit

from solvers.linalg.rng import shuffle
from solvers.linalg.types import Array

__all__ = ["NEVER", "due_epoch", "gather_pool", "keep_awake", "nap_rate", "wake_all"]

_NAP_SHARE = 1.0
"""Epochs that a row naps for each time its gradient holds the usual one: by then it may have changed its sign."""
_LONGEST_NAP = 1 << 20
NEVER = 2**31 - 1
"""When rows without a cost wake up."""
_SCAN_SHARE = 4
"""Sleepers are looked through again after one part in so many of the rows was visited: a look is cheap, no visit is."""


@njit(cache=True, nogil=True)
def nap_rate(usual: float, may_nap: bool) -> float:
    """Epochs that a row naps for each unit of its gradient; 0: no row naps."""
    return _NAP_SHARE / usual if may_nap and usual > 0.0 else 0.0


@njit(cache=True, nogil=True)
def due_epoch(nap: float, now: int) -> int:
    """When a row is due again that naps for so many epochs from now on."""
    return now + 1 + int(min(nap, _LONGEST_NAP))


@njit(cache=True, nogil=True)
def wake_all(wake: Array, now: int) -> None:
    for i in range(wake.size):
        if wake[i] < NEVER:
            wake[i] = min(wake[i], now)


@njit(cache=True, nogil=True)
def gather_pool(
    wake: Array, now: int, pool: Array, size: int, until_scan: int, together: int, random_state: Array
) -> tuple[int, int]:
    """(rows to visit, now first in the pool and in random order; rows until the sleepers are looked through again)"""
    if size == 0 or until_scan <= 0:
        size = _gather_awake(wake, now, pool)
        until_scan = pool.size // _SCAN_SHARE
    shuffle(pool, size, together, random_state)
    return size, until_scan


@njit(cache=True, nogil=True)
def _gather_awake(wake: Array, now: int, pool: Array) -> int:
    """Put the rows that are awake into the pool, in their order; if none is, wake all."""
    size = 0
    for _ in range(2):
        for i in range(wake.size):
            if wake[i] <= now:
                pool[size] = i
                size += 1
        if size > 0:
            break
        wake_all(wake, now)
    return size


@njit(cache=True, nogil=True)
def keep_awake(wake: Array, now: int, pool: Array, size: int) -> int:
    kept = 0
    for s in range(size):
        i = pool[s]
        if wake[i] <= now:
            pool[kept] = i
            kept += 1
    return kept
