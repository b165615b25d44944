"""`dcd_parallel`: dual coordinate descent by several threads that share one vector of weights.

Hsieh, Yu, Dhillon: PASSCoDe: Parallel asynchronous stochastic dual coordinate descent, ICML 2015, their variant without
locks. The rows of an epoch are dealt out to the threads, so an alpha belongs to one of them; w and b are read and
written by all. Now and then an update of w is lost when two threads write at once. What is lost is a part of a step, so
it vanishes as the steps do, and w is summed up anew from alpha every few passes, whenever the gap seems to be reached,
and before one thread goes on alone: what is certified is a point of `dcd`'s own kind, and errors cannot add up. Which
updates are lost depends on the clock, so with several threads two runs differ in their last digits; with one thread it
is `dcd`.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from solvers.dual_descent import DualDescent
from solvers.dual_descent_rows import bias_share, descend, end_epoch, gather_pool
from solvers.protocol import Start
from solvers.result import State

__all__ = ["ParallelDualDescent"]

ENTRIES = 100_000
"""An epoch over fewer stored entries is not worth the threads' start."""
SEGMENTS = 4
"""How often an epoch moves the centre of the bias."""
DRIFT_PASSES = 8
"""After so many passes w is summed up anew: a read in order, a third of what a pass costs."""


class ParallelDualDescent(DualDescent):
    name = "dcd_parallel"
    uses_threads = True
    same_bits = False
    paper = "Hsieh, Yu, Dhillon (2015): PASSCoDe: Parallel asynchronous stochastic dual coordinate descent"
    notes = "dcd by several threads on one vector of weights, for large sparse data; with one thread it is dcd."

    def init(self, seed: int, start: Start) -> State:
        return {**super().init(seed, start), "rows_adrift": 0}

    def _run_pass(self, state: State, target: float) -> tuple[int, bool, float, float, int, float]:
        """One epoch by all threads, or a pass by one if the rows that are awake are not enough for more."""
        data = self.problem.data
        size = state["pool"].size if state["until_scan"] <= 0 else state["pool_size"]
        if self.threads == 1 or size * (data.stored_entries / data.n_rows) < ENTRIES:
            read = self._sum_up(state)
            visited, *seen = super()._run_pass(state, target)
            return visited + read, *seen  # type: ignore[return-value]  # mypy cannot count what is unpacked
        visited, is_whole, gap, violation, updates, dual = self._run_epoch(state)
        state["rows_adrift"] += visited
        is_far = state["rows_adrift"] >= DRIFT_PASSES * data.n_rows
        if is_far or gap <= target * max(dual + gap, self.problem.primal_floor):
            visited += self._sum_up(state)
        return visited, is_whole, gap, violation, updates, dual

    def _run_epoch(self, state: State) -> tuple[int, bool, float, float, int, float]:
        alpha, w, pool, balance, pull = (state[key] for key in ("alpha", "w", "pool", "balance", "pull"))
        pool_size, until_scan, random_state = state["pool_size"], state["until_scan"], state["random_state"]
        size, until_scan = gather_pool(
            state["wake"], state["now"], pool, pool_size, until_scan, self.together, random_state
        )
        naps = 1.0 / state["usual"] if self.chosen["shrinking"] and state["usual"] > 0.0 else 0.0
        share = bias_share(self.problem.bias_feature, pull)
        parts = SEGMENTS * self.threads
        edges = [size * k // parts for k in range(parts + 1)]

        def work(part: int) -> tuple[float, ...]:
            rows = pool[edges[part] : edges[part + 1]]
            return descend(
                *self.rows, self.constants, share, naps, state["now"], rows, alpha, w, balance, state["wake"]
            )

        sweeps = []
        with ThreadPoolExecutor(self.threads) as workers:
            for first in range(0, parts, self.threads):
                sweeps += list(workers.map(work, range(first, first + self.threads)))
                balance[1] = float((alpha * self.problem.signs).sum())
                balance[0] = share * (balance[1] + pull * balance[0])
        gaps, _, _, highs, lows, squares, pushed, updates = np.array(sweeps).T
        state["usual"] = float(np.sqrt(squares.sum() / max(pushed.sum(), 1.0)))
        state["now"] += 1
        state["until_scan"] = until_scan - size
        state["pull"], state["pool_size"], gap, dual = end_epoch(
            self.constants, self.problem.bias_feature, pull, alpha, w, balance, float(gaps.sum()), int(updates.sum()),
            state["now"], pool, size, state["wake"],
        )  # fmt: skip
        return size, size == pool.size, gap, float(highs.max() - lows.min()), int(updates.sum()), dual

    def _sum_up(self, state: State) -> int:
        """Make w what alpha says; rows read."""
        if state["rows_adrift"] == 0:
            return 0
        state["rows_adrift"] = 0
        state["w"] = self.problem.weights_of(state["alpha"])
        if self.problem.bias_feature > 0.0:
            state["balance"][1] = state["w"][-1] / self.problem.bias_feature
        return self.problem.data.n_rows
