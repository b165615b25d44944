"""Time per pass of every method as the data grows, and its Python calls: both say whether a method is linear."""

import cProfile
import itertools
import pstats
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import solvers

ROUNDS = 3
DOUBLINGS = 4


def run() -> None:
    solvers.warm_up()
    _print_seconds_a_pass()
    _print_calls_a_step()


def _generated(n: int, storage: str) -> tuple[Any, NDArray[np.float64]]:
    random = np.random.default_rng(n)
    if storage == "dense":
        X: Any = random.standard_normal((n, 40))
    else:
        columns = random.integers(0, 2000, (n, 40))
        X = sp.csr_matrix((random.standard_normal(40 * n), columns.reshape(-1), np.arange(n + 1) * 40), shape=(n, 2000))
        X.sum_duplicates()
    score = X @ random.standard_normal(X.shape[1]) + 5.0 * random.standard_normal(n)
    return X, np.where(score > 0, 1.0, -1.0)


def _every_choice() -> Iterator[tuple[str, str]]:
    for name, described in solvers.available().items():
        for loss in described["losses"]:
            yield name, loss


def _run_some_passes(data: tuple[Any, Any], name: str, loss: str) -> solvers.SolveResult | None:
    try:
        return solvers.train(
            *data, solver=name, loss=loss, p=1.5 if loss == "hinge_p" else None, tol=1e-12, max_passes=12
        )
    except solvers.SolverError:
        return None


def _print_seconds_a_pass() -> None:
    print("\nMilliseconds a pass, certificates apart, as n doubles (in brackets: over the one before; linear is 2)")
    for storage, smallest in (("csr", 10_000), ("dense", 20_000)):
        sizes = [smallest * 2**k for k in range(DOUBLINGS + 1)]
        print(f"{storage + ', 40 a row':27}", *(f"{'n = ' + str(n):>15}" for n in sizes))
        sets = [_generated(n, storage) for n in sizes]
        for name, loss in _every_choice():
            least = [np.inf] * len(sizes)
            for _ in range(ROUNDS):
                for k, data in enumerate(sets):
                    result = _run_some_passes(data, name, loss)
                    if result is not None:
                        seconds = (result.seconds - result.certificate_seconds) / max(result.passes, 1)
                        least[k] = min(least[k], seconds)
            cells = [f"{1e3 * least[0]:15.3f}"]
            cells += [f"{1e3 * now:8.3f} ({now / before:4.2f})" for before, now in itertools.pairwise(least)]
            print(f"{name:10} {loss:16}", *(cells if np.isfinite(least[0]) else ["refuses"]), flush=True)


def _print_calls_a_step() -> None:
    print("\nPython calls a step of the method, by cProfile: none for a row means no growth with n")
    sizes = 2_000, 32_000
    sets = [_generated(n, "csr") for n in sizes]
    print(f"{'':27}", *(f"{'n = ' + str(n):>12}" for n in sizes))
    for name, loss in _every_choice():
        counts = []
        for data in sets:
            profile = cProfile.Profile()
            result = profile.runcall(_run_some_passes, data, name, loss)
            if result is not None:
                counts.append(pstats.Stats(profile).total_calls / max(result.iterations, 1))  # type: ignore[attr-defined]
        print(f"{name:10} {loss:16}", *(f"{count:12.1f}" for count in counts), flush=True)
