"""What certificates cost: their share in the seconds of `auto`, and how many reads of the data they are worth.

The aim is at most the larger of a tenth of the run and two passes over the data; a pass is one product with the rows.
"""

import argparse
import itertools
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import solvers
from benchmarks import problems
from benchmarks.page import Page
from benchmarks.peers import COSTS, LOSSES
from benchmarks.peers.match import ENOUGH_SECONDS, GAPS, OUR_SECONDS, ROUNDS
from benchmarks.timing import timed

SHARE, PASSES = 0.1, 2.0
HOW = """`auto` on one thread, from arrays in memory; the fastest of three runs. A pass is one product of numpy or scipy
with the rows, on one thread as well. The aim: at most a tenth of the run, or two passes, whichever is more."""


def run(options: argparse.Namespace) -> None:
    solvers.warm_up()
    page = Page("certificates", "What certificates cost", HOW)
    page.table("set", "loss", "C", "gap", "solver", "seconds", "share of certificates", "in passes", "")
    kept = total = 0
    for name in (*problems.SMALL, *(() if options.quick else ("covtype",))):
        if (why := problems.why_missing(name)) is not None:
            print(f"{name}: left out, {why}")
            continue
        data = problems.opened(name)
        weights = np.ones(data.X.shape[1])
        with threadpool_limits(1):  # like the run; BLAS would use all cores for a dense product
            a_pass = min(timed(partial(data.X.dot, weights))[1].wall for _ in range(ROUNDS))
        _fastest(data, *next(itertools.product(LOSSES, COSTS, GAPS)))  # the first runs have to get their memory
        for loss, C, gap in itertools.product(LOSSES, COSTS, GAPS):
            result = _fastest(data, loss, C, gap)
            share, passes = result.certificate_seconds / result.seconds, result.certificate_seconds / a_pass
            is_kept = share <= SHARE or passes <= PASSES
            total, kept = total + 1, kept + is_kept
            remark = "" if is_kept else "above both" if result.converged else "not certified"
            figures = f"{result.seconds:.4f}", f"{share:.1%}", f"{passes:.1f}"
            page.row(name, loss, f"{C:g}", f"{gap:.0e}", result.solver, *figures, remark)
    page.end_table()
    page.say(f"Within a tenth of the run or two passes: {kept} of {total}.")
    if not options.quick:
        page.write()


def _fastest(data: problems.BinarySet, loss: str, C: float, gap: float) -> solvers.SolveResult:
    results: list[solvers.SolveResult] = []
    while len(results) < ROUNDS and not (results and results[-1].seconds > ENOUGH_SECONDS):
        given: dict[str, Any] = {"loss": loss, "C": C, "tol": gap, "max_seconds": OUR_SECONDS, "threads": 1}
        results.append(solvers.train(data.X, data.signs, **given))
    return min(results, key=lambda result: result.seconds)
