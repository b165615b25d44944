"""`dcd_parallel`: dual coordinate descent by several threads that share one vector of weights.

Hsieh, Yu, Dhillon (2015), PASSCoDe, in the variant without locks. The rows of an epoch are divided among the threads,
so that each alpha belongs to one thread. All threads read and write w. Each has its own copy of the bias and adds the
others' moves to it every TURN rows. When two threads write the same weight at once, one update may be lost. What is
lost is part of a step, so it vanishes as the steps do, and w is summed from alpha again every few passes, when the gap
seems to be reached, and before a single thread continues. Certified points are therefore of the same kind as those of
`dcd`, and errors do not add up.

Whether threads that share w are faster than one depends on the distance of their cores: a signal to the other core and
back took 60, 120 or 600 ns on one machine within a minute. After a first pass by one thread and a second by all, the
clock decides how to continue, and the slower way is tried again now and then. With several threads two runs therefore
differ in their last digits; with one thread it is `dcd`.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit

from solvers.linalg.clock import solving_time
from solvers.linalg.types import Array
from solvers.method import Start
from solvers.methods.dcd.dcd import DualCoordinateDescent
from solvers.methods.dcd.dcd_start import DcdState
from solvers.methods.dcd.dual_problem import DualPoint, DualTerms
from solvers.methods.dcd.epoch import PassReport, Sweep, add_sweeps, descend, end_epoch, predict_gap
from solvers.methods.dcd.proximal_bias import bias_share
from solvers.methods.dcd.shrinking import gather_active, skip_rate

__all__ = ["ParallelDualDescent"]


ENTRIES = 1_000_000
"""Stored entries of the active rows below which one thread runs the pass: starting threads would cost more."""
SEGMENTS = 4
"""Moves of the bias's centre in an epoch."""
TURN = 64
"""Rows after which a thread adds the others' moves of the bias to its own. Larger: less traffic, an older bias."""
DRIFT_PASSES = 8
"""Passes by several threads after which w is summed from alpha again: a read in order, a third of the cost of a
pass."""
TRUST_PASSES = 16
"""Passes after which the slower way is tried again: cores may have become free."""


class ParallelDualDescent(DualCoordinateDescent):
    name = "dcd_parallel"
    uses_threads = True
    same_bits = False
    paper = "Hsieh, Yu, Dhillon (2015): PASSCoDe: Parallel asynchronous stochastic dual coordinate descent"
    notes = (
        "dcd by several threads that share the weights, while that is faster by the clock; with one thread it is dcd."
    )

    def init(self, seed: int, start: Start) -> DcdState:
        self.row_seconds: dict[bool, float] = {}
        """Seconds a row, by all threads (True) and by one, as the last pass of each kind took."""
        self.passes_since_try = 0
        return super().init(seed, start)

    def _run_pass(self, state: DcdState, target: float) -> PassReport:
        """Run one epoch by all threads, or a pass by one if that is faster or the active set is small."""
        data, rows = self.problem.data, state.shrinking
        size = rows.pool.size if rows.until_scan <= 0 else rows.size
        if self.threads == 1 or size * (data.stored_entries / data.n_rows) < ENTRIES:
            return self._run_alone(state, target)
        by_all = self._is_turn_of_all(state)
        began = solving_time()
        seen = self._run_together(state, target) if by_all else self._run_alone(state, target)
        self.row_seconds[by_all] = (solving_time() - began) / max(1, seen.visited)
        return seen

    def _is_turn_of_all(self, state: DcdState) -> bool:
        """The first pass is by one thread, the second by all, then the faster way, with a trial of the other at
        times."""
        if len(self.row_seconds) < 2:
            return state.shrinking.epoch > 0 and True not in self.row_seconds
        self.passes_since_try = (self.passes_since_try + 1) % TRUST_PASSES
        return (self.row_seconds[True] < self.row_seconds[False]) == (self.passes_since_try > 0)

    def _run_alone(self, state: DcdState, target: float) -> PassReport:
        read = self._sum_up(state)
        seen = super()._run_pass(state, target)
        return seen._replace(visited=seen.visited + read)

    def _run_together(self, state: DcdState, target: float) -> PassReport:
        seen = self._run_epoch(state)
        state.rows_adrift += seen.visited
        is_far = state.rows_adrift >= DRIFT_PASSES * self.problem.data.n_rows
        if is_far or seen.gap <= target * max(seen.dual + seen.gap, self.problem.primal_floor):
            return seen._replace(visited=seen.visited + self._sum_up(state))
        return seen

    def _run_epoch(self, state: DcdState) -> PassReport:
        rows, schedule, point = state.shrinking, self._schedule(state), state.point
        size, until_scan = gather_active(schedule, rows.epoch, rows.size, rows.until_scan)
        seen = self._descend_together(state, size)
        updates, gap, is_whole = int(seen.updates), float(seen.gap), size == rows.pool.size
        predicted = predict_gap(gap, state.last_gap) if is_whole else gap
        rows.typical_gradient = float(np.sqrt(seen.squares / max(seen.free, 1.0)))
        rows.epoch += 1
        rows.until_scan = until_scan - size
        state.last_gap = gap
        state.bias.pull, rows.size, gap, dual = end_epoch(
            self.terms, point, schedule, state.bias.pull, rows.epoch, size, predicted, updates
        )
        return PassReport(size, is_whole, gap, float(seen.largest - seen.smallest), updates, dual)

    def _descend_together(self, state: DcdState, size: int) -> Sweep:
        """Visit the active rows in SEGMENTS parts, each divided among the threads; the bias's centre moves between."""
        rows, pull, balance = state.shrinking, state.bias.pull, state.bias.balance
        rate = skip_rate(rows.typical_gradient, self.chosen["shrinking"])
        share = bias_share(self.problem.bias_feature, pull)
        parts = SEGMENTS * self.threads
        edges = [size * k // parts for k in range(parts + 1)]
        own = np.zeros((self.threads, 16))  # 128 bytes each, so that no two are in one line of the cache

        def work(part: int) -> Sweep:
            some = rows.pool[edges[part] : edges[part + 1]]
            thread = part % self.threads
            return _descend_beside(self.terms, state.point, some, share, rate, rows.epoch, rows.due, own, thread)

        sweeps = []
        with ThreadPoolExecutor(self.threads) as workers:
            for first in range(0, parts, self.threads):
                balance[0] = share * (balance[1] + pull * balance[0])
                own[:, 0], own[:, 1] = balance[0], 0.0
                sweeps += list(workers.map(work, range(first, first + self.threads)))
                moved = float(own[:, 1].sum())
                balance[0] += share * moved
                balance[1] += moved
        total = sweeps[0]
        for sweep in sweeps[1:]:
            total = add_sweeps(total, sweep)
        return total

    def _make_exact(self, state: DcdState) -> None:
        state.rows_read += self._sum_up(state)

    def _sum_up(self, state: DcdState) -> int:
        """Sum w from alpha if threads have let them drift apart; return the rows read."""
        if state.rows_adrift == 0:
            return 0
        state.rows_adrift = 0
        state.w = self.problem.weights_of(state.alpha)
        if self.problem.bias_feature > 0.0:
            state.bias.balance[1] = state.w[-1] / self.problem.bias_feature
        return self.problem.data.n_rows


@njit(cache=True, nogil=True)
def _descend_beside(
    terms: DualTerms,
    point: DualPoint,
    rows: Array,
    share: float,
    rate: float,
    epoch: int,
    due: Array,
    own: Array,
    thread: int,
) -> Sweep:
    """One thread's steps; own[thread] = [b as this thread sees it, what it has added to S, which the others read]."""
    total, heard = Sweep(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0), 0.0
    beside = DualPoint(point.alpha, point.w, own[thread])
    for first in range(0, rows.size, TURN):
        said = 0.0
        for other in range(own.shape[0]):
            said += own[other, 1] if other != thread else 0.0
        own[thread, 0] += share * (said - heard)
        heard = said
        total = add_sweeps(total, descend(terms, beside, rows[first : first + TURN], share, rate, epoch, due))
    return total
