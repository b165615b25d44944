"""The memory that training takes beside the data, for every method on large sets, each run in a process of its own.

The aim: data and growth together are at most 1.3 times the data, plus a number of bytes for each row and feature; 2.3
times for methods that read columns; plus a square matrix of the features for Newton's.
"""

import argparse
import gc
import multiprocessing
from multiprocessing.connection import Connection
from typing import Any

import solvers
from benchmarks import problems
from benchmarks.growth import with_growth
from benchmarks.page import Page
from benchmarks.peers import LOSSES
from solvers.engine.registry import registered

SETS = ("mnist", "covtype", "NDC 1M", "rcv1_like 200k")
QUICK_SETS = ("covtype 100k", "rcv1_like 20k")
SECONDS = 5.0
"""What is needed at all is needed by then."""
SHARE, COLUMNS_SHARE = 0.3, 1.3
ROW_BYTES, FEATURE_BYTES, PAIR_BYTES = 200, 200, 24
"""Of 25 numbers each; three matrices of Newton's: the Gram, its factor, and one that is being summed."""
HOW = f"""What a process grows by while it trains, each run in one of its own that has the data already, to a gap of
1e-3 or for {SECONDS:.0f} s, on one thread. The aim: data and growth are at most {1 + SHARE} times the data,
{1 + COLUMNS_SHARE} times for methods that read columns, plus {ROW_BYTES} bytes a row and a feature, plus {PAIR_BYTES}
for each pair of features for those with a matrix of them."""
LEAST_BYTES = 8 << 20
"""Less is what Python's own objects and a thread's stack take."""


def run(options: argparse.Namespace) -> None:
    solvers.warm_up()
    page = Page("memory", "The memory of training beside its data", HOW)
    page.table("set", "its MB", "loss", "solver", "growth, MB", "of the data", "bytes a row", "ended", "")
    kept = total = 0
    for name in QUICK_SETS if options.quick else SETS:
        if (why := problems.why_missing(name)) is not None:
            print(f"{name}: left out, {why}")
            continue
        data = problems.opened(name)
        for loss in LOSSES:
            for solver in ("auto", *_able(loss)):
                answer = _in_child(data, loss, solver)
                if answer is None:
                    continue  # refuses this shape
                growth, status, used = answer
                allowed = _allowed(data, used)
                total, kept = total + 1, kept + (growth <= allowed)
                ran = f"auto ({used})" if solver == "auto" else solver
                figures = f"{growth / 1e6:.1f}", f"{growth / data.nbytes:.2f}", f"{growth / data.signs.size:.0f}"
                remark = "" if growth <= allowed else f"above {allowed / 1e6:.0f} MB"
                page.row(name, f"{data.nbytes / 1e6:.0f}", loss, ran, *figures, status, remark)
        del data
        gc.collect()
    page.end_table()
    page.say(f"Within the aim: {kept} of {total}.")
    if not options.quick:
        page.write()


def _able(loss: str) -> list[str]:
    offered = solvers.available().items()
    return [name for name, what in offered if loss in what["losses"] and "binary" in what["tasks"]]


def _allowed(data: problems.BinarySet, solver: str) -> float:
    footprint = registered()[solver].footprint if solver in registered() else None
    share = COLUMNS_SHARE if footprint is not None and footprint.copies_entries else SHARE
    n_rows, n_features = data.X.shape
    pairs = n_features**2 if footprint is not None and footprint.square > 0.0 else 0
    linear = ROW_BYTES * n_rows + FEATURE_BYTES * n_features + PAIR_BYTES * pairs
    return float(share * data.nbytes + linear + LEAST_BYTES)


def _in_child(data: problems.BinarySet, loss: str, solver: str) -> tuple[int, str, str] | None:
    """(growth in bytes, status, the method that ran): forked, so that data and kernels are there and nothing else."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_measure, args=(data, loss, solver, sender))
    child.start()
    sender.close()
    try:
        answer: tuple[int, str, str] | None = receiver.recv()
        return answer
    finally:
        child.join()


def _measure(data: problems.BinarySet, loss: str, solver: str, sender: Connection) -> None:
    settings: dict[str, Any] = {"loss": loss, "solver": solver, "tol": 1e-3, "max_seconds": SECONDS, "threads": 1}
    try:
        # Kernels are loaded on their first call, and that is not what is measured.
        solvers.train(data.X[:100], data.signs[:100], **{**settings, "max_passes": 3})
        result, growth = with_growth(lambda: solvers.train(data.X, data.signs, **settings))
    except solvers.SolverError:
        sender.send(None)
        return
    sender.send((growth, str(result.status), result.solver))
