"""The line searches of Arnosti and Kalita (2011), measured here with solvers oca_e and oca_t; binary beside libocas."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import solvers
from benchmarks.data import load
from benchmarks.peers import ocas
from benchmarks.problems import objective

PAIR = ("oca_e", "oca_t")
EPSILON = 0.01
LIMIT_SECONDS = 60.0
PRINTED_ERRORS = {"covtype": 35.73, "mnist": 7.22, "news20_text": 14.73}
"""Percent of the test set, at C = 1 and epsilon = 0.01 (Fig. 6)."""
PRINTED_SEARCH_SHARES = {"covtype": 61, "mnist": 22}
"""Percent of the time of OCA-E (section 4.1)."""
COVTYPE_TEST_ROWS = 115_826
BINARY_SETS = (("covtype", 0.01), ("a9a", 1.0), ("w8a", 1.0), ("ijcnn1", 1.0), ("news20_text", 1.0), ("mnist", 0.001))
"""With C, which makes none of them hopeless for cutting planes."""
GAPS = (1e-2, 1e-3)
ROUNDS = 3

CLASSES_NOTES = """The paper writes C / n, which is `mean` here, but its results are those of `sum`, the scale of
libocas, on which it builds: with `mean` the poker hands take a few iterations where it counts 1,454, and news20 is
within epsilon at zero weights. What differs: covtype's features are divided by their largest values here (the paper
does not say), and its test rows are drawn from the training set, as the sizes in the paper's Fig. 3 imply; mnist is
divided by 255; news20_text is the by-date split, 11,314 and 7,532 rows of 130,107 words (theirs 15,935 and 3,993 of
62,061). rcv1 with 53 classes is not at hand. In brackets: the search's share in print, where breakpoints are sorted;
here they are selected in linear time."""
POKER_NOTES = """No weights that the planes propose are better than none at all, so the exact search stays at zero and
only the planes around zero become better. Three points never choose zero: they leave it uphill and need far fewer."""


def run() -> None:
    for table in tables():
        print(table, flush=True)


def tables() -> Iterator[str]:
    """Markdown, each as soon as it is measured."""
    solvers.warm_up()
    yield _classes_table()
    yield _poker_table()
    yield _libocas_table()


class _Set(NamedTuple):
    X: Any
    y: NDArray[Any]
    X_test: Any
    y_test: NDArray[Any] | None


def _classes_set(name: str) -> _Set:
    """Columns divided by their largest values; covtype's test rows are training rows, as in the paper."""
    X, y = load(name)
    if name == "news20_text":
        return _Set(X, y, *load(name, "test"))
    largest = np.abs(X).max(axis=0).clip(min=1e-12) if name == "covtype" else 255.0
    X /= largest
    if name == "covtype":
        chosen = np.random.default_rng(0).choice(len(y), COVTYPE_TEST_ROWS, replace=False)
        return _Set(X, y, X[chosen], y[chosen])
    X_test, y_test = load(name, "test")
    return _Set(X, y, X_test / largest, y_test)


def _classes_table() -> str:
    lines = [
        f"Figs. 4 to 6: several classes jointly, C = 1, no bias, to a certified relative gap of {EPSILON}",
        "",
        "| set | c_scale | method | iterations | seconds | search % | gap | test error % | printed |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, printed in PRINTED_ERRORS.items():
        data = _classes_set(name)
        for c_scale in ("sum", "mean"):
            for method in PAIR:
                result = _train_classes(data.X, data.y, method, c_scale)
                wrong = 100.0 * float((result.predict(data.X_test) != data.y_test).mean())
                share = 100.0 * result.state["search_seconds"] / result.seconds
                printed_share = PRINTED_SEARCH_SHARES.get(name) if (method, c_scale) == ("oca_e", "sum") else None
                shown = f"{share:.0f} [{printed_share}]" if printed_share else f"{share:.0f}"
                lines.append(
                    f"| {name} | {c_scale} | {method} | {_iterations(result)} | {result.seconds:.1f} | {shown} "
                    f"| {result.certificate.relative_gap:.4f} | {wrong:.2f} | {printed} |"
                )
    return "\n".join(
        [
            *lines,
            "",
            CLASSES_NOTES,
            f"`>`: not within {LIMIT_SECONDS:.0f} s.",
            "",
        ]
    )


def _train_classes(X: Any, y: NDArray[Any], method: str, c_scale: str) -> solvers.SolveResult:
    setting: dict[str, Any] = {"strategy": "crammer_singer", "c_scale": c_scale, "bias": "none", "tol": EPSILON}
    return solvers.train(X, y, solver=method, max_seconds=LIMIT_SECONDS, **setting)


def _iterations(result: solvers.SolveResult) -> str:
    return str(result.iterations) if result.converged else f"> {result.iterations}"


def _poker_table() -> str:
    X, y = load("poker_train")
    lines = []
    for c_scale in ("sum", "mean"):
        for method in PAIR:
            result = _train_classes(X, y, method, c_scale)
            of_zero = result.certificate.primal / (len(y) if c_scale == "sum" else 1.0)
            lines.append(
                f"| {c_scale} | {method} | {_iterations(result)} | {result.state['standstills']} "
                f"| {result.seconds:.1f} | {of_zero:.4f} | {result.certificate.relative_gap:.4f} |"
            )
    return "\n".join(
        [
            f"Section 4.2: poker hands, {X.shape[0]:,} x {X.shape[1]}, 10 classes, raw codes, C = 1, no bias",
            "",
            "| c_scale | method | iterations | of these mu = 0 | seconds | objective, that of zero is 1 | gap |",
            "|---|---|---|---|---|---|---|",
            *lines,
            "| printed | OCA-E | 1454 | 1451 | 219 | | 0.01 |",
            "| printed | OCA-T | 258 | | 22 | | 0.01 |",
            "",
            POKER_NOTES,
            "",
        ]
    )


# --- beside libocas --------------------------------------------------------------------------------------------------


def _binary_set(name: str) -> tuple[Any, NDArray[np.float64]]:
    X, y = load(name)
    if name == "covtype":
        return sp.csr_matrix(X / np.abs(X).max(axis=0).clip(min=1e-12)), np.where(y == 2, 1.0, -1.0)
    if name == "mnist":
        return sp.csr_matrix(X / 255.0), np.where(y % 2 == 0, 1.0, -1.0)
    positive = np.unique(y)[0] if name == "news20_text" else y.max()
    return X, np.where(y == positive, 1.0, -1.0)


def _libocas_table() -> str:
    if ocas.program("svmocas") is None:
        return "libocas is not installed (Debian: libocas-tools), so `svmocas` was not measured.\n"
    lines = []
    for name, C in BINARY_SETS:
        X, signs = _binary_set(name)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "rows.light"
            ocas.write_rows(file, X, signs)
            for gap in GAPS:
                seconds: dict[str, list[float]] = {"svmocas": [], **{method: [] for method in PAIR}}
                counts: dict[str, int] = {}
                for _ in range(ROUNDS):
                    theirs = ocas.run_ocas("svmocas", file, X.shape[1], C=C, gap=gap, limit=LIMIT_SECONDS, bias=True)
                    seconds["svmocas"].append(theirs.seconds)
                    counts["svmocas"] = len(theirs.iterations)
                    for method in PAIR:
                        result = solvers.train(X, signs, solver=method, C=C, tol=gap, max_seconds=LIMIT_SECONDS)
                        seconds[method].append(result.seconds if result.converged else np.inf)
                        counts[method] = result.iterations
                        bound = result.certificate.dual_bound or 0.0
                primal = objective(X, signs, "hinge", C, theirs.weights[:, 0])
                least = {who: min(times) for who, times in seconds.items()}
                cells = [f"{least[who]:.2f} ({counts[who]})" for who in ("svmocas", *PAIR)]
                ratios = [f"{least[method] / least['svmocas']:.2f}" for method in PAIR]
                lines.append(
                    f"| {name} | {C:g} | {gap:g} | {' | '.join(cells + ratios)} | {1.0 - bound / primal:.1e} |"
                )
    return "\n".join(
        [
            f"Binary, bias feature 1, beside libocas at equal relative gap: seconds (iterations), least of {ROUNDS}",
            "",
            "| set | C | gap | svmocas | oca_e | oca_t | oca_e / svmocas | oca_t / svmocas | its gap, verified |",
            "|---|---|---|---|---|---|---|---|---|",
            *lines,
            "",
            "The seconds of svmocas are its own count without reading the file; ours contain checking the data and the",
            "certificate.",
            "",
        ]
    )
