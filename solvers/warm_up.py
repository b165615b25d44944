"""Compiles or loads kernels before they are needed, by running the methods on small problems."""

import importlib
import itertools
import pkgutil
from collections.abc import Collection, Iterator, Mapping
from types import ModuleType
from typing import Any

import numpy as np
import scipy.sparse

import solvers
from solvers.api import train
from solvers.data.rows import as_rows
from solvers.engine.registry import registered
from solvers.linalg.clock import NotCompiled, only_cached
from solvers.linalg.kernel_cache import kernels_of, remove_damaged, warm
from solvers.method import AnyMethod
from solvers.problem.losses import losses_of
from solvers.problem.spec import JOINT_LOGISTIC

__all__ = ["load_kernels", "warm_up"]


def warm_up(names: Collection[str] | None = None) -> None:
    """Compile the kernels of all methods (or of those named) for the dtypes in use, or load them from numba's cache.

    Removes damaged cache files, also those of methods that are not named.
    """
    kernels = [kernel for module in _modules() for kernel in kernels_of(module)]
    chosen = {name: method for name, method in registered().items() if names is None or name in names}
    if names is not None:
        remove_damaged(kernels)
    warm(kernels, lambda: _run_every_kernel(chosen))


def _modules() -> Iterator[ModuleType]:
    """Import every module of the package, so that all kernels are found."""
    for module_info in pkgutil.walk_packages(solvers.__path__, f"{solvers.__name__}."):
        yield importlib.import_module(module_info.name)


def load_kernels(names: Collection[str]) -> list[str]:
    """Load the kernels of these methods from numba's cache, without compiling. Return the methods of which at least one
    kernel is not in the cache."""
    kernels = [kernel for module in _modules() for kernel in kernels_of(module)]
    remove_damaged(kernels)
    lacking = []
    for name in names:
        try:
            with only_cached():
                _run_every_kernel({name: registered()[name]})
        except NotCompiled:
            lacking.append(name)
    return lacking


def _run_every_kernel(methods: Mapping[str, type[AnyMethod]]) -> None:
    """Run small problems that are hard enough for a method to use all of its kernels."""
    random = np.random.default_rng(0)
    wide, labels = _problem(random, 60)
    for dtype in (np.float64, np.float32):
        dense: Any = wide.astype(dtype)
        sparse = scipy.sparse.csr_array(dense)
        as_rows(np.eye(60, dtype=dtype), compress=True)
        # Rows with unsorted columns use another kernel for their inspection.
        as_rows(scipy.sparse.csr_array((sparse.data, sparse.indices[::-1], sparse.indptr), shape=sparse.shape))
        for X, (name, method) in itertools.product((dense, sparse), methods.items()):
            for task, loss, bias in itertools.product(method.tasks, method.losses, method.biases):
                if loss not in losses_of(task):
                    continue
                strategy = JOINT_LOGISTIC if loss == "logistic" else "crammer_singer"
                definition: Any = {"task": task, "strategy": strategy, "loss": loss, "bias": bias}
                p = 1.5 if loss == "hinge_p" else None
                for tol in (1e-2, 1e-8):
                    train(X, labels[task], solver=name, p=p, tol=tol, max_passes=1000, **definition)
        for name, method in methods.items():
            for rehearsal in method.rehearsals:
                rows, targets = _problem(random, rehearsal.n_rows)
                task = str(rehearsal.arguments.get("task", method.tasks[0]))
                for X in (rows.astype(dtype), scipy.sparse.csr_array(rows.astype(dtype))):
                    train(X, targets[task], solver=name, **rehearsal.arguments)


def _problem(random: np.random.Generator, n_rows: int) -> tuple[Any, dict[str, Any]]:
    """Make rows, and labels for every task."""
    rows = random.standard_normal((n_rows, 4))
    signal = rows[:, 0] + random.standard_normal(n_rows)
    classes = np.digitize(signal, [-0.5, 0.5])
    return rows, {
        "binary": np.digitize(signal, [0.0]),
        "multiclass": classes,
        "ordinal": classes,
        "regression": signal,
    }
