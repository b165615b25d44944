"""What choosing C costs, with a proof and without, beside scikit-learn and LIBLINEAR; writes docs/benchmarks/tuning.md.

Seconds are those of the processor, on one thread: a search takes turns with whatever else the machine does.
"""

import argparse
import ctypes
import multiprocessing
import os
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
from benchmarks.page import Page
from benchmarks.peers.cells import geometric_mean
from benchmarks.timing import timed

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
RANGE, VALUES, FOLDS, TOL = (1e-3, 1e3), 25, 5, 1e-3
SAMPLED = 4
"""One in this many values of C is timed for a peer, on the first fold. Peers take minutes for all of them."""
TOLERANCES = (1e-1, 1e-2, 1e-3, 1e-4)
"""Tolerances of a peer, from loose to tight: the loosest one that reaches the gap at every sampled C is timed."""
LIMIT, SEARCH_LIMIT = 20, 90
"""Most seconds of a sample of a peer's trainings at one tolerance, and of LIBLINEAR's own search. A peer that takes
longer is ended, and counts with these."""
HOW = f"""\
**The proof**: values of C at which all {FOLDS} folds were trained until `solvers.tune(..., certify=epsilon)` had proved
that no C from {RANGE[0]:g} to {RANGE[1]:g} has a cross-validated error below best - epsilon. Squared hinge, regularised
bias, every column standardised. Beside it, seconds of a plain grid of 13 values without a proof, in the same run.

**Without a proof**: {VALUES} values of C times {FOLDS} folds, squared hinge, every model to a relative gap of
{TOL:g} by its own certificate. A peer is scikit-learn's `LinearSVC` (in the primal and in the dual) as `GridSearchCV`
runs it: one cold training for each fold and C. It is timed at the loosest tolerance for which its weights have that gap
too, checked against our bound; its seconds are those of every {SAMPLED}th C on the first fold, times what is left out.
`LIBLINEAR -C` (-s 2, warm starts) tries C in steps of a factor of 2 and stops where weights no longer change. Its
seconds are those of one search with {FOLDS} folds at the tolerance that reached the gap in the primal, times {VALUES}
over the number of values that it tried. A peer that takes too long is ended (`>`): {LIMIT} s for the sampled trainings
at one tolerance, {SEARCH_LIMIT} s for a search.

One thread, seconds of the processor."""


def run(options: argparse.Namespace) -> None:
    page = Page("tuning", "Choosing C, measured", HOW)
    wanted = options.sets.split(",") if options.sets else None
    if wanted:
        page.say(f"Only these sets were measured: {', '.join(wanted)}.")
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        solvers.tune(*_made(), C=RANGE, loss="squared_hinge", certify=0.05)  # compiles
        _proofs(page, wanted)
        page.write()  # the rest takes an hour
        _speed(page, wanted)
    page.write()


def _made() -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    X = random.standard_normal((6000, 8))
    return X, (X @ random.standard_normal(8) + random.standard_normal(6000) > 0.0).astype(int)


def _standardised(name: str) -> tuple[Any, Any]:
    X, y = load(name)
    X = X.toarray() if is_sparse(X) else X
    deviation = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(deviation > 0.0, deviation, 1.0), y


def _proofs(page: Page, wanted: list[str] | None) -> None:
    page.say("## The proof")
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
    page.say("## Without a proof")
    page.table(
        "set", "rows", "ours (s)", "LinearSVC (s)", "its tolerance", "its worst gap", "LIBLINEAR -C (s)", "ratio"
    )
    ratios = []
    for name in SPEED:
        if problems.why_missing(name) is not None or (wanted and name not in wanted):
            continue
        X, signs = _opened(name)
        values = np.geomspace(*RANGE, VALUES).tolist()
        ours = partial(solvers.tune, X, signs, C=values, folds=FOLDS, loss="squared_hinge", tol=TOL, refit=False)
        seconds = min(timed(ours)[1].cpu for _ in range(2))  # the first one may compile
        linear = _linear_svc(X, signs, values)
        search = _limited(partial(_liblinear, X, signs, linear.in_primal), SEARCH_LIMIT)
        liblinear = float(SEARCH_LIMIT) if search is None else search
        faster = min(linear.seconds, liblinear)
        is_ended = linear.is_ended if faster == linear.seconds else search is None
        ratios.append(seconds / faster)
        page.row(
            name,
            signs.size,
            f"{seconds:.2f}",
            f"{'> ' if linear.is_ended else ''}{linear.seconds:.1f}",
            linear.tolerance,
            linear.gap,
            f"{'> ' if search is None else ''}{liblinear:.1f}",
            f"{'< ' if is_ended else ''}{seconds / faster:.3f}",
        )
    page.end_table()
    mean = geometric_mean(ratios)
    if mean is not None:
        page.say(f"Geometric mean of the ratios to the faster peer: {mean:.3f} over {len(ratios)} sets (aim: 0.2).")


def _opened(name: str) -> tuple[Any, NDArray[np.float64]]:
    data = problems.opened("mnist" if name == "mnist 10k" else name)
    if name != "mnist 10k":
        return data.X, data.signs
    rows = np.random.default_rng(0).permutation(data.signs.size)[:10_000]
    return np.ascontiguousarray(data.X[rows]), data.signs[rows]


class _Peer(NamedTuple):
    seconds: float
    tolerance: str
    gap: str
    is_ended: bool = False
    """Whether it was ended before it reached the gap at every C."""
    in_primal: float = TOLERANCES[-1]
    """The tolerance at which the primal solver, LIBLINEAR's -s 2, reached the gap."""


def _linear_svc(X: Any, signs: NDArray[np.float64], values: list[float]) -> _Peer:
    """Return the seconds of the whole grid for the faster of the two solvers, at a tolerance that reaches the gap."""
    held_out = np.arange(signs.size) % FOLDS == 0
    X, signs = X[~held_out], signs[~held_out]
    sampled = values[::SAMPLED]
    models = solvers.path(X, signs, C=sampled, loss="squared_hinge", tol=0.1 * TOL).models
    bounds = [model.certificate.dual_bound or 0.0 for model in models]
    scale = FOLDS * len(values) / len(sampled)
    best = _Peer(LIMIT * scale, "none reached the gap", "-", is_ended=True)
    for is_dual in (False, True):
        for tolerance in TOLERANCES:
            found = _limited(partial(_fits, X, signs, sampled, bounds, is_dual=is_dual, tolerance=tolerance), LIMIT)
            if found is None:
                break
            seconds, gap = found
            if gap <= TOL:
                if not is_dual:
                    best = best._replace(in_primal=tolerance)
                if seconds * scale < best.seconds:
                    how = f"{tolerance:g} ({'dual' if is_dual else 'primal'})"
                    best = _Peer(seconds * scale, how, f"{gap:.1e}", in_primal=best.in_primal)
                break
    return best


def _fits(
    X: Any, signs: NDArray[np.float64], values: list[float], bounds: list[float], *, is_dual: bool, tolerance: float
) -> tuple[float, float]:
    """Return the seconds of these trainings and the largest gap, or that of the first one that is too large."""
    from sklearn.svm import LinearSVC

    seconds, worst = 0.0, 0.0
    for C, bound in zip(values, bounds, strict=True):
        peer = LinearSVC(C=C, dual=is_dual, tol=tolerance, max_iter=1000)
        seconds += timed(partial(peer.fit, X, signs))[1].cpu
        weights = np.append(peer.coef_[0], peer.intercept_)
        primal = problems.objective(X, signs, "squared_hinge", C, weights)
        worst = max(worst, (primal - bound) / primal)
        if worst > TOL:
            break
    return seconds, worst


def _liblinear(X: Any, signs: NDArray[np.float64], tolerance: float) -> float:
    """Return the seconds of LIBLINEAR's own search, for VALUES of C."""
    from liblinear.liblinearutil import parameter, problem, train

    stated, how = problem(signs, X, 1.0), parameter(f"-C -s 2 -c {RANGE[0]} -v {FOLDS} -B 1 -e {tolerance:g}")
    with tempfile.TemporaryFile("w+") as printed:
        os.dup2(printed.fileno(), 1)
        seconds = timed(partial(train, stated, how))[1].cpu
        ctypes.CDLL(None).fflush(None)
        printed.seek(0)
        tried = printed.read().count("log2c=")
    return seconds * VALUES / max(1, tried)


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
