"""`dcd_parallel`: dual coordinate descent by several threads that share one vector of weights.

Hsieh, Yu, Dhillon: PASSCoDe: Parallel asynchronous stochastic dual coordinate descent, ICML 2015, their variant without
locks. The rows of an epoch are dealt out to the threads, so an alpha belongs to one of them; w is read and written by
all, the bias by each in a place of its own, which hears of the others' moves every few rows. Now and then an update of
w is lost when two threads write at once. What is lost is a part of a step, so it vanishes as the steps do, and w is
summed up anew from alpha every few passes, whenever the gap seems to be reached, and before one thread goes on alone:
what is certified is a point of `dcd`'s own kind, and errors cannot add up.

Whether threads that share w are faster than one depends on how far apart their cores are: a signal to the other core
and back took 60, 120 or 600 ns on one machine within a minute. So after a first pass by one thread and a second by all
the clock tells which way to go on, and now and then the other is tried again. With several threads two runs therefore
differ in their last digits; with one thread it is `dcd`.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit

from solvers.linalg.clock import solving_time
from solvers.linalg.types import Array
from solvers.method import Start
from solvers.methods.dcd.dcd import DualDescent
from solvers.methods.dcd.epoch import descend, end_epoch, foretell_gap
from solvers.methods.dcd.proximal_bias import bias_share
from solvers.methods.dcd.shrinking import gather_pool, nap_rate
from solvers.state import StoredState as State

__all__ = ["ParallelDualDescent"]


ENTRIES = 1_000_000
"""An epoch over fewer stored entries is not worth the threads' start."""
SEGMENTS = 4
"""How often an epoch moves the centre of the bias."""
TURN = 64
"""Rows after which a thread hears of the others' moves of the bias."""
DRIFT_PASSES = 8
"""After so many passes w is summed up anew: a read in order, a third of what a pass costs."""
TRUST_PASSES = 16
"""After so many passes the slower way is tried again: cores may have become free."""


class ParallelDualDescent(DualDescent):
    name = "dcd_parallel"
    uses_threads = True
    same_bits = False
    paper = "Hsieh, Yu, Dhillon (2015): PASSCoDe: Parallel asynchronous stochastic dual coordinate descent"
    notes = "dcd by several threads on one vector of weights while the clock says that it helps; with one it is dcd."

    def init(self, seed: int, start: Start) -> State:
        self.row_seconds: dict[bool, float] = {}
        """By all threads (True) and by one, as the last pass of each kind took."""
        self.passes_since_try = 0
        return {**super().init(seed, start), "rows_adrift": 0}

    def _run_pass(self, state: State, target: float) -> tuple[int, bool, float, float, int, float]:
        """One epoch by all threads, or a pass by one if that is faster, or few rows are awake."""
        data = self.problem.data
        size = state["pool"].size if state["until_scan"] <= 0 else state["pool_size"]
        if self.threads == 1 or size * (data.stored_entries / data.n_rows) < ENTRIES:
            return self._run_alone(state, target)
        by_all = self._is_turn_of_all(state)
        began = solving_time()
        seen = self._run_together(state, target) if by_all else self._run_alone(state, target)
        self.row_seconds[by_all] = (solving_time() - began) / max(1, seen[0])
        return seen

    def _is_turn_of_all(self, state: State) -> bool:
        """The first pass is one's, which begins well; the next is all's; then the faster way's, but for a try now and
        then."""
        if len(self.row_seconds) < 2:
            return state["now"] > 0 and True not in self.row_seconds
        self.passes_since_try = (self.passes_since_try + 1) % TRUST_PASSES
        return (self.row_seconds[True] < self.row_seconds[False]) == (self.passes_since_try > 0)

    def _run_alone(self, state: State, target: float) -> tuple[int, bool, float, float, int, float]:
        read = self._sum_up(state)
        visited, *seen = super()._run_pass(state, target)
        return visited + read, *seen  # type: ignore[return-value]  # mypy cannot count what is unpacked

    def _run_together(self, state: State, target: float) -> tuple[int, bool, float, float, int, float]:
        visited, is_whole, gap, violation, updates, dual = self._run_epoch(state)
        state["rows_adrift"] += visited
        is_far = state["rows_adrift"] >= DRIFT_PASSES * self.problem.data.n_rows
        if is_far or gap <= target * max(dual + gap, self.problem.primal_floor):
            visited += self._sum_up(state)
        return visited, is_whole, gap, violation, updates, dual

    def _run_epoch(self, state: State) -> tuple[int, bool, float, float, int, float]:
        alpha, w, pool, balance, pull = (state[key] for key in ("alpha", "w", "pool", "balance", "pull"))
        pool_size, until_scan, random_state = state["pool_size"], state["until_scan"], state["random_state"]
        size, until_scan = gather_pool(
            state["wake"], state["now"], pool, pool_size, until_scan, self.together, random_state
        )
        naps = nap_rate(state["usual"], self.chosen["shrinking"])
        share = bias_share(self.problem.bias_feature, pull)
        parts = SEGMENTS * self.threads
        edges = [size * k // parts for k in range(parts + 1)]
        own = np.zeros((self.threads, 16))  # 128 bytes each, so that no two are in one line of the cache

        def work(part: int) -> Array:
            rows = pool[edges[part] : edges[part + 1]]
            return _descend_beside(
                *self.rows, self.constants, share, naps, state["now"], rows, alpha, w, own, part % self.threads,
                state["wake"],
            )  # fmt: skip

        sweeps = []
        with ThreadPoolExecutor(self.threads) as workers:
            for first in range(0, parts, self.threads):
                balance[0] = share * (balance[1] + pull * balance[0])
                own[:, 0], own[:, 1] = balance[0], 0.0
                sweeps += list(workers.map(work, range(first, first + self.threads)))
                moved = float(own[:, 1].sum())
                balance[0] += share * moved
                balance[1] += moved
        gaps, _, _, highs, lows, squares, pushed, updates = np.array(sweeps).T
        state["usual"] = float(np.sqrt(squares.sum() / max(pushed.sum(), 1.0)))
        state["now"] += 1
        state["until_scan"] = until_scan - size
        is_whole, gap = size == pool.size, float(gaps.sum())
        foretold = foretell_gap(gap, state["last_gap"]) if is_whole else gap
        state["last_gap"] = gap
        state["pull"], state["pool_size"], gap, dual = end_epoch(
            self.constants, self.problem.bias_feature, pull, alpha, w, balance, foretold, int(updates.sum()),
            state["now"], pool, size, state["wake"],
        )  # fmt: skip
        return size, is_whole, gap, float(highs.max() - lows.min()), int(updates.sum()), dual

    def _make_exact(self, state: State) -> None:
        state["rows_read"] += self._sum_up(state)

    def _sum_up(self, state: State) -> int:
        """Make w what alpha says; rows read."""
        if state["rows_adrift"] == 0:
            return 0
        state["rows_adrift"] = 0
        state["w"] = self.problem.weights_of(state["alpha"])
        if self.problem.bias_feature > 0.0:
            state["balance"][1] = state["w"][-1] / self.problem.bias_feature
        return self.problem.data.n_rows


@njit(cache=True, nogil=True)
def _descend_beside(
    values: Array,
    columns: Array,
    starts: Array,
    constants: Array,
    share: float,
    naps: float,
    now: int,
    rows: Array,
    alpha: Array,
    w: Array,
    own: Array,
    t: int,
    wake: Array,
) -> Array:
    """The Sweep of thread t over its rows; own[t] = [b as it sees it, what it has added to S, which others read]."""
    total, heard = np.zeros(8), 0.0
    for first in range(0, rows.size, TURN):
        said = 0.0
        for u in range(own.shape[0]):
            said += own[u, 1] if u != t else 0.0
        own[t, 0] += share * (said - heard)
        heard = said
        sweep = descend(
            values, columns, starts, constants, share, naps, now, rows[first : first + TURN], alpha, w, own[t], wake
        )
        terms, term_squares, gain, high, low, squares, pushed, updates = sweep
        total[0], total[1], total[2] = total[0] + terms, total[1] + term_squares, total[2] + gain
        total[3], total[4] = max(total[3], high), min(total[4], low)
        total[5], total[6], total[7] = total[5] + squares, total[6] + pushed, total[7] + updates
    return total
