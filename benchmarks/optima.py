"""dcd beside LIBLINEAR's optimum on every shared set: is our bound below theirs, our objective as low?"""

import time
from typing import Any

import numpy as np
import scipy.sparse as sp
from liblinear.liblinearutil import parameter, problem, train

import solvers
from benchmarks.data import SHARED, is_sparse, load

TOL = 1e-4
SECONDS = 15.0
MAX_ENTRIES = 20_000_000  # LIBLINEAR's copy of more takes longer than the rest together
LIBLINEAR = {"hinge": "-s 3 -e 0.01", "squared_hinge": "-s 2 -e 1e-6"}


def run() -> None:
    print(f"C = 1, bias 1, commonest class against the rest, columns scaled to 1; tol {TOL}, at most {SECONDS:.0f} s")
    print(f"{'set':22} {'loss':14} {'status':11} {'seconds':>8} {'gap':>8} {'ours/LIBLINEAR - 1':>19}")
    for folder in sorted(path.parent for path in SHARED.glob("*/train.npz")):
        X, y = load(folder.name)
        values, counts = np.unique(y, return_counts=True)
        entries = X.nnz if is_sparse(X) else X.size
        if len(values) > 100 or entries > MAX_ENTRIES:
            print(f"{folder.name:22} left out: {'real-valued labels' if len(values) > 100 else f'{entries} entries'}")
            continue
        signs = np.where(y == values[np.argmax(counts)], 1.0, -1.0)
        _compare(folder.name, _scaled(X), signs)


def _scaled(X: Any) -> Any:
    """Each column divided by its largest absolute value."""
    largest = np.asarray(abs(X).max(axis=0).todense() if is_sparse(X) else np.abs(X).max(axis=0)).ravel()
    factors = np.divide(1.0, largest, out=np.ones_like(largest), where=largest > 0.0)
    return sp.csr_matrix(X @ sp.diags(factors)) if is_sparse(X) else X * factors


def _compare(name: str, X: Any, signs: np.ndarray) -> None:
    theirs_data = problem(signs, X if is_sparse(X) else sp.csr_matrix(X), 1)
    for loss, flags in LIBLINEAR.items():
        began = time.perf_counter()
        ours = solvers.train(X, signs, solver="dcd", loss=loss, tol=TOL, max_seconds=SECONDS)
        seconds = time.perf_counter() - began
        model = train(theirs_data, parameter(f"{flags} -c 1 -B 1 -q"))
        w = np.array(model.w[: X.shape[1] + 1]) * model.label[0]
        slack = np.maximum(0.0, 1.0 - signs * (X @ w[:-1] + w[-1]))
        theirs = 0.5 * w @ w + float((slack if loss == "hinge" else slack**2).sum())
        certificate = ours.certificate
        assert certificate.dual_bound is not None
        wrong = " BOUND IS WRONG" if certificate.dual_bound > theirs * (1 + 1e-9) else ""
        difference = certificate.primal / theirs - 1
        print(
            f"{name:22} {loss:14} {ours.status:11} {seconds:8.2f} {certificate.relative_gap or 0:8.1e} "
            f"{difference:19.1e}{wrong}",
            flush=True,
        )
