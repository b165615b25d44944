"""Fingerprints of every method's answers on a fixed set of problems: the check that moved code computes the same.

Run it before and after a change that must not change numbers, and compare the two files:

    python -m benchmarks.bits > before.txt      (on the old commit: PYTHONPATH=<its folder> python bits.py)
    python -m benchmarks.bits > after.txt
    diff before.txt after.txt

A line is a run: its problem, then status, iterations, passes, and a hash of the bits of the weights, the intercept and
the certificate. Only the public functions of `solvers` are called, so the same file runs on older commits too.
"""

import hashlib
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse

import solvers

SIZES = {"tall": (700, 12), "wide": (60, 150), "sampled": (5000, 8)}
TOLERANCES = (1e-2, 1e-6)
COSTS = (0.01, 1.0, 100.0)
MAX_PASSES = 60
LOSSES_OF_TASK = {
    "binary": ("hinge", "squared_hinge", "hinge_p"),
    "multiclass": ("hinge", "squared_hinge", "hinge_p"),
    "ordinal": ("pair_hinge",),
    "regression": ("epsilon_insensitive", "squared_epsilon_insensitive"),
}


def main() -> None:
    for label, X, y, arguments in runs():
        result = solvers.train(X, y, seed=3, max_passes=MAX_PASSES, **arguments)
        print(label, result.solver, result.status, result.iterations, result.passes, fingerprint(result), flush=True)


def fingerprint(result: solvers.SolveResult) -> str:
    certificate = result.certificate
    numbers = [result.coef, result.intercept, certificate.primal, certificate.dual_bound, certificate.relative_gap]
    digest = hashlib.sha256()
    for number in numbers:
        digest.update(b"none" if number is None else np.asarray(number, dtype=np.float64).tobytes())
    return digest.hexdigest()[:16]


def runs() -> Iterator[tuple[str, Any, Any, dict[str, Any]]]:
    """Every method with all of its tasks, losses and biases on dense and sparse rows, then `auto` on the same."""
    everything = {"tasks": list(LOSSES_OF_TASK), "losses": None, "biases": ["none", "regularized", "free"]}
    for size, kind in itertools.product(SIZES, ("dense", "sparse", "float32")):
        X, targets = data(size, kind)
        for name, described in [*solvers.available().items(), ("auto", everything)]:
            for task, bias in itertools.product(described["tasks"], described["biases"]):
                for loss in LOSSES_OF_TASK[task]:
                    if described["losses"] is not None and loss not in described["losses"]:
                        continue
                    problem = {"solver": name, "task": task, "loss": loss, "bias": bias}
                    problem["p"] = 1.5 if loss == "hinge_p" else None
                    yield from _variants(f"{size} {kind} {name} {task} {loss} {bias}", X, targets[task], problem)


def _variants(label: str, X: Any, y: Any, problem: dict[str, Any]) -> Iterator[tuple[str, Any, Any, dict[str, Any]]]:
    costs = itertools.product(COSTS, TOLERANCES)
    strategies = ("ovr", "crammer_singer") if problem["task"] == "multiclass" else ("ovr",)
    for strategy, (C, tol) in itertools.product(strategies, costs):
        arguments = {**problem, "C": C, "tol": tol, "strategy": strategy}
        try:
            solvers.check(
                n_rows=X.shape[0],
                n_features=X.shape[1],
                n_classes=None if problem["task"] == "regression" else np.unique(y).size,
                sparse=scipy.sparse.issparse(X),
                **arguments,
            )
        except solvers.SolverError:
            continue
        for threads in (1, 2):
            if threads == 2 and (problem["solver"] == "dcd_parallel" or C != 1.0):
                continue  # its bits are those of one thread only
            yield f"{label} {strategy} C={C:g} tol={tol:g} threads={threads}", X, y, {**arguments, "threads": threads}


def data(size: str, kind: str) -> tuple[Any, dict[str, Any]]:
    n, d = SIZES[size]
    random = np.random.default_rng(7)
    X = random.standard_normal((n, d))
    signal = X[:, 0] - 0.5 * X[:, 1] + 0.7 * random.standard_normal(n)
    if kind == "sparse":
        X[random.random((n, d)) < 0.6] = 0.0
    if kind == "float32":
        X = X.astype(np.float32)
    targets: dict[str, Any] = {"binary": (signal > 0.2).astype(int), "regression": signal}
    targets["multiclass"] = targets["ordinal"] = np.digitize(signal, [-0.8, 0.4])
    return (scipy.sparse.csr_array(X) if kind == "sparse" else X), targets


if __name__ == "__main__":
    main()
