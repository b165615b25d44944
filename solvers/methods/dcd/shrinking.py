"""Shrinking for dual coordinate descent: which rows an epoch visits, and when a shrunk row is visited again.

A row is shrunk if its gradient pushes alpha_i against its bound. The next
|gradient| / (root mean square gradient of the free rows) epochs skip it. The paper skips such rows until all others are
solved. Here, rows far from leaving their bound are hardly ever read, and no final phase over all rows is needed.
`due[i]` is the epoch that visits row i next; `pool[:size]` is the active set.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solvers.linalg.rng import shuffle
from solvers.linalg.types import Array
from solvers.state import State

__all__ = ["NEVER", "Schedule", "Shrinking", "due_epoch", "gather_active", "keep_active", "make_all_due", "skip_rate"]

_SKIP_SHARE = 1.0
"""Epochs to skip a shrunk row, per multiple of the root mean square gradient. Larger: fewer visits, and rows that
should leave their bound are visited later. Set by hand; no measurement is recorded."""
_LONGEST_SKIP = 1 << 20
"""Maximum number of epochs to skip a row. Larger: rows are skipped for longer, and epoch numbers of 32 bits could
overflow. Set by hand; no measurement is recorded."""
NEVER = 2**31 - 1
"""The due epoch of rows with cost 0, which are never visited: the largest 32-bit integer."""
_SCAN_SHARE = 4
"""After every n / _SCAN_SHARE visits, `due` is scanned for shrunk rows that are due. Larger: more scans, and rows are
visited closer to their due epoch. Set by hand; no measurement is recorded."""


@dataclass(slots=True)
class Shrinking(State):
    pool: NDArray[np.int64]  # the rows with a positive cost, active ones first
    due: NDArray[np.int32]  # the epoch that visits each row next
    size: int  # number of active rows
    epoch: int  # epochs so far, including those before a warm start
    until_scan: int  # visits until the next scan for shrunk rows that are due
    typical_gradient: float  # root mean square gradient of the rows that were free in the last epoch

    def make_all_due(self) -> None:
        """Make every row due in the next epoch."""
        make_all_due(self.due, self.epoch)
        self.until_scan = 0


class Schedule(NamedTuple):
    """The data that decides which rows an epoch visits, and in which order."""

    pool: Array
    due: Array
    random_state: Array
    together: int
    """Number of neighbouring rows that stay together when rows are shuffled."""
    may_shrink: bool


@njit(cache=True, nogil=True)
def skip_rate(typical_gradient: float, may_shrink: bool) -> float:
    """Return the epochs to skip per unit of gradient; 0 if shrinking is off."""
    return _SKIP_SHARE / typical_gradient if may_shrink and typical_gradient > 0.0 else 0.0


@njit(cache=True, nogil=True)
def due_epoch(skipped: float, epoch: int) -> int:
    """Return the epoch that visits a row again after it was skipped for this many epochs."""
    return epoch + 1 + int(min(skipped, _LONGEST_SKIP))


@njit(cache=True, nogil=True)
def make_all_due(due: Array, epoch: int) -> None:
    for i in range(due.size):
        if due[i] < NEVER:
            due[i] = min(due[i], epoch)


@njit(cache=True, nogil=True)
def gather_active(schedule: Schedule, epoch: int, size: int, until_scan: int) -> tuple[int, int]:
    """Shuffle the active rows to the front of the pool; return their count and the visits until the next scan."""
    pool = schedule.pool
    if size == 0 or until_scan <= 0:
        size = _gather_due(schedule.due, epoch, pool)
        until_scan = pool.size // _SCAN_SHARE
    shuffle(pool, size, schedule.together, schedule.random_state)
    return size, until_scan


@njit(cache=True, nogil=True)
def _gather_due(due: Array, epoch: int, pool: Array) -> int:
    """Write the due rows to the pool, in ascending order; if none is due, make all rows due first."""
    size = 0
    for _ in range(2):
        for i in range(due.size):
            if due[i] <= epoch:
                pool[size] = i
                size += 1
        if size > 0:
            break
        make_all_due(due, epoch)
    return size


@njit(cache=True, nogil=True)
def keep_active(schedule: Schedule, epoch: int, size: int) -> int:
    """Move the rows that stay active to the front of the pool; return their count."""
    pool, due = schedule.pool, schedule.due
    kept = 0
    for s in range(size):
        i = pool[s]
        if due[i] <= epoch:
            pool[kept] = i
            kept += 1
    return kept
