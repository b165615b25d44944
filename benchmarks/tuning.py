"""What choosing C costs, with a proof and without, beside scikit-learn and LIBLINEAR; writes docs/benchmarks/tuning.md.

Seconds are those of the processor, on one thread: a search takes turns with whatever else the machine does.
"""

import argparse
import ctypes
import multiprocessing
import os
import re
import resource
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import solvers
from benchmarks import problems
from benchmarks.data import SHARED, is_sparse, load
from benchmarks.page import Page, keep_section
from benchmarks.peers.cells import geometric_mean
from benchmarks.timing import timed
from solvers.tuning.quick import choose_c

PROOFS = (
    ("heart_scale", 0.01, 60),
    ("diabetes", 0.01, 60),
    ("svmguide1", 0.01, 85),
    ("a9a", 0.01, 170),
    ("ionosphere", 0.02, 160),
    ("spambase", 0.05, 150),
)
"""Set, epsilon, and the most values of C that the proof should need."""
SPEED = ("a9a", "w8a", "news20_text", "covtype 100k", "magic04", "spambase", "mnist 10k")
SHORT = (
    *("heart_scale", "diabetes", "ionosphere", "bupa", "svmguide1", "svmguide3", "spambase", "tic_tac_toe"),
    *("rcv1_small_vw", "colon_cancer", "magic04", "a9a", "w8a"),
)
SHORT_ROWS, SPLITS = 13_000, 3
"""Most rows of a set for the short search, and its random splits into three quarters to train on and one to judge."""
RANGE, VALUES, FOLDS, TOL = (1e-3, 1e3), 25, 5, 1e-3
SAMPLED = 4
"""One in this many values of C is timed for a peer, on the first fold. Peers take minutes for all of them."""
TOLERANCES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
"""Tolerances of a peer, from loose to tight: the loosest one that reaches the gap at every sampled C is timed."""
LIMIT, SEARCH_LIMIT = 20, 90
"""Most seconds of a sample of a peer's trainings at one tolerance, and of LIBLINEAR's own search. A peer that takes
longer is ended, and counts with these."""
GRID_LIMIT = 30.0
"""A whole grid of scikit-learn is run if the sample promises at most this many seconds."""
COMMON = "One thread, seconds of the processor."
PROOF = f"""\
Values of C at which all {FOLDS} folds were trained until `solvers.tune(..., certify=epsilon)` had proved
that no C from {RANGE[0]:g} to {RANGE[1]:g} has a cross-validated error below best - epsilon. Squared hinge, regularised
bias, every column standardised. Beside it, seconds of a plain grid of 13 values without a proof, in the same run."""
WITHOUT = f"""\
{VALUES} values of C times {FOLDS} folds, squared hinge, every model to a relative gap of {TOL:g} by its own
certificate. A peer is scikit-learn's `LinearSVC` (in the primal and in the dual) as `GridSearchCV` runs it: one cold
training for each fold and C. It is timed at the loosest tolerance for which its weights have that gap too, checked
against our bound on every {SAMPLED}th C of the first fold. Its seconds are those of a real `GridSearchCV` (`grid`) if
the sample promises at most {GRID_LIMIT:g} s, otherwise those of the sample, times what is left out. `LIBLINEAR -C` (-s
2, warm starts) tries C in steps of a factor of 2 and stops where weights no longer change. It is held to the gap like
`LinearSVC`: LIBLINEAR's own trainings (-s 2) at the same sampled C decide its tolerance. Next to its seconds is our
time for the values of C that it tried, with as many folds. A peer that takes too long is ended (`>`): {LIMIT} s for
the sampled trainings at one tolerance, {SEARCH_LIMIT} s for a search. Where LIBLINEAR reaches the gap with no
tolerance within {LIMIT} s, its search runs at the one that was ended. The ratio is our time over that of the peer that
does better: `LinearSVC` over all values, or `LIBLINEAR -C` over its values."""
SHORT_SEARCH = f"""\
The short search is that of a job that names no C (`choose_c`, 3 folds). Its limit is 5 times one cold training at
the C that it chose, or 2 s. Its error on rows that no search saw is compared with that of `solvers.tune` with {FOLDS}
folds, as the mean of {SPLITS} random splits of at most {SHORT_ROWS:,} rows. The difference is in standard errors of the
judged error."""
TRUTH = """\
**Truth**: `python -m tests.soak.tuning --problems 1000` (18 November 2026) compared proofs with exact trainings, to a
gap of 1e-10: 1,000 random small problems (hinge, squared hinge and logistic loss, regression, several classes; no and
regularised bias; sparse and dense) with 4 random C each, 250 searches of three variants with 4 random C each, 250
problems with 4 rows left out each, and 13 real sets of up to 5,000 rows with 40 random C each. That is 4,000, 3,000
and 520 points of true cross-validation curves and 1,000 scores of rows left out: 0 were outside of their bounds, and
none was better than the best by more than was proved. Since then trainings start from the state of the one before: 380
more random problems (`--first 1000 --problems 300` with 4 of the sets, `--first 2000 --problems 80 --no-sets`), 0
again."""
TITLE = "# Choosing C, measured"


def run(options: argparse.Namespace) -> None:
    wanted = options.sets.split(",") if options.sets else None
    names = options.parts.split(",") if options.parts else list(PARTS)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        solvers.tune(*_made(), C=RANGE, loss="squared_hinge", certify=0.05)  # compiles
        for name in names:
            title, how, measure = PARTS[name]
            page = Page("tuning", title, how)
            if wanted:
                page.say(f"Only these sets were measured: {', '.join(wanted)}.")
            measure(page, wanted)
            head = (
                f'{TITLE}\n\nWritten by `make bench ARGS=tuning`; `ARGS="tuning --parts short"` rewrites one section.'
            )
            keep_section("tuning", f"{head} {COMMON}\n\n{TRUTH}", [one for one, *_ in PARTS.values()], title, page)


def _made() -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    X = random.standard_normal((6000, 8))
    return X, (X @ random.standard_normal(8) + random.standard_normal(6000) > 0.0).astype(int)


def _standardised(name: str) -> tuple[Any, Any]:
    X, y = load(name)
    return _scaled(X.toarray() if is_sparse(X) else X), y


def _scaled(X: NDArray[np.float64]) -> NDArray[np.float64]:
    deviation = X.std(axis=0)
    return np.asarray((X - X.mean(axis=0)) / np.where(deviation > 0.0, deviation, 1.0))


def _proofs(page: Page, wanted: list[str] | None) -> None:
    page.table("set", "epsilon", "proven", "values of C", "aim", "best", "lower bound", "seconds", "grid of 13 (s)")
    for name, epsilon, aim in PROOFS:
        if not (SHARED / name).exists() or (wanted and name not in wanted):
            continue
        X, y = _standardised(name)
        search = partial(solvers.tune, X, y, loss="squared_hinge", folds=FOLDS, refit=False)
        _, plain = timed(partial(search, C=np.geomspace(*RANGE, 13).tolist()))
        proof, seconds = timed(partial(search, C=RANGE, certify=epsilon))
        found = proof.certificate
        assert found is not None
        page.row(
            name,
            epsilon,
            "yes" if found.proven else "no",
            found.values,
            aim,
            f"{found.best:.4f}",
            f"{found.lower_bound:.4f}",
            f"{seconds.cpu:.2f}",
            f"{plain.cpu:.2f}",
        )
    page.end_table()


def _speed(page: Page, wanted: list[str] | None) -> None:
    page.table(
        *("set", "rows", "ours (s)", "LinearSVC (s)", "its tolerance", "its worst gap"),
        *("LIBLINEAR -C (s)", "values of C", "its tolerance", "its worst gap", "ours for these (s)", "ratio"),
    )
    ratios = []
    for name in SPEED:
        if problems.why_missing(name) is not None or (wanted and name not in wanted):
            continue
        X, signs = _opened(name)
        values = np.geomspace(*RANGE, VALUES).tolist()
        seconds = _ours(X, signs, values)
        sample = _Sample.of(X, signs, values)
        linear = _linear_svc(sample, X, signs, values)
        allowed = sample.loosest(_liblinear_fit(sample))
        stated = _liblinear_problem(X, signs)
        search = _limited(partial(_liblinear, stated, allowed.tolerance), SEARCH_LIMIT)
        its_seconds, its_values = search or (float(SEARCH_LIMIT), values)
        for_these = _ours(X, signs, its_values)
        to_linear, to_liblinear = seconds / linear.seconds, for_these / its_seconds
        is_ended = linear.is_ended if to_linear > to_liblinear else search is None
        ratios.append(max(to_linear, to_liblinear))
        page.row(
            name,
            signs.size,
            f"{seconds:.2f}",
            f"{'> ' if linear.is_ended else ''}{linear.seconds:.1f}{' (grid)' if linear.is_grid else ''}",
            linear.tolerance,
            linear.gap,
            f"{'> ' if search is None else ''}{its_seconds:.2f}",
            f"{len(its_values)}, to {its_values[-1]:.3g}",
            f"{allowed.tolerance:g}",
            "ended" if allowed.gap is None else f"{allowed.gap:.1e}",
            f"{for_these:.2f}",
            f"{'< ' if is_ended else ''}{ratios[-1]:.3f}",
        )
    page.end_table()
    mean = geometric_mean(ratios)
    if mean is not None:
        page.say(f"Geometric mean of the ratios to the faster peer: {mean:.3f} over {len(ratios)} sets (aim: 0.2).")


def _ours(X: Any, signs: NDArray[np.float64], values: list[float]) -> float:
    """Return the seconds of our search without a proof."""
    ours = partial(solvers.tune, X, signs, C=values, folds=FOLDS, loss="squared_hinge", tol=TOL, refit=False)
    return min(timed(ours)[1].cpu for _ in range(2))  # the first one may compile


def _short_searches(page: Page, wanted: list[str] | None) -> None:
    page.table(
        "set", "rows", "error", "error of 5 folds", "in standard errors", "seconds", "one training (s)", "allowed"
    )
    for name in SHORT:
        if not (SHARED / name).exists() or (wanted and name not in wanted):
            continue
        X, y = load(name)
        rows = np.random.default_rng(0).permutation(y.size)[:SHORT_ROWS]
        X, y = (X[rows] if is_sparse(X) else _scaled(X[rows])), y[rows]
        found = np.array([_short_search(X, y, seed) for seed in range(SPLITS)])
        error, of_full, seconds, single = found.mean(axis=0)
        judged = y.size // 4
        deviation = np.sqrt(max(of_full * (1.0 - of_full), 1.0 / judged) / judged)
        is_allowed = (found[:, 2] <= np.maximum(2.0, 5.0 * found[:, 3])).all()
        page.row(
            name,
            y.size - judged,
            f"{error:.4f}",
            f"{of_full:.4f}",
            f"{(error - of_full) / deviation:+.2f}",
            f"{seconds:.3f}",
            f"{single:.4f}",
            "yes" if is_allowed else "no",
        )
    page.end_table()


def _short_search(X: Any, y: NDArray[Any], seed: int) -> tuple[float, float, float, float]:
    """Return the errors of the short and the full search on judged rows, and the seconds of the search and of one
    training."""
    order = np.random.default_rng(seed).permutation(y.size)
    judged, trained = order[: y.size // 4], order[y.size // 4 :]
    X_trained, y_trained = X[trained], y[trained]
    chosen, seconds = timed(partial(choose_c, X_trained, y_trained, loss="squared_hinge"))
    model, single = timed(partial(solvers.train, X_trained, y_trained, C=chosen.C, loss="squared_hinge", tol=TOL))
    full = solvers.tune(X_trained, y_trained, folds=FOLDS, loss="squared_hinge", tol=TOL).model
    assert full is not None
    errors = [float(np.mean(one.predict(X[judged]) != y[judged])) for one in (model, full)]
    return errors[0], errors[1], seconds.cpu, single.cpu


def _opened(name: str) -> tuple[Any, NDArray[np.float64]]:
    data = problems.opened("mnist" if name == "mnist 10k" else name)
    if name != "mnist 10k":
        return data.X, data.signs
    rows = np.random.default_rng(0).permutation(data.signs.size)[:10_000]
    return np.ascontiguousarray(data.X[rows]), data.signs[rows]


Fit = Callable[[Any, NDArray[np.float64], float, float], NDArray[np.float64]]
"""A training of a peer: rows, signs, C and tolerance to weights with the intercept at the end."""


class _Loosest(NamedTuple):
    """The loosest tolerance of a peer that reaches the gap."""

    tolerance: float
    seconds: float
    gap: float | None
    """The worst gap at the sampled C; None: the peer was ended before it reached the gap."""


class _Sample(NamedTuple):
    """Rows and values of C that decide the tolerance of a peer."""

    X: Any
    signs: NDArray[np.float64]
    costs: list[float]
    bounds: list[float]
    """Lower bounds of the optimum at each C."""

    @classmethod
    def of(cls, X: Any, signs: NDArray[np.float64], values: list[float]) -> "_Sample":
        held_out = np.arange(signs.size) % FOLDS == 0
        X, signs, costs = X[~held_out], signs[~held_out], values[::SAMPLED]
        models = solvers.path(X, signs, C=costs, loss="squared_hinge", tol=0.1 * TOL).models
        return cls(X, signs, costs, [model.certificate.dual_bound or 0.0 for model in models])

    def loosest(self, fit: Fit) -> _Loosest:
        for tolerance in TOLERANCES:
            found = _limited(partial(self._fits, fit, tolerance), LIMIT)
            if found is None:
                return _Loosest(tolerance, float(LIMIT), None)
            seconds, gap = found
            if gap <= TOL:
                return _Loosest(tolerance, seconds, gap)
        return _Loosest(TOLERANCES[-1], float(LIMIT), None)

    def _fits(self, fit: Fit, tolerance: float) -> tuple[float, float]:
        """Return the seconds of these trainings and the largest gap, or that of the first one that is too large."""
        seconds, worst = 0.0, 0.0
        for C, bound in zip(self.costs, self.bounds, strict=True):
            weights, spent = timed(partial(fit, self.X, self.signs, C, tolerance))
            seconds += spent.cpu
            primal = problems.objective(self.X, self.signs, "squared_hinge", C, weights)
            worst = max(worst, (primal - bound) / primal)
            if worst > TOL:
                break
        return seconds, worst


class _Peer(NamedTuple):
    seconds: float
    tolerance: str
    gap: str
    is_ended: bool = False
    """Whether it was ended before it reached the gap at every C."""
    is_grid: bool = False
    """Whether the seconds are those of a real `GridSearchCV`."""


def _linear_svc(sample: _Sample, X: Any, signs: NDArray[np.float64], values: list[float]) -> _Peer:
    """Return the seconds of the whole grid for the faster of the two solvers, at a tolerance that reaches the gap."""
    scale = FOLDS * len(values) / len(sample.costs)
    found = {is_dual: sample.loosest(partial(_linear_svc_fit, is_dual)) for is_dual in (False, True)}
    is_dual = min(found, key=lambda one: (found[one].gap is None, found[one].seconds))
    best = found[is_dual]
    if best.gap is None:
        return _Peer(LIMIT * scale, "none reached the gap", "-", is_ended=True)
    how = f"{best.tolerance:g} ({'dual' if is_dual else 'primal'})"
    if best.seconds * scale > GRID_LIMIT:
        return _Peer(best.seconds * scale, how, f"{best.gap:.1e}")
    seconds = _grid_seconds(X, signs, values, {"dual": is_dual, "tol": best.tolerance})
    return _Peer(seconds, how, f"{best.gap:.1e}", is_grid=True)


def _linear_svc_fit(
    is_dual: bool, X: Any, signs: NDArray[np.float64], C: float, tolerance: float
) -> NDArray[np.float64]:
    from sklearn.svm import LinearSVC

    peer = LinearSVC(C=C, dual=is_dual, tol=tolerance, max_iter=1000).fit(X, signs)
    return np.append(peer.coef_[0], peer.intercept_)


def _liblinear_fit(sample: _Sample) -> Fit:
    """Return a training of LIBLINEAR on the rows of the sample. Converting them to its format does not count."""
    from liblinear.liblinearutil import parameter, train

    stated = _liblinear_problem(sample.X, sample.signs)

    def fit(_: Any, signs: NDArray[np.float64], C: float, tolerance: float) -> NDArray[np.float64]:
        weights, bias = train(stated, parameter(f"-s 2 -c {C} -B 1 -e {tolerance:g} -q")).get_decfun(0)
        return np.append(np.asarray(weights), bias)

    return fit


def _liblinear_problem(X: Any, signs: NDArray[np.float64]) -> Any:
    from liblinear.liblinearutil import problem
    from scipy import sparse

    return problem(signs, sparse.csr_matrix(X), 1.0)


def _grid_seconds(X: Any, signs: NDArray[np.float64], values: list[float], settings: dict[str, Any]) -> float:
    """Return the seconds of scikit-learn's own grid search."""
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import LinearSVC

    search = GridSearchCV(LinearSVC(max_iter=1000, **settings), {"C": values}, cv=FOLDS, refit=False)
    return timed(partial(search.fit, X, signs))[1].cpu


def _liblinear(stated: Any, tolerance: float) -> tuple[float, list[float]]:
    """Return the seconds of LIBLINEAR's own search, and the values of C that it tried."""
    from liblinear.liblinearutil import parameter, train

    how = parameter(f"-C -s 2 -c {RANGE[0]} -v {FOLDS} -B 1 -e {tolerance:g}")
    with tempfile.TemporaryFile("w+") as printed:
        os.dup2(printed.fileno(), 1)
        seconds = timed(partial(train, stated, how))[1].cpu
        ctypes.CDLL(None).fflush(None)
        printed.seek(0)
        tried = re.findall(r"log2c=\s*([-.\d]+)", printed.read())
    return seconds, [2.0 ** float(power) for power in tried]


def _limited(work: Callable[[], Any], seconds: int) -> Any:
    """Return what the work returns in a process of its own; None if it takes more seconds of the processor."""
    near, far = multiprocessing.get_context("fork").Pipe(duplex=False)

    def child() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds + 2, seconds + 2))
        far.send(work())

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    far.close()
    try:
        return near.recv()
    except EOFError:
        return None
    finally:
        process.join()


PARTS: dict[str, tuple[str, str, Callable[[Page, list[str] | None], None]]] = {
    "proof": ("The proof", PROOF, _proofs),
    "speed": ("Without a proof", WITHOUT, _speed),
    "short": ("The short search", SHORT_SEARCH, _short_searches),
}
"""The parts by name: title of the section, what it says first, the measurement."""
