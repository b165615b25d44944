"""libocas as its Debian programs: they read a file, print a line an iteration and count their own seconds."""

import re
import resource
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import dump_svmlight_file

__all__ = ["CutPlanes", "Iteration", "program", "run_ocas", "write_rows"]

LOADING_SECONDS = 120.0
"""More than reading any file takes that is given to it."""


class Iteration(NamedTuple):
    """One of its lines."""

    seconds: float
    primal: float


class CutPlanes(NamedTuple):
    """A whole run: without loading, as it counts itself."""

    seconds: float
    cpu_share: float
    """Of its time by the clock, which is what it counts: less than 1 where other work ran."""
    iterations: list[Iteration]
    weights: NDArray[np.float64]
    """As in its model file: a column of weights, the bias last; several classes: a row each feature."""


def program(name: str) -> str | None:
    """Where `svmocas` or `msvmocas` is, if it is installed (Debian: libocas-tools)."""
    return shutil.which(name)


def write_rows(path: Path, X: Any, labels: NDArray[Any]) -> None:
    """Whole or not at all: a run that is interrupted must not leave a part behind that looks like the file."""
    part = path.with_suffix(".part")
    dump_svmlight_file(X, labels, str(part), zero_based=False)
    part.replace(path)


def run_ocas(name: str, rows: Path, n_features: int, *, C: float, gap: float, limit: float, bias: bool) -> CutPlanes:
    """Until its own relative gap, or the limit in seconds of training, is reached."""
    path, model = program(name), rows.with_suffix(".model")
    if path is None:
        raise FileNotFoundError(f"{name} is not installed (Debian: libocas-tools)")
    given = ["-c", str(C), "-r", str(gap), "-t", str(limit), *(["-b", "1"] if bias else [])]
    began, began_cpu = time.perf_counter(), _children_cpu()
    printed = subprocess.run(
        [path, *given, str(rows), str(model)],
        check=True,
        capture_output=True,
        text=True,
        timeout=LOADING_SECONDS + 2.0 * limit,
    ).stdout
    cpu_share = min(1.0, (_children_cpu() - began_cpu) / (time.perf_counter() - began))
    seconds = re.search(r"ocas_time\s*:\s*([\d.]+)", printed)
    if seconds is None:
        raise RuntimeError(f"{name} printed no time")
    lines = re.findall(r"^\s*\d+: tim=([\d.]+), Q_P=([\d.]+)", printed, flags=re.MULTILINE)
    stored = np.loadtxt(model, ndmin=2)
    weights = np.zeros((n_features + bias, stored.shape[1]))
    weights[: stored.shape[0] - bias] = stored[: stored.shape[0] - bias]  # it forgets empty columns at the end
    if bias:
        weights[-1] = stored[-1]
    iterations = [Iteration(float(t), float(primal)) for t, primal in lines]
    return CutPlanes(float(seconds[1]), cpu_share, iterations, weights)


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
