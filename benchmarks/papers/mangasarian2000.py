"""The two tables of the ASVM paper (Mangasarian and Musicant 2000), measured here with solver asvm."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import solvers
from benchmarks.data import load, ndc
from benchmarks.growth import with_growth

ROWS, FEATURES, NU = 7_000_000, 32, 0.01
PRINTED_ITERATIONS, PRINTED_MINUTES, PRINTED_CORRECTNESS = 5, 95.57, (86.10, 86.28)
PRINTED_TESTING = {  # of ASVM, in percent, with the shape that was printed
    "bupa": ("345 x 6", 67.25),
    "heart_cleveland_pmlb": ("297 x 13", 85.56),
    "diabetes": ("768 x 8", 78.12),
    "ionosphere": ("351 x 34", 87.75),
    "tic_tac_toe": ("958 x 9", 69.72),
    "vote": ("435 x 16", 96.07),
}
ONE_HOT_OF_THREE = ("tic_tac_toe", "vote")
NUS = [2.0**power for power in range(-12, 11, 2)]
FOLDS, REPEATS = 10, 5


def run() -> None:
    for table in tables():
        print(table, flush=True)


def tables() -> Iterator[str]:
    """Markdown, each as soon as it is measured."""
    yield large_table()
    yield _small_table()


def large_table(rows: int = ROWS) -> str:
    X, y = ndc(rows, FEATURES)
    X_test, y_test = ndc(100_000, FEATURES, part=1)
    solvers.warm_up()
    lines = []
    for rule, tol, options in (
        ("the paper's: residual < 0.1", 1e-300, {"residual_tol": 0.1}),
        ("certified relative gap 1e-3", 1e-3, None),
        ("certified relative gap 1e-9", 1e-9, None),
    ):
        result, growth = with_growth(
            partial(solvers.train, X, y, solver="asvm", loss="squared_hinge", C=NU / 2, tol=tol, options=options)
        )
        train, test = (
            100.0 * float((result.predict(A) == b).mean())
            for A, b in ((X[:1_000_000], y[:1_000_000]), (X_test, y_test))
        )
        lines.append(
            f"| {rule} | {result.iterations} | {result.passes} | {result.seconds:.1f} | {train:.2f}, {test:.2f} "
            f"| {result.certificate.relative_gap:.1e} | {growth / rows:.0f} bytes a row |"
        )
    printed = ", ".join(f"{share:.2f}" for share in PRINTED_CORRECTNESS)
    return "\n".join(
        [
            f"Table 2: {rows:,} x {FEATURES} clustered normal points, C = {NU / 2}, float64 ({X.nbytes / 1e9:.1f} GB)",
            "",
            "| stopping rule | iterations | passes | seconds | train, test % | relative gap | memory beside the data |",
            "|---|---|---|---|---|---|---|",
            *lines,
            f"| printed | {PRINTED_ITERATIONS} | | {PRINTED_MINUTES} min | {printed} | | |",
            "",
            "`iterations` are systems solved; the first of them gives what the paper calls u^0, so if its count",
            "starts after u^0, 6 here are 5 there. The points are not the paper's: its generator's settings are not",
            "printed, so `benchmarks/data.py` has its own, with the spread set for about the same correctness: that",
            "agreement shows nothing. Train % is of the first million rows.",
            "",
        ]
    )


def _small_table() -> str:
    lines = []
    for name, (printed_shape, printed) in PRINTED_TESTING.items():
        for coding, X, y in _codings(name):
            testing = [
                [_tenfold(_scaled(X), y, seed, tuning_folds) for seed in range(REPEATS)] for tuning_folds in (1, FOLDS)
            ]
            measured = " | ".join(f"{np.mean(t):.2f} ({min(t):.2f} to {max(t):.2f})" for t in testing)
            shape = f"{X.shape[0]} x {X.shape[1]}"
            lines.append(f"| {name} | {shape} | {coding} | {measured} | {printed:.2f} ({printed_shape}) |")
    return "\n".join(
        [
            "Table 1: testing correctness in percent, tenfold, features in [-1, 1]: mean (lowest to highest) of",
            f"{REPEATS} shuffles. nu is chosen inside each training part, on a tenth of it (the paper's tuning set) or",
            "by tenfold inside it; the second was added after the first had been seen to be noisy on so few rows.",
            "",
            "| set | here | coding | nu by one tenth | nu by tenfold | printed |",
            "|---|---|---|---|---|---|",
            *lines,
            "",
            "Heart (in either coding), diabetes and tic_tac_toe as codes stay below the print. Heart has six rows that",
            "the paper's does not have; why the rest differ is not known.",
            "",
        ]
    )


def _codings(name: str) -> Iterator[tuple[str, NDArray[np.float64], NDArray[Any]]]:
    """(what the coding is, X, y): as stored, and closer to the paper's where that can be had."""
    X, y = load(name)
    if name not in ONE_HOT_OF_THREE:
        yield "as stored", X, y
    else:
        yield "one-hot", X.toarray(), y
        yield "codes", X.toarray().reshape(len(y), -1, 3).argmax(axis=2).astype(np.float64), y
    if name == "heart_cleveland_pmlb":
        X, y = load("cleveland")
        yield "cleveland", X, y > 0


def _tenfold(X: NDArray[np.float64], y: NDArray[Any], seed: int, tuning_folds: int) -> float:
    """Percent of rows that models trained without them get right; nu is the smallest of the best."""
    order = np.random.default_rng([seed, 0]).permutation(len(y))
    right = 0
    for fold in range(FOLDS):
        test = order[fold::FOLDS]
        training = np.setdiff1d(order, test)
        shuffled = np.random.default_rng([seed, 1 + fold]).permutation(training)
        tunings = [shuffled[k::FOLDS] for k in range(tuning_folds)]
        scores = {nu: sum(_right(X, y, np.setdiff1d(training, tuning), tuning, nu) for tuning in tunings) for nu in NUS}
        right += _right(X, y, training, test, max(NUS, key=scores.__getitem__))
    return 100.0 * right / len(y)


def _right(X: NDArray[np.float64], y: NDArray[Any], training: NDArray[Any], test: NDArray[Any], nu: float) -> int:
    model = solvers.train(X[training], y[training], solver="asvm", loss="squared_hinge", C=nu / 2, tol=1e-6)
    return int((model.predict(X[test]) == y[test]).sum())


def _scaled(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each feature in [-1, 1], as in the paper; a constant one is 0."""
    low, high = X.min(axis=0), X.max(axis=0)
    middle, half = (low + high) / 2.0, (high - low) / 2.0
    return np.asarray((X - middle) / np.where(half > 0.0, half, 1.0))
