"""Our seconds against the number of rows, at a C that is a mean over the rows: the slope in logarithms is the exponent.

The sizes of one kind of data are the first rows of the largest set. To a certified relative gap of 1e-3, one thread.
"""

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

import solvers
from benchmarks import problems
from benchmarks.timing import least_seconds, timed

C, TOL = 1e4, 1e-3
"""C as SVM-Perf has it for RCV1; ASVM's for its 7 million rows is 3.5e4."""
AIM = 1.15
SIZES = {
    "NDC 7M": (100_000, 300_000, 1_000_000, 3_000_000, 7_000_000),
    "rcv1_like 800k": (100_000, 200_000, 400_000, 804_414),
}
QUICK_SIZES = {"NDC 1M": (100_000, 300_000, 1_000_000), "rcv1_like 200k": (50_000, 100_000, 200_000)}
LIMIT_SECONDS = 300.0


def run(options: argparse.Namespace) -> None:
    solvers.warm_up()
    print(f"solver auto, C = {C:g} (mean), relative gap {TOL:g}, {options.clock} seconds; aim: at most {AIM}")
    for name, sizes in (QUICK_SIZES if options.quick else SIZES).items():
        data = problems.opened(name)
        for loss in ("hinge", "squared_hinge"):
            used: dict[str, str] = {}
            calls = {str(n): _call(data, n, loss, used, of_cpu=options.clock == "cpu") for n in sizes}
            seconds = least_seconds(calls)
            cells = [f"{n:,}: {seconds[str(n)]:.3f} s" if str(n) in seconds else f"{n:,}: not certified" for n in sizes]
            print(
                f"{name.split()[0]:10} {loss:14} {_slope(seconds)}  {'; '.join(cells)}  ({_distinct(used)})", flush=True
            )
        del data


def _call(
    data: problems.BinarySet, n: int, loss: str, used: dict[str, str], *, of_cpu: bool
) -> Callable[[], float | None]:
    def call() -> float | None:
        X, signs = data.X[:n], data.signs[:n]
        settings: dict[str, Any] = {"loss": loss, "C": C, "c_scale": "mean", "tol": TOL, "max_seconds": LIMIT_SECONDS}
        result, seconds = timed(lambda: solvers.train(X, signs, threads=1, **settings))
        used[str(n)] = result.solver
        return (seconds.cpu if of_cpu else result.seconds) if result.converged else None

    return call


def _slope(seconds: dict[str, float]) -> str:
    if len(seconds) < 2:
        return "no slope"
    logarithms = np.log([(int(n), time) for n, time in seconds.items()])
    slope = float(np.polyfit(logarithms[:, 0], logarithms[:, 1], 1)[0])
    return f"slope {slope:.2f}{'' if slope <= AIM else ' ABOVE THE AIM'}"


def _distinct(used: dict[str, str]) -> str:
    return ", ".join(dict.fromkeys(used.values()))
