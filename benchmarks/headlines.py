"""The largest run of each paper, done by its method as the paper did it, and by `auto`, beside the printed figure.

`papers` has the tables whole; these are the runs that their abstracts speak of. Writes docs/benchmarks/headlines.md.
"""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import solvers
from benchmarks import problems
from benchmarks.data import load
from benchmarks.growth import with_growth
from benchmarks.page import Page

HOW = """One thread, seconds by the clock from arrays in memory, certificate included. The printed figures are of
machines of 2000 to 2014."""
LIMIT_SECONDS = 300.0
NEVER = 1e-300
"""A tolerance out of reach: the paper's own rule ends the run."""


class _Headline(NamedTuple):
    title: str
    printed: str
    data: Callable[[], tuple[Any, Any]]
    problem: dict[str, Any]
    """Arguments of `train` that say what is solved."""
    runs: dict[str, dict[str, Any]]
    """By what they are called: the solver and when it stops."""


def _covtype() -> tuple[Any, Any]:
    X, y = load("covtype")
    return X / np.abs(X).max(axis=0).clip(min=1e-12), y


def _generated(name: str) -> Callable[[], tuple[Any, Any]]:
    def data() -> tuple[Any, Any]:
        found = problems.opened(name)
        return found.X, found.signs

    return data


def _alone(positive: int) -> Callable[[], tuple[Any, Any]]:
    def data() -> tuple[Any, Any]:
        X, y = _covtype()
        return X, np.where(y == positive, 1.0, -1.0)

    return data


def _headlines(*, quick: bool) -> Iterator[_Headline]:
    auto = {"auto, certified 1e-3": {"solver": "auto", "tol": 1e-3}}
    epsilon = {"tol": NEVER, "options": {"epsilon": 1e-3}}
    perf = {"cpa, its epsilon = 0.001": {"solver": "cpa", **epsilon}}
    yield _Headline(
        f"SVM-Perf, Reuters CCAT ({'200,000' if quick else '804,414'} x 47,236; here generated texts of that shape)",
        "149.7 CPU s (SVM-Light 20,075.5)",
        _generated("rcv1_like 200k" if quick else "rcv1_like 800k"),
        {"loss": "hinge", "C": 1e4, "c_scale": "mean"},
        {**perf, **auto},
    )
    yield _Headline(
        "SVM-Perf, Covertypes 1 (printed with 522,911 rows, here 581,012)",
        "171.7 CPU s (SVM-Light 25,514.3)",
        _alone(1),
        {"loss": "hinge", "C": 1e6, "c_scale": "mean"},
        {**perf, **auto},
    )
    yield _Headline(
        f"ASVM, clustered normal points ({'1' if quick else '7'} million x 32)",
        "95.57 min, 5 iterations",
        _generated("NDC 1M" if quick else "NDC 7M"),
        {"loss": "squared_hinge", "C": 0.005},
        {"asvm, its residual < 0.1": {"solver": "asvm", "tol": NEVER, "options": {"residual_tol": 0.1}}, **auto},
    )
    within = {"tol": 1e-2}
    yield _Headline(
        "OCA, covtype, 7 classes jointly, C = 1, no bias",
        "no seconds printed; to 1 %",
        _covtype,
        {"task": "multiclass", "strategy": "crammer_singer", "C": 1.0, "bias": "none"},
        {f"{name}, certified 1e-2": {"solver": name, **within} for name in ("oca_e", "oca_t", "auto")},
    )
    for loss, printed in (("hinge", "4.1 s (peers 51.8 to >500)"), ("squared_hinge", "3.9 s (peers 10.0 to >500)")):
        yield _Headline(
            f"SVM-ALM, covtype, commonest class against the rest, {loss}, C = 1, free bias",
            f"{printed}, to 1 % above the optimum",
            _alone(2),
            {"loss": loss, "C": 1.0, "bias": "free"},
            {f"{name}, certified 1e-2": {"solver": name, **within} for name in ("alm_exact", "alm_inexact", "auto")},
        )


def run(options: argparse.Namespace) -> None:
    solvers.warm_up()
    page = Page("headlines", "The papers' headline runs, measured here", HOW)
    page.table("run", "printed", "here", "seconds", "iterations", "relative gap", "memory beside the data")
    for one in _headlines(quick=options.quick):
        try:
            X, y = one.data()
        except FileNotFoundError as missing:
            print(f"{one.title}: left out, {missing.filename} is not there")
            continue
        for name, how in one.runs.items():
            given = {**one.problem, "threads": 1, "max_seconds": LIMIT_SECONDS, **how}
            result, growth = with_growth(partial(solvers.train, X, y, **given))
            ended = result.converged or result.status is solvers.Status.STOPPED
            used = f" ({result.solver})" if how["solver"] == "auto" else ""
            seconds, gap = f"{'' if ended else '> '}{result.seconds:.2f}", f"{result.certificate.relative_gap:.1e}"
            page.row(one.title, one.printed, name + used, seconds, result.iterations, gap, f"{growth / 1e6:.0f} MB")
        del X, y
    if not options.quick:
        page.write()
