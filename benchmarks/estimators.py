"""`LinearSVMClassifier` beside `LinearSVC` at equal verified gap, on ten sets; writes docs/benchmarks/estimators.md."""

import argparse
import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from hyperplane.sklearn import LinearSVMClassifier
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

import solvers
from benchmarks import problems
from benchmarks.page import Page
from benchmarks.timing import least_seconds, timed

SETS = (
    "a9a",
    "w8a",
    "ijcnn1",
    "magic04",
    "madelon",
    "spambase",
    "connect_4",
    "shuttle",
    "skin_nonskin",
    "rcv1_like 20k",
)
GAPS = (1e-3, 1e-6)
TOLERANCES = tuple(10.0**-k for k in range(1, 10))
ENOUGH_SECONDS = 20.0
"""A run of LinearSVC that takes longer is its last for a set: it is not repeated with a smaller tolerance."""
HOW = """\
Both `fit` calls get the same arrays, with squared hinge loss, C = 1 and an intercept, and one thread. **Ours** is
stopped by its own certificate, which is part of its seconds. **LinearSVC** runs with `dual=True` and `dual=False` and
tolerances from 1e-1 to 1e-9; its seconds are those of its fastest run whose gap, verified by `solvers.certify`, is
small enough. Seconds are {clock}, the least of three rounds in which both take turns. A ratio is ours over theirs.
"Distance" is |w - w'| of both weights, over the sum of their certified distances from the optimum: at most 1."""


def run(options: argparse.Namespace) -> None:
    clock = "cpu" if options.clock == "cpu" else "wall"
    solvers.warm_up()
    words = {"cpu": "of the processor", "wall": "by the clock"}
    page = Page("estimators", "Estimators beside LinearSVC", HOW.format(clock=words[clock]))
    page.table("set", "gap", "ours (s)", "LinearSVC (s)", "ratio", "its setting", "distance")
    ratios: dict[float, list[float]] = {gap: [] for gap in GAPS}
    for name in SETS[:3] if options.quick else SETS:
        if (why := problems.why_missing(name)) is not None:
            print(f"{name}: left out, {why}", flush=True)
            continue
        data = problems.opened(name)
        for gap in GAPS:
            with threadpool_limits(1), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # LinearSVC warns with every tolerance that it misses
                _compare(page, name, data, gap, clock, ratios[gap])
    page.end_table()
    for gap, found in ratios.items():
        if found:
            mean = math.exp(sum(map(math.log, found)) / len(found))
            page.say(f"Geometric mean of the ratios at a gap of {gap:g}: {mean:.2f}, of {len(found)} sets.")
    page.write()


def _compare(page: Page, name: str, data: Any, gap: float, clock: str, ratios: list[float]) -> None:
    X, y = data.X, data.signs
    best = _fastest_setting(X, y, gap, clock)
    ours = partial(LinearSVMClassifier, tol=gap, max_iter=100_000)
    if best is None:
        page.row(name, f"{gap:g}", "", "", "", "did not reach the gap", "")
        return
    theirs = partial(LinearSVC, max_iter=1_000_000, random_state=0, **best)
    seconds = least_seconds({who: _timed_fit(make, X, y, clock) for who, make in (("ours", ours), ("theirs", theirs))})
    both = [make().fit(X, y) for make in (ours, theirs)]
    moved = np.hypot(np.linalg.norm(both[0].coef_ - both[1].coef_), both[0].intercept_[0] - both[1].intercept_[0])
    radius = sum(math.sqrt(2.0 * _certificate(X, y, one).gap) for one in both)
    ratios.append(seconds["ours"] / seconds["theirs"])
    setting = f"dual={best['dual']}, tol={best['tol']:.0e}"
    figures = (f"{seconds['ours']:.3f}", f"{seconds['theirs']:.3f}", f"{ratios[-1]:.2f}")
    page.row(name, f"{gap:g}", *figures, setting, f"{moved / radius:.2f}")


def _fastest_setting(X: Any, y: Any, gap: float, clock: str) -> dict[str, Any] | None:
    """Return the parameters of LinearSVC's fastest run that reaches the gap."""
    found: list[tuple[float, dict[str, Any]]] = []
    for dual in (False, True):
        for tol in TOLERANCES:
            setting = {"dual": dual, "tol": tol}
            estimator = LinearSVC(max_iter=1_000_000, random_state=0, **setting)
            fitted, seconds = timed(partial(estimator.fit, X, y))
            if _certificate(X, y, fitted).relative_gap <= gap:
                found.append((getattr(seconds, clock), setting))
                break
            if seconds.cpu > ENOUGH_SECONDS:
                break
    return min(found, key=lambda one: one[0])[1] if found else None


def _timed_fit(make: Callable[[], Any], X: Any, y: Any, clock: str) -> Callable[[], float]:
    return lambda: float(getattr(timed(partial(make().fit, X, y))[1], clock))


def _certificate(X: Any, y: Any, fitted: Any) -> Any:
    weights = fitted.coef_[0], float(fitted.intercept_[0])
    return solvers.certify(X, y, *weights, loss="squared_hinge", C=1.0).certificate
