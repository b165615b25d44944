"""Classes, ranks and numbers beside LIBLINEAR and libocas: time at equal verified gap, accuracy, mean error.

The gap of any weights is (P - bound) / P with P recomputed here and our tightest bound. Ours stop by themselves, at
their own certificate. LIBLINEAR is timed at the loosest of its tolerances whose weights reach the gap, as if an
oracle had told it where to stop, and without converting the data to its own structure. One thread's seconds are the
processor's, so that other work on the machine does not count; those of two threads are by the clock.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import solvers
from benchmarks import problems
from benchmarks.data import load
from benchmarks.peers import ocas
from benchmarks.peers.contenders import TOLERANCES
from benchmarks.peers.process import PeerProcess
from benchmarks.timing import least_seconds, timed

Floats = NDArray[np.float64]

LIMIT_SECONDS = 60.0
MNIST_C = 0.01
MNIST_GAPS = (1e-2, 1e-3)
REGRESSION_GAPS = (1e-2, 1e-3, 1e-4)
ACCURACY_SETS = ("letter", "satimage", "pendigits", "shuttle")
MEAN_COSTS = (1.0, 10.0, 100.0, 1000.0)
"""C to choose from, with `c_scale` mean."""
FOLDS = 5


def run() -> None:
    for table in tables():
        print(table, flush=True)


def tables() -> Iterator[str]:
    """Markdown, each as soon as it is measured."""
    solvers.warm_up()
    yield _regression_table()
    yield _ordinal_table()
    yield _accuracy_table()
    yield _mnist_table()
    yield _threads_table()


class _Contest(NamedTuple):
    """One problem, for ours and for the peers."""

    definition: dict[str, Any]
    """Arguments of solvers.train that say what the problem is."""
    X: Any
    y: NDArray[Any]
    liblinear: PeerProcess
    """With the same rows."""
    objective: Callable[[Floats], float]
    """P of weights by features, the bias in the last row; one column a class."""

    def train(self, solver: str, tol: float, **arguments: Any) -> solvers.SolveResult:
        given = {"max_seconds": LIMIT_SECONDS, **self.definition, **arguments}
        return solvers.train(self.X, self.y, solver=solver, tol=tol, **given)


# --- at equal verified gap -------------------------------------------------------------------------------------------


def _compare(
    contest: _Contest, ours: tuple[str, ...], kinds: tuple[int, ...], gaps: tuple[float, ...]
) -> Iterator[tuple[float, float, dict[str, float]]]:
    """For each gap: our bound, and the seconds of every contender that reaches it; LIBLINEAR's are called "-s kind"."""
    certificate = contest.train(ours[0], 0.02 * min(gaps), max_seconds=3 * LIMIT_SECONDS).certificate
    bound = certificate.dual_bound or 0.0
    found = {kind: _loosest_tolerances(contest, kind, gaps, bound) for kind in kinds}
    for gap in gaps:
        calls = {f"-s {kind}": _liblinear_call(contest, kind, t[gap]) for kind, t in found.items() if gap in t}
        calls |= {name: _our_call(contest, name, gap) for name in ours}
        yield gap, bound, least_seconds(calls)


def _our_call(contest: _Contest, name: str, gap: float) -> Callable[[], float | None]:
    def call() -> float | None:
        result, seconds = timed(lambda: contest.train(name, gap))
        return seconds.cpu if result.converged else None

    return call


def _liblinear_call(contest: _Contest, kind: int, tolerance: float) -> Callable[[], float | None]:
    def call() -> float | None:
        outcome = _run_liblinear(contest, kind, tolerance)
        return None if outcome is None else outcome[0]

    return call


def _loosest_tolerances(contest: _Contest, kind: int, gaps: tuple[float, ...], bound: float) -> dict[float, float]:
    """For each gap that LIBLINEAR reaches in time, the loosest tolerance that does."""
    found: dict[float, float] = {}
    for tolerance in TOLERANCES:
        outcome = _run_liblinear(contest, kind, tolerance)
        if outcome is None:
            break
        primal = contest.objective(outcome[1])
        found |= {gap: tolerance for gap in gaps if (primal - bound) <= gap * primal and gap not in found}
        if len(found) == len(gaps):
            break
    return found


@contextmanager
def _liblinear(X: Any, labels: NDArray[Any]) -> Iterator[PeerProcess]:
    with tempfile.TemporaryDirectory() as folder:
        problems.store(Path(folder), X, labels)
        process = PeerProcess("liblinear")
        try:
            process.load(Path(folder))
            yield process
        finally:
            process.close()


def _run_liblinear(contest: _Contest, kind: int, tolerance: float) -> tuple[float, Floats] | None:
    """(seconds, weights with a column a vector), or None after the time limit."""
    epsilon = f"-p {contest.definition['epsilon']}" if "epsilon" in contest.definition else ""
    flags = f"-s {kind} -c {contest.definition['C']} -e {tolerance} {epsilon}"
    trained = contest.liblinear.train({"flags": flags}, LIMIT_SECONDS, "cpu")
    return None if isinstance(trained, str) else (trained.cpu, trained.weights.reshape(contest.X.shape[1] + 1, -1))


def _cells(seconds: dict[str, float], peers: tuple[str, ...], ours: tuple[str, ...]) -> str:
    """Return the fastest peer with its seconds, and each solver's time divided by it, or in seconds without a peer."""
    arrived = [name for name in peers if name in seconds]
    best = min(arrived, key=seconds.__getitem__, default=None)
    cells = [f"{best} {seconds[best]:.3g} s" if best else "none arrives"]
    for name in ours:
        if name not in seconds:
            cells.append(f"{name} -")
        else:
            cells.append(f"{name} {seconds[name] / seconds[best]:.2f}" if best else f"{name} {seconds[name]:.3g} s")
    return f"{cells[0]} | {', '.join(cells[1:])}"


# --- mnist -----------------------------------------------------------------------------------------------------------


def _mnist() -> tuple[Any, NDArray[np.int64]]:
    X, y = load("mnist")
    return sp.csr_matrix(X / 255.0), y.astype(np.int64)


def _mnist_table() -> str:
    X, y = _mnist()
    with _liblinear(X, y) as liblinear:
        lines = list(_mnist_lines(X, y, liblinear))
    return "\n".join(
        [
            f"mnist, 60,000 x 784 as CSR, 10 classes, C = {MNIST_C}, bias 1: seconds of the peer, and ours over them",
            "",
            "| how | relative gap | peer | ours / peer |",
            "|---|---|---|---|",
            *lines,
            "",
        ]
    )


def _mnist_lines(X: Any, y: NDArray[np.int64], liblinear: PeerProcess) -> Iterator[str]:
    for title, definition, ours, kinds in (
        ("ovr, hinge", {"loss": "hinge"}, ("dcd",), (3,)),
        ("ovr, squared hinge", {"loss": "squared_hinge"}, ("tron", "dcd", "asvm"), (1, 2)),
        ("jointly", {"strategy": "crammer_singer"}, ("crammer_singer", "oca_t"), (4,)),
    ):
        joint = title == "jointly"
        objective = _joint_objective(X, y) if joint else _ovr_objective(X, y, definition["loss"])
        contest = _Contest({"C": MNIST_C, **definition}, X, y, liblinear, objective)
        for gap, bound, seconds in _compare(contest, ours, kinds, MNIST_GAPS):
            peers = tuple(f"-s {kind}" for kind in kinds)
            if joint and (theirs := _run_msvmocas(X, y, gap)) is not None:
                seconds["msvmocas"], W = theirs
                verified = f"{gap:g} (msvmocas: {1.0 - bound / objective(W):.1e})"
                yield f"| {title} | {verified} | {_cells(seconds, ('msvmocas',), ours)} |"
            yield f"| {title} | {gap:g} | {_cells(seconds, peers, ours)} |"


def _joint_objective(X: Any, y: NDArray[np.int64]) -> Callable[[Floats], float]:
    def objective(W: Floats) -> float:
        scores = X @ W[:-1] + W[-1]
        losses = scores - scores[np.arange(y.size), y][:, None] + (np.arange(W.shape[1]) != y[:, None])
        return 0.5 * float((W * W).sum()) + MNIST_C * float(losses.max(axis=1).sum())

    return objective


def _ovr_objective(X: Any, y: NDArray[np.int64], loss: str) -> Callable[[Floats], float]:
    def objective(W: Floats) -> float:
        signs = np.where(np.arange(W.shape[1]) == y[:, None], 1.0, -1.0)
        slack = np.maximum(0.0, 1.0 - signs * (X @ W[:-1] + W[-1]))
        return 0.5 * float((W * W).sum()) + MNIST_C * float((slack if loss == "hinge" else slack**2).sum())

    return objective


def _run_msvmocas(X: Any, y: NDArray[np.int64], gap: float) -> tuple[float, Floats] | None:
    """Its own count of seconds without loading, and its weights; None if it is not there or too slow."""
    if ocas.program("msvmocas") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.light"
        with_bias = sp.csr_matrix(sp.hstack([X, sp.csr_matrix(np.ones((X.shape[0], 1)))]))
        ocas.write_rows(rows, with_bias, y + 1)
        run = ocas.run_ocas("msvmocas", rows, with_bias.shape[1], C=MNIST_C, gap=gap, limit=LIMIT_SECONDS, bias=False)
    return (run.seconds * run.cpu_share, run.weights) if run.seconds < LIMIT_SECONDS else None


def _threads_table() -> str:
    X, y = _mnist()
    lines = []
    for solver, loss in (("dcd", "hinge"), ("dcd", "squared_hinge"), ("tron", "squared_hinge")):
        seconds = [
            solvers.train(X, y, solver=solver, loss=loss, C=MNIST_C, tol=1e-2, threads=threads).seconds
            for threads in (1, 2)
        ]
        lines.append(f"| {solver} | {loss} | {seconds[0]:.2f} | {seconds[1]:.2f} | {seconds[1] / seconds[0]:.2f} |")
    head = "mnist one class against the rest, relative gap 0.01, classes side by side: seconds by the clock"
    columns = "| solver | loss | 1 thread | 2 threads | ratio |"
    return "\n".join([head, "", columns, "|---|---|---|---|---|", *lines, ""])


# --- accuracy, ranks, numbers ----------------------------------------------------------------------------------------


def _standardised(X: Floats, rows: NDArray[np.intp]) -> Floats:
    """Each feature with mean 0 and deviation 1 over the given rows."""
    deviation = X[rows].std(axis=0)
    return np.asarray((X - X[rows].mean(axis=0)) / np.where(deviation > 0.0, deviation, 1.0))


def _accuracy_table() -> str:
    lines = []
    for name in ACCURACY_SETS:
        X, y = load(name)
        order = np.random.default_rng(0).permutation(y.size)
        training, test = order[: 2 * y.size // 3], order[2 * y.size // 3 :]
        X = _standardised(X, training)
        codes = np.unique(y, return_inverse=True)[1]
        cells = []
        with _liblinear(X[training], codes[training].astype(float)) as liblinear:
            contest = _Contest({"C": 1.0}, X, codes, liblinear, lambda W: 0.0)
            definitions: tuple[tuple[dict[str, Any], int], ...] = (
                ({"loss": "hinge"}, 3),
                ({"loss": "squared_hinge"}, 2),
                ({"solver": "crammer_singer"}, 4),
            )
            for definition, kind in definitions:
                result = solvers.train(X[training], codes[training], tol=1e-3, max_seconds=LIMIT_SECONDS, **definition)
                outcome = _run_liblinear(contest, kind, 0.01 if kind == 2 else 0.1)
                theirs = "-"
                if outcome is not None:
                    scores = X[test] @ outcome[1][:-1] + outcome[1][-1]
                    theirs = f"{100.0 * float((scores.argmax(axis=1) == codes[test]).mean()):.2f}"
                gap = "" if result.converged else f" (gap {result.certificate.relative_gap:.0e})"
                cells += [f"{100.0 * float((result.predict(X[test]) == codes[test]).mean()):.2f}{gap}", theirs]
        lines.append(f"| {name} | {training.size:,} / {test.size:,} | {' | '.join(cells)} |")
    return "\n".join(
        [
            "Percent right on a third of the rows, trained on the others (C = 1, bias 1, standardised; ours to a",
            f"certified 1e-3 or for {LIMIT_SECONDS:.0f} s, LIBLINEAR with its default tolerances)",
            "",
            "| set | rows | ovr hinge | -s 3 | ovr squared | -s 2 | crammer_singer | -s 4 |",
            "|---|---|---|---|---|---|---|---|",
            *lines,
            "",
        ]
    )


def _ordinal_table() -> str:
    X, y = load("wine_quality_red")
    order = np.random.default_rng(0).permutation(y.size)
    errors: dict[str, list[float]] = {"cpa_ordinal": [], "regression, rounded": [], "regression": []}
    for fold in range(FOLDS):
        test = order[fold::FOLDS]
        training = np.setdiff1d(order, test)
        scaled = _standardised(X, training)
        for task in ("ordinal", "regression"):
            held = training[::FOLDS]
            inner = np.setdiff1d(training, held)
            best = min(MEAN_COSTS, key=lambda C: _mean_error(scaled, y, inner, held, task, C)[0])
            plain, rounded = _mean_error(scaled, y, training, test, task, best)
            if task == "ordinal":
                errors["cpa_ordinal"].append(plain)
            else:
                errors["regression"].append(plain)
                errors["regression, rounded"].append(rounded)
    lines = [f"| {name} | {np.mean(e):.3f} | {min(e):.3f} to {max(e):.3f} |" for name, e in errors.items()]
    head = f"wine_quality_red, ranks 3 to 8: mean absolute error, {FOLDS}-fold, C chosen inside each training part"
    return "\n".join([head, "", "| method | mean | lowest to highest fold |", "|---|---|---|", *lines, ""])


def _mean_error(
    X: Floats, y: NDArray[Any], training: NDArray[Any], test: NDArray[Any], task: str, C: float
) -> tuple[float, float]:
    """Mean absolute error of the predictions as they are, and rounded."""
    limits: dict[str, Any] = {"tol": 1e-3, "max_seconds": LIMIT_SECONDS}
    result = solvers.train(X[training], y[training].astype(float), task=task, C=C, c_scale="mean", **limits)
    predicted = np.asarray(result.predict(X[test]), dtype=float)
    return float(np.abs(predicted - y[test]).mean()), float(np.abs(np.round(predicted) - y[test]).mean())


def _regression_sets() -> Iterator[tuple[str, tuple[Floats, Floats]]]:
    for name in ("boston_housing", "abalone", "wine_quality_red"):
        X, y = load(name)
        yield name, (_standardised(X, np.arange(y.size)), y.astype(float))
    random = np.random.default_rng(0)
    tall = random.standard_normal((200_000, 32))
    noise = 3.0 * random.standard_normal(200_000) + 2.0
    yield "200,000 x 32, generated", (tall, tall @ random.standard_normal(32) + noise)


def _regression_table() -> str:
    lines = []
    for name, (X, y) in _regression_sets():
        with _liblinear(X, y) as liblinear:
            for loss, p, kinds in (("epsilon_insensitive", 1, (13,)), ("squared_epsilon_insensitive", 2, (11, 12))):

                def objective(W: Floats, X: Floats = X, y: Floats = y, p: int = p) -> float:
                    excess = np.maximum(np.abs(y - X @ W[:-1, 0] - W[-1, 0]) - 0.1, 0.0)
                    return 0.5 * float((W * W).sum()) + float((excess**p).sum())

                definition = {"task": "regression", "loss": loss, "C": 1.0, "epsilon": 0.1}
                contest = _Contest(definition, X, y, liblinear, objective)
                ours = ("auto", "svr_dual")
                for gap, _, seconds in _compare(contest, ours, kinds, REGRESSION_GAPS):
                    peers = tuple(f"-s {kind}" for kind in kinds)
                    lines.append(f"| {name} | {loss} | {gap:g} | {_cells(seconds, peers, ours)} |")
    return "\n".join(
        [
            "Regression, standardised features, C = 1, epsilon 0.1, bias 1: seconds of the peer, ours over them",
            "",
            "| set | loss | relative gap | peer | ours / peer |",
            "|---|---|---|---|---|",
            *lines,
            "",
        ]
    )
