"""`LinearSVMClassifier` beside `LinearSVC` at equal verified gap, on ten sets; writes docs/benchmarks/estimators.md."""

import argparse
import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

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
DECADES = 9
"""Tolerances of LinearSVC from 1e-1 to 1e-9."""
ENOUGH_SECONDS = 20.0
"""A run of LinearSVC that takes longer is its last with this `dual`: smaller tolerances are not tried."""
FIRST_ITERATIONS = 20
"""Iterations of the run that times one of them. `max_iter` is the number that fits into ENOUGH_SECONDS: every run of
LinearSVC ends."""
HOW = """\
Both `fit` calls get the same arrays, with squared hinge loss, C = 1 and an intercept, and one thread. **Ours** is
stopped by its own certificate, which is part of its seconds. **LinearSVC** is held to the same gap: `dual=True` and
`dual=False`, each with the loosest tolerance whose solution `solvers.certify` proves to be within the gap (by thirds of
a power of ten), and the faster of the two. What it needs to find that tolerance is not counted. Seconds are {clock},
the least of three rounds in which both take turns. A ratio is ours over theirs. "Proven" is our certificate. "Distance"
is |w - w'| between our weights and LinearSVC's nearest to the optimum, over the sum of both certified distances from
the optimum: at most 1 means that no further difference could be proved."""


class Run(NamedTuple):
    """One run of LinearSVC."""

    setting: dict[str, Any]
    seconds: float
    relative_gap: float
    fitted: Any


def run(options: argparse.Namespace) -> None:
    clock = "cpu" if options.clock == "cpu" else "wall"
    solvers.warm_up()
    words = {"cpu": "of the processor", "wall": "by the clock"}
    page = Page("estimators", "Estimators beside LinearSVC", HOW.format(clock=words[clock]))
    page.table("set", "gap", "ours (s)", "LinearSVC (s)", "ratio", "its setting", "proven", "distance")
    ratios: dict[float, list[float]] = {gap: [] for gap in GAPS}
    for name in SETS[:3] if options.quick else SETS:
        if (why := problems.why_missing(name)) is not None:
            print(f"{name}: left out, {why}", flush=True)
            continue
        data = problems.opened(name)
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # LinearSVC warns with every tolerance that it misses
            _compare(page, name, data.X, data.signs, clock, ratios)
    page.end_table()
    for gap, found in ratios.items():
        if found:
            mean = math.exp(sum(map(math.log, found)) / len(found))
            slower = sum(ratio > 1.0 for ratio in found)
            page.say(
                f"Geometric mean of the ratios at a gap of {gap:g}: {mean:.2f}, of {len(found)} sets; "
                f"highest {max(found):.2f}, above 1 on {slower}."
            )
    if options.quick:
        print("with --quick the page is not written", flush=True)
    else:
        page.write()


def _compare(page: Page, name: str, X: Any, y: Any, clock: str, ratios: dict[float, list[float]]) -> None:
    runs = {dual: _decades(X, y, dual, clock) for dual in (False, True)}
    best = min((one for found in runs.values() for one in found), key=lambda one: one.relative_gap)
    for gap in GAPS:
        loosest = [found for dual in runs if (found := _loosest(X, y, gap, clock, runs[dual])) is not None]
        ours = partial(LinearSVMClassifier, tol=gap, max_iter=100_000)
        calls = {"ours": _timed_fit(ours, X, y, clock)}
        if loosest:
            setting = min(loosest, key=lambda one: one.seconds).setting
            calls["theirs"] = _timed_fit(partial(LinearSVC, random_state=0, **setting), X, y, clock)
        seconds = least_seconds(calls)
        fitted = ours().fit(X, y)
        shown = [f"{fitted.certificate_.relative_gap:.1e}", f"{_distance(X, y, fitted, best.fitted):.2f}"]
        if not loosest:
            reached = f"{best.relative_gap:.0e} at most, {_shown(best.setting)}"
            page.row(name, f"{gap:g}", f"{seconds['ours']:.3f}", "", "", reached, *shown)
            continue
        ratios[gap].append(seconds["ours"] / seconds["theirs"])
        figures = (f"{seconds['ours']:.3f}", f"{seconds['theirs']:.3f}", f"{ratios[gap][-1]:.2f}")
        page.row(name, f"{gap:g}", *figures, _shown(setting), *shown)


def _decades(X: Any, y: Any, dual: bool, clock: str) -> list[Run]:
    """Run LinearSVC with tolerances of powers of ten until it has reached the smallest gap, or takes too long."""
    trial = partial(LinearSVC(dual=dual, tol=1e-12, max_iter=FIRST_ITERATIONS, random_state=0).fit, X, y)
    _, first = timed(trial)
    most = max(FIRST_ITERATIONS, round(ENOUGH_SECONDS * FIRST_ITERATIONS / first.cpu))
    runs: list[Run] = []
    for decade in range(1, DECADES + 1):
        runs.append(_run(X, y, {"dual": dual, "tol": 10.0**-decade, "max_iter": most}, clock))
        if runs[-1].relative_gap <= min(GAPS) or runs[-1].seconds > ENOUGH_SECONDS:
            break
    return runs


def _loosest(X: Any, y: Any, gap: float, clock: str, runs: list[Run]) -> Run | None:
    """Return the run with the loosest tolerance that reaches the gap: of the powers of ten, then of their thirds."""
    found = next((one for one in runs if one.relative_gap <= gap), None)
    if found is None or found is runs[0]:
        return found
    for thirds in (2, 1):
        setting = {**found.setting, "tol": found.setting["tol"] * 10.0 ** (thirds / 3)}
        looser = _run(X, y, setting, clock)
        if looser.relative_gap <= gap:
            return looser
    return found


def _run(X: Any, y: Any, setting: dict[str, Any], clock: str) -> Run:
    fitted, seconds = timed(partial(LinearSVC(random_state=0, **setting).fit, X, y))
    return Run(setting, getattr(seconds, clock), _certificate(X, y, fitted).relative_gap, fitted)


def _distance(X: Any, y: Any, one: Any, other: Any) -> float:
    """Return the distance of two weights over the sum of their certified distances from the optimum."""
    moved = np.hypot(np.linalg.norm(one.coef_ - other.coef_), one.intercept_[0] - other.intercept_[0])
    return float(moved / sum(math.sqrt(2.0 * _certificate(X, y, fitted).gap) for fitted in (one, other)))


def _shown(setting: dict[str, Any]) -> str:
    return f"dual={setting['dual']}, tol={setting['tol']:.1e}"


def _timed_fit(make: Callable[[], Any], X: Any, y: Any, clock: str) -> Callable[[], float]:
    return lambda: float(getattr(timed(partial(make().fit, X, y))[1], clock))


def _certificate(X: Any, y: Any, fitted: Any) -> Any:
    weights = fitted.coef_[0], float(fitted.intercept_[0])
    return solvers.certify(X, y, *weights, loss="squared_hinge", C=1.0).certificate
