"""Shrinking for dual coordinate descent: which rows an epoch visits, and when a row that was left out is due again.

A row whose gradient pushes alpha_i against its bound is skipped ("naps") for |gradient| / (root mean square gradient of
the free rows) epochs. `wake[i]` is the epoch in which row i is visited again; `pool[:size]` is the active set.
"""

from numba import njit

from solvers.linalg.rng import shuffle
from solvers.linalg.types import Array

__all__ = ["NEVER", "due_epoch", "gather_pool", "keep_awake", "nap_rate", "wake_all"]

_NAP_SHARE = 1.0
"""Epochs to skip a shrunk row, per multiple of the root mean square gradient. Larger: fewer visits."""
_LONGEST_NAP = 1 << 20
NEVER = 2**31 - 1
"""The due epoch of rows without a cost: they are never visited."""
_SCAN_SHARE = 4
"""Shrunk rows are scanned for due ones after n / 4 visits. Larger: more scans, each a read of `wake`."""


@njit(cache=True, nogil=True)
def nap_rate(usual: float, may_nap: bool) -> float:
    """Epochs to skip per unit of gradient; 0 switches shrinking off."""
    return _NAP_SHARE / usual if may_nap and usual > 0.0 else 0.0


@njit(cache=True, nogil=True)
def due_epoch(nap: float, now: int) -> int:
    """The epoch in which a row is visited again that is skipped for `nap` epochs."""
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
    """Shuffle the active rows to the front of the pool; return their count and the visits until the next scan."""
    if size == 0 or until_scan <= 0:
        size = _gather_awake(wake, now, pool)
        until_scan = pool.size // _SCAN_SHARE
    shuffle(pool, size, together, random_state)
    return size, until_scan


@njit(cache=True, nogil=True)
def _gather_awake(wake: Array, now: int, pool: Array) -> int:
    """Put the due rows into the pool, in their order; if none is due, make all of them due."""
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
