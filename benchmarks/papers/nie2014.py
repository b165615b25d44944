"""The tables of the SVM-ALM paper (Nie, Huang, Wang, Huang 2014) and its two claims about time, measured here.

Seconds are those to 1 % above the optimum, as in the paper, and without what certificates took. They are found by
running with ever twice the passes: the objective of each answer is the certificate's, no solver's own.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import solvers
from benchmarks.data import load

WITHIN = 1.01
PRINTED_ALGORITHM = "alm_inexact, 1 step"
CELL_SECONDS, OPTIMUM_SECONDS = 4.0, 12.0
PRINTED_SECONDS = {  # of Tables 1 and 2, by set and column
    "hinge": {
        "columns": ("alm_inexact", "pegasos", "cpa", "dcd", "bmrm"),
        "covtype": ("4.1", "74.1", "139.2", ">500", "51.8"),
        "ijcnn1": ("3.2", "87.9", "105.6", "7.8", "63.5"),
        "w8a": ("4.6", "38.3", "62.1", "3.6", "30.2"),
        "connect_4": ("2.6", "54.2", "122.6", ">500", "42.9"),
        "shuttle": ("1.2", "29.6", "66.6", "2.2", "20.6"),
        "poker_train": ("4.9", "107.4", "303.1", ">500", "80.6"),
    },
    "squared_hinge": {
        "columns": ("alm_inexact", "tron", "pcd", "dcd", "bmrm"),
        "covtype": ("3.9", "92.3", "10.0", ">500", "50.6"),
        "ijcnn1": ("3.2", "7.7", "3.4", "7.5", "64.2"),
        "w8a": ("4.4", "2.2", "0.9", "3.9", "32.1"),
        "connect_4": ("2.7", "10.4", "3.9", ">500", "39.7"),
        "shuttle": ("1.2", "3.6", "0.9", "2.4", "21.1"),
        "poker_train": ("5.1", "59.7", "7.1", ">500", "79.8"),
    },
}
PRINTED_ACCURACY = {  # of Table 3: p = 1, p = 2, the best p and which it is
    "covtype": ("68.1", "65.3", "71.0", "1.3"),
    "ijcnn1": ("67.3", "74.2", "74.6", "1.9"),
    "w8a": ("57.3", "59.7", "63.4", "1.6"),
    "connect_4": ("49.3", "44.9", "51.8", "1.2"),
    "shuttle": ("35.9", "29.7", "36.1", "1.1"),
    "poker_train": ("31.5", "33.8", "36.9", "1.7"),
}
EXPONENTS = [1.0 + 0.1 * k for k in range(11)]
FOLDS, ACCURACY_ROWS = 5, 5_000
COSTS = [0.01, 0.1, 1.0, 10.0, 100.0]
ROWS = [10_000 * 2**k for k in range(5)]


class Reached(NamedTuple):
    """The cheapest run found that is within 1 % of the optimum."""

    seconds: float
    passes: int


def run() -> None:
    for table in _tables():
        print(table, flush=True)


def tables() -> list[str]:
    """As markdown."""
    return list(_tables())


def _tables() -> Iterator[str]:
    solvers.warm_up()
    for loss in ("hinge", "squared_hinge"):
        yield _seconds_table(loss)
    yield _accuracy_table()
    yield _rows_table()
    yield _costs_table()


def _seconds_table(loss: str) -> str:
    printed = PRINTED_SECONDS[loss]
    columns = [*printed["columns"], PRINTED_ALGORITHM, "alm_exact"]
    number = 1 if loss == "hinge" else 2
    lines = [
        f"Table {number}: seconds (passes) to 1 % above the optimum, {loss}, C = 1, here with bias feature 1; "
        f"in brackets as printed; `>`: not within {CELL_SECONDS:.0f} s. `dcd, 1000`: with the constant feature 1000 "
        "that the paper gave its peers, to 1 % above the optimum with a free bias. The printed Algorithm 2 is "
        f"`{PRINTED_ALGORITHM}`.",
        "",
        _row("set", "rows x features", *columns, "dcd, 1000"),
        _row(*["---"] * (len(columns) + 3)),
    ]
    for name in printed:
        if name == "columns" or (found := _binary(name)) is None:
            continue
        X, y = found
        optimum = _optimum(X, y, loss, C=1.0, bias="regularized")
        cells = []
        for column, print_ in zip(columns, (*printed[name], "", ""), strict=True):
            cell = _seconds_text(_reach(X, y, column, loss, optimum))
            cells.append(f"{cell} [{print_}]" if print_ else cell)
        free = _optimum(X, y, loss, C=1.0, bias="free")
        cells.append(_seconds_text(_reach(X, y, "dcd", loss, free, bias_scale=1000.0)))
        lines.append(_row(name, f"{X.shape[0]:,} x {X.shape[1]}", *cells))
    return "\n".join([*lines, ""])


def _accuracy_table() -> str:
    lines = [
        f"Table 3: accuracy in percent, {FOLDS}-fold on {ACCURACY_ROWS:,} random rows, C = 1, free bias, solver "
        "alm_exact at 1e-3; in brackets as printed. Commonest: of always answering the commonest class.",
        "",
        _row("set", "commonest", "p = 1", "p = 2", "best p", "which p", *(f"{p:.1f}" for p in EXPONENTS)),
        _row(*["---"] * (6 + len(EXPONENTS))),
    ]
    for name, printed in PRINTED_ACCURACY.items():
        if (found := _binary(name)) is None:
            continue
        X, y = found
        chosen = np.random.default_rng(0).permutation(y.size)[:ACCURACY_ROWS]
        accuracy = {p: _cross_validated(X[chosen], y[chosen], p) for p in EXPONENTS}
        best = max(EXPONENTS, key=accuracy.__getitem__)
        lines.append(
            _row(
                name,
                f"{100 * max((y[chosen] > 0).mean(), (y[chosen] < 0).mean()):.1f}",
                f"{accuracy[1.0]:.1f} [{printed[0]}]",
                f"{accuracy[EXPONENTS[-1]]:.1f} [{printed[1]}]",
                f"{accuracy[best]:.1f} [{printed[2]}]",
                f"{best:.1f} [{printed[3]}]",
                *(f"{accuracy[p]:.1f}" for p in EXPONENTS),
            )
        )
    return "\n".join([*lines, ""])


def _rows_table() -> str:
    """Figure 1: does the time grow like the number of rows?"""
    lines = [
        "Figure 1: seconds (passes) to 1 % above the optimum on the first n shuffled rows of covtype, C = 1, free "
        "bias. The slope is that of a line through log seconds against log n.",
        "",
        _row("solver", "loss", *(f"{n:,}" for n in ROWS), "slope"),
        _row(*["---"] * (len(ROWS) + 3)),
    ]
    if (found := _binary("covtype")) is None:
        return "Figure 1: covtype is not there.\n"
    X, y = found
    order = np.random.default_rng(0).permutation(y.size)
    for loss in ("hinge", "squared_hinge"):
        parts = [(X[order[:n]], y[order[:n]]) for n in ROWS]
        optima = [_optimum(*part, loss, C=1.0, bias="free") for part in parts]
        for solver in ("alm_exact", "alm_inexact"):
            reached = [_reach(*part, solver, loss, best, bias="free") for part, best in zip(parts, optima, strict=True)]
            lines.append(_row(solver, loss, *map(_seconds_text, reached), _slope(ROWS, reached)))
    return "\n".join([*lines, ""])


def _costs_table() -> str:
    """Is the time independent of C?"""
    lines = [
        "Seconds (passes) to 1 % above the optimum as C grows, ijcnn1, bias feature 1.",
        "",
        _row("solver", "loss", *(f"C = {C:g}" for C in COSTS)),
        _row(*["---"] * (len(COSTS) + 2)),
    ]
    if (found := _binary("ijcnn1")) is None:
        return "Time against C: ijcnn1 is not there.\n"
    for loss in ("hinge", "squared_hinge"):
        optima = [_optimum(*found, loss, C=C, bias="regularized") for C in COSTS]
        for solver in ("alm_exact", "alm_inexact", "dcd", *(["tron"] if loss == "squared_hinge" else [])):
            cells = [_reach(*found, solver, loss, best, C=C) for C, best in zip(COSTS, optima, strict=True)]
            lines.append(_row(solver, loss, *map(_seconds_text, cells)))
    return "\n".join([*lines, ""])


def _binary(name: str) -> tuple[Any, NDArray[np.float64]] | None:
    """The commonest class against the rest, columns divided by their largest value; None if the set is not there."""
    try:
        X, y = load(name)
    except FileNotFoundError:
        return None
    if not sp.issparse(X):
        X = X / np.abs(X).max(axis=0).clip(min=1e-12)
    values, counts = np.unique(y, return_counts=True)
    return X, np.where(y == values[np.argmax(counts)], 1.0, -1.0)


def _optimum(X: Any, y: NDArray[Any], loss: str, *, C: float, bias: str) -> float:
    """The lowest objective found; certified to be within 0.1 % of the optimum if a solver gets there in time."""
    lowest = np.inf
    for solver in ("asvm", "alm_exact", "dcd"):
        described = solvers.available()[solver]
        if loss in described["losses"] and bias in described["biases"]:
            result = solvers.train(
                X, y, solver=solver, loss=loss, C=C, bias=bias, tol=1e-3, max_seconds=OPTIMUM_SECONDS
            )
            lowest = min(lowest, result.certificate.primal)
            if result.converged:
                break
    return lowest


def _reach(X: Any, y: NDArray[Any], solver: str, loss: str, optimum: float, **arguments: Any) -> Reached | str | None:
    """None: not in time; text: why it was not run."""
    definition = {"C": 1.0, "bias": "regularized", **arguments}
    if solver == PRINTED_ALGORITHM:
        solver, definition["options"] = "alm_inexact", {"gradient_steps": 1}
    if solver not in solvers.available():
        return "not there"
    passes = 1
    while True:
        try:
            result = solvers.train(
                X, y, solver=solver, loss=loss, tol=1e-300, max_passes=passes, max_seconds=CELL_SECONDS, **definition
            )
        except solvers.UnsupportedProblem:
            return "does not do it"
        if result.certificate.primal <= WITHIN * optimum:
            return Reached(result.seconds - result.certificate_seconds, result.passes)
        if result.status is not solvers.Status.PASS_LIMIT:
            return None
        passes *= 2


def _cross_validated(X: Any, y: NDArray[np.float64], p: float) -> float:
    right = 0
    for fold in range(FOLDS):
        is_test = np.arange(y.size) % FOLDS == fold
        model = solvers.train(
            X[~is_test],
            y[~is_test],
            solver="alm_exact",
            loss="hinge_p",
            p=p,
            C=1.0,
            bias="free",
            tol=1e-3,
            max_seconds=CELL_SECONDS,
        )
        right += int((model.predict(X[is_test]) == y[is_test]).sum())
    return 100.0 * right / y.size


def _slope(rows: list[int], reached: list[Reached | str | None]) -> str:
    measured = [(n, cell.seconds) for n, cell in zip(rows, reached, strict=True) if isinstance(cell, Reached)]
    if len(measured) < 3:
        return ""
    logarithms = np.log(np.array(measured))
    return f"{np.polyfit(logarithms[:, 0], logarithms[:, 1], 1)[0]:.2f}"


def _seconds_text(cell: Reached | str | None) -> str:
    if cell is None:
        return f">{CELL_SECONDS:.0f}"
    return cell if isinstance(cell, str) else f"{cell.seconds:.2g} ({cell.passes})"


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"
