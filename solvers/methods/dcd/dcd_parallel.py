"""`dcd_parallel`: dual coordinate descent by several threads that share one vector of weights.

This is PASSCoDe (Hsieh, Yu, Dhillon 2015) in the variant without locks. The rows of an epoch are divided among the
threads, so each alpha belongs to one thread. All threads read and write w. Each thread has its own copy of the bias and
adds the other threads' changes to it every TURN rows. When two threads write the same weight at the same time, one
update can be lost. The lost part of a step tends to 0 as the steps do. In addition, w is computed again from alpha
every few passes, when the gap seems to be reached, and before a single thread continues. Certified points are therefore
exact, as those of `dcd`, and errors do not accumulate.

Whether threads that share w are faster than one depends on the distance of their cores: on one machine a signal to the
other core and back took 60, 120 or 600 ns within a minute. The first pass uses one thread and the second all of them.
After that the method continues with whichever was faster, and tries the other again every TRUST_PASSES passes. With
several threads two runs therefore differ in their last digits. With one thread the method is `dcd`.
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
"""One thread runs the pass if the active rows have fewer stored entries than this, because starting threads would cost
more than they save. Larger: fewer passes with several threads. Set by hand; no measurement is recorded."""
SEGMENTS = 4
"""Moves of the proximal centre of the bias per epoch. Larger: the bias adapts faster, and threads wait for each other
more often. Set by hand; no measurement is recorded."""
TURN = 64
"""Rows after which a thread adds the other threads' changes of the bias to its own copy. Larger: less traffic between
cores, a less current bias. Set by hand; no measurement is recorded."""
DRIFT_PASSES = 8
"""Passes by several threads after which w is computed again from alpha. That costs a third of a pass, because the rows
are read in order. Larger: fewer such sums, larger errors in w between them. Set by hand; no measurement is recorded."""
TRUST_PASSES = 16
"""Number of passes after which the slower alternative (one thread or all threads) is tried again, because the load of
the cores can change. Larger: fewer trials, later reaction to a change. Set by hand; no measurement is recorded."""


class ParallelDualDescent(DualCoordinateDescent):
    name = "dcd_parallel"
    uses_threads = True
    same_bits = False
    paper = "Hsieh, Yu, Dhillon (2015): PASSCoDe: Parallel asynchronous stochastic dual coordinate descent"
    notes = (
        "dcd with several threads that share the weights, while that is faster by the clock; with one thread it is dcd."
    )

    def init(self, seed: int, start: Start) -> DcdState:
        self.row_seconds: dict[bool, float] = {}
        """Seconds per row in the last pass with all threads (True) and with one thread (False)."""
        self.passes_since_try = 0
        return super().init(seed, start)

    def _run_pass(self, state: DcdState, target: float) -> PassReport:
        """Run one epoch with all threads, or a pass with one if that is faster or the active set is small."""
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
        """Return whether all threads run this pass. One thread runs the first pass and all threads run the second. Then
        the faster alternative continues, and the other is tried again every TRUST_PASSES passes."""
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
        """Visit the active rows in SEGMENTS parts, each divided among the threads; move the proximal
        centre of the bias in between."""
        rows, pull, balance = state.shrinking, state.bias.pull, state.bias.balance
        rate = skip_rate(rows.typical_gradient, self.chosen["shrinking"])
        share = bias_share(self.problem.bias_feature, pull)
        parts = SEGMENTS * self.threads
        edges = [size * k // parts for k in range(parts + 1)]
        own = np.zeros((self.threads, 16))  # 128 bytes per thread, so that no two threads share a cache line

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
        """Compute w from alpha if several threads have run since the last time; return the number of rows read."""
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
    """Run the steps of one thread. own[thread] contains this thread's copy of b and its change of S, which other
    threads read."""
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
