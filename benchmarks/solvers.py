"""Every solver beside LIBLINEAR at equal verified gap; time per pass as the data grows; Python calls as it grows.

The gap of any weights is (P - bound) / P with P recomputed here and the best dual bound known. Ours stop by
themselves, at their own certificate. LIBLINEAR is timed at the loosest of its tolerances whose weights reach the
gap, as if an oracle had told it where to stop, and without converting the data to its own structure, which is
printed apart.
"""

import cProfile
import itertools
import multiprocessing
import pstats
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from liblinear.liblinearutil import parameter
from liblinear.liblinearutil import problem as liblinear_problem
from liblinear.liblinearutil import train as liblinear_train
from numpy.typing import NDArray

import solvers
from benchmarks.data import load

GAPS = (1e-2, 1e-3, 1e-4)
LIBLINEAR_SOLVERS = {"hinge": (3,), "squared_hinge": (1, 2)}
TOLERANCES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 1e-4)
ROUNDS, ENOUGH_SECONDS, LIMIT_SECONDS = 3, 1.0, 10.0
"""The least of so many rounds counts; a run longer than `ENOUGH_SECONDS` is not repeated."""
DOUBLINGS = 4


def run() -> None:
    solvers.warm_up()
    _compare_with_liblinear()
    _print_seconds_a_pass()
    _print_calls_a_step()


# --- beside LIBLINEAR ------------------------------------------------------------------------------------------------


class _Task(NamedTuple):
    X: Any
    signs: NDArray[np.float64]
    converted: Any
    """The data in LIBLINEAR's own structure."""
    loss: str
    bound: float

    def gap(self, w: NDArray[np.float64]) -> float:
        xi = np.maximum(0.0, 1.0 - self.signs * (self.X @ w[:-1] + w[-1]))
        primal = 0.5 * (w * w).sum() + (xi if self.loss == "hinge" else xi * xi).sum()
        return float((primal - self.bound) / primal)


def _real_sets() -> Iterator[tuple[str, Any, NDArray[np.float64]]]:
    """(name, X, signs) of each set, made binary and scaled as its name says."""
    for name in ("a9a", "w8a", "ijcnn1"):
        X, y = load(name)
        yield name, X, np.where(y == y.max(), 1.0, -1.0)
    X, y = load("covtype")
    yield "covtype 2/rest", X / np.abs(X).max(axis=0).clip(min=1e-12), np.where(y == 2, 1.0, -1.0)
    X, y = load("news20_text")
    first = np.unique(y)[0]
    yield f"news20 {first}"[:16], X, np.where(y == first, 1.0, -1.0)
    X, y = load("mnist")
    yield "mnist even/odd", X / 255.0, np.where(y % 2 == 0, 1.0, -1.0)


def _compare_with_liblinear() -> None:
    print("Seconds of LIBLINEAR's fastest (C = 1, bias 1), and ours over it; '-': not within", LIMIT_SECONDS, "s")
    names = list(solvers.available())
    print(f"{'data':16} {'loss':14} {'gap':>6} {'LIBLINEAR':>15}", *(f"{name:>7}" for name in names), flush=True)
    for data, X, signs in _real_sets():
        began = time.perf_counter()
        converted = liblinear_problem(signs, X, 1)
        conversion = time.perf_counter() - began
        for loss, theirs in LIBLINEAR_SOLVERS.items():
            bound, known_to = _best_bound(X, signs, loss)
            task = _Task(X, signs, converted, loss, bound)
            if known_to > 0.1 * min(GAPS):
                print(f"{data:16} {loss:14} bound known to {known_to:.0e}: LIBLINEAR's smaller gaps are not seen")
            tolerances = {s: _loosest_tolerances(task, s) for s in theirs}
            able = [name for name in names if loss in solvers.available()[name]["losses"]]
            for gap in GAPS:
                contenders = {
                    f"-s {s}": _liblinear(task, s, found[gap]) for s, found in tolerances.items() if gap in found
                }
                contenders |= {name: _ours(task, name, gap) for name in able}
                seconds = _least_seconds(contenders)
                able = [name for name in able if name in seconds]  # what misses a gap misses smaller ones
                peer = min((name for name in seconds if name.startswith("-s")), key=lambda s: seconds[s], default=None)
                peer_text = f"{peer} {seconds[peer]:9.4f} s" if peer else "none arrives"
                ratios = (_ratio_text(seconds.get(name), peer and seconds[peer]) for name in names)
                print(f"{data:16} {loss:14} {gap:6.0e} {peer_text:>15}", *ratios, flush=True)
        print(f"{'':16} {X.shape[0]} x {X.shape[1]}; converted for LIBLINEAR in {conversion:.2f} s", flush=True)


def _best_bound(X: Any, signs: Any, loss: str) -> tuple[float, float]:
    """The highest dual bound that our solvers prove in time, and the relative gap it leaves to the best primal."""
    bound, primal, known_to = 0.0, np.inf, 1.0
    for name, described in solvers.available().items():
        if loss in described["losses"] and known_to > 1e-6:
            try:
                certificate = _train(X, signs, name, loss, 1e-6, 2 * LIMIT_SECONDS).certificate
            except solvers.SolverError:
                continue  # refuses this shape
            bound, primal = max(bound, certificate.dual_bound or 0.0), min(primal, certificate.primal)
            known_to = (primal - bound) / primal
    return bound, known_to


def _train(X: Any, signs: Any, name: str, loss: str, tol: float, limit: float = LIMIT_SECONDS) -> solvers.SolveResult:
    return solvers.train(X, signs, solver=name, loss=loss, C=1.0, tol=tol, max_seconds=limit)


def _ours(task: _Task, name: str, gap: float) -> Callable[[], float | None]:
    def call() -> float | None:
        try:
            result = _train(task.X, task.signs, name, task.loss, gap)
        except solvers.SolverError:
            return None  # refuses this shape
        return result.seconds if result.converged else None

    return call


def _liblinear(task: _Task, solver: int, tolerance: float) -> Callable[[], float | None]:
    def call() -> float | None:
        outcome = _run_liblinear(task, solver, tolerance)
        return None if outcome is None else outcome[0]

    return call


def _loosest_tolerances(task: _Task, solver: int) -> dict[float, float]:
    """For each gap that LIBLINEAR reaches in time, the loosest tolerance that does."""
    found: dict[float, float] = {}
    for tolerance in TOLERANCES:
        outcome = _run_liblinear(task, solver, tolerance)
        if outcome is None:
            break
        reached = task.gap(outcome[1])
        found |= {gap: tolerance for gap in GAPS if reached <= gap and gap not in found}
        if len(found) == len(GAPS):
            break
    return found


def _run_liblinear(task: _Task, solver: int, tolerance: float) -> tuple[float, NDArray[np.float64]] | None:
    """(seconds, weights), or None after the time limit; in a child process, as it cannot be interrupted."""
    receiver, sender = multiprocessing.Pipe(duplex=False)

    def work() -> None:
        settings = parameter(f"-s {solver} -c 1 -B 1 -e {tolerance} -q")
        began = time.perf_counter()
        model = liblinear_train(task.converted, settings)
        seconds = time.perf_counter() - began
        sender.send((seconds, np.array(model.w[: task.X.shape[1] + 1]) * model.label[0]))

    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    try:
        return receiver.recv() if receiver.poll(LIMIT_SECONDS) else None
    finally:
        child.kill()
        child.join()


def _least_seconds(contenders: dict[str, Callable[[], float | None]]) -> dict[str, float]:
    """Each contender's fastest run, the contenders taking turns; one that did not arrive is left out."""
    least: dict[str, float] = {}
    for number in range(ROUNDS):
        for name, call in contenders.items():
            if number == 0 or least.get(name, np.inf) < ENOUGH_SECONDS:
                seconds = call()
                if seconds is not None:
                    least[name] = min(seconds, least.get(name, np.inf))
    return least


def _ratio_text(ours: float | None, theirs: float | None) -> str:
    if ours is None:
        return f"{'-':>7}"
    return f"{ours / theirs:7.2f}" if theirs else f"{ours:6.2f}s"


# --- as the data grows -----------------------------------------------------------------------------------------------


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
