"""Compiles every kernel ahead of use, by small runs of all methods."""

import itertools
import sys
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import scipy.sparse

from . import bundle as bundle_module
from . import cholesky as cholesky_module
from . import class_descent as class_descent_module
from . import class_duals as class_duals_module
from . import columns as columns_module
from . import dual_descent_awake as dual_descent_awake_module
from . import dual_descent_climb as dual_descent_climb_module
from . import dual_descent_rows as dual_descent_rows_module
from . import dual_descent_samples as dual_descent_samples_module
from . import dual_refinement as dual_refinement_module
from . import gram_products as gram_products_module
from . import lagrangian_rows as lagrangian_rows_module
from . import line_search as line_search_module
from . import newton_line as newton_line_module
from . import newton_matrix as newton_matrix_module
from . import newton_rows as newton_rows_module
from . import oca as oca_module
from . import one_dimension as one_dimension_module
from . import one_row as one_row_module
from . import pair_counts as pair_counts_module
from . import prefetching as prefetching_module
from . import risks as risks_module
from . import row_compression as row_compression_module
from . import row_copies as row_copies_module
from . import row_products as row_products_module
from . import row_samples as row_samples_module
from . import rows as rows_module
from . import smoothed_losses as smoothed_losses_module
from . import tiles as tiles_module
from . import vector_products as vector_products_module
from .certificates import binary as binary_certificate_module
from .certificates import circulation as circulation_module
from .certificates import regression as regression_certificate_module
from .dual_descent import DualDescent
from .kernel_cache import kernels_of, remove_damaged, warm
from .newton import RowNewton
from .protocol import Method
from .registry import registered
from .rows import as_rows
from .setting import LOSSES_OF_TASK
from .training import train

__all__ = ["warm_up"]


def warm_up(names: Collection[str] | None = None) -> None:
    """Compile the kernels of all methods, or of those named, for the dtypes in use, or load them from numba's cache.

    A damaged cache is mended, also that of methods that are not named and will be loaded later.
    """
    shared = [
        rows_module,
        columns_module,
        cholesky_module,
        class_descent_module,
        class_duals_module,
        gram_products_module,
        lagrangian_rows_module,
        one_dimension_module,
        dual_descent_awake_module,
        dual_descent_climb_module,
        dual_descent_rows_module,
        dual_descent_samples_module,
        dual_refinement_module,
        pair_counts_module,
        bundle_module,
        prefetching_module,
        risks_module,
        line_search_module,
        newton_line_module,
        newton_matrix_module,
        newton_rows_module,
        oca_module,
        row_compression_module,
        row_copies_module,
        one_row_module,
        row_products_module,
        row_samples_module,
        smoothed_losses_module,
        tiles_module,
        vector_products_module,
        binary_certificate_module,
        regression_certificate_module,
        circulation_module,
    ]
    modules = [*shared, *(sys.modules[method.__module__] for method in registered().values())]
    kernels = [kernel for module in modules for kernel in kernels_of(module)]
    chosen = {name: method for name, method in registered().items() if names is None or name in names}
    if names is not None:
        remove_damaged(kernels)
    warm(kernels, lambda: _run_every_kernel(chosen))


def _run_every_kernel(methods: Mapping[str, type[Method[Any]]]) -> None:
    """Small, but not so easy that a method is done before it has used all of its kernels."""
    random = np.random.default_rng(0)
    wide = random.standard_normal((60, 4))
    signal = wide[:, 0] + random.standard_normal(60)
    labels: dict[str, Any] = {"binary": np.digitize(signal, [0.0]), "multiclass": np.digitize(signal, [-0.5, 0.5])}
    labels |= {"ordinal": labels["multiclass"], "regression": signal}
    for dtype in (np.float64, np.float32):
        dense: Any = wide.astype(dtype)
        sparse = scipy.sparse.csr_array(dense)
        as_rows(np.eye(60, dtype=dtype), compress=True)
        # Rows whose columns are in no order have an inspection of their own.
        as_rows(scipy.sparse.csr_array((sparse.data, sparse.indices[::-1], sparse.indptr), shape=sparse.shape))
        for X, (name, method) in itertools.product((dense, sparse), methods.items()):
            for task, loss, bias in itertools.product(method.tasks, method.losses, method.biases):
                if loss not in LOSSES_OF_TASK[task]:
                    continue
                definition = {"task": task, "strategy": "crammer_singer", "loss": loss, "bias": bias}
                p = 1.5 if loss == "hinge_p" else None
                for tol in (1e-2, 1e-8):
                    train(X, labels[task], solver=name, p=p, tol=tol, max_passes=1000, **definition)
        few_awake: Any = random.standard_normal((600, 4)).astype(dtype)
        their_labels = np.digitize(few_awake[:, 0] + random.standard_normal(600), [0.0])
        for X, (name, method) in itertools.product((few_awake, scipy.sparse.csr_array(few_awake)), methods.items()):
            if issubclass(method, DualDescent):
                train(X, their_labels, solver=name, loss="hinge", C=0.1, tol=1e-8)
        many = np.tile(dense, (80, 1))  # so many that samples are taken
        of_many = {task: np.tile(labels[task], 80) for task in ("binary", "regression")}
        for X, (name, method) in itertools.product((many, scipy.sparse.csr_array(many)), methods.items()):
            if issubclass(method, RowNewton):
                for task in method.tasks:
                    loss = next(loss for loss in method.losses if loss in LOSSES_OF_TASK[task])
                    train(X, of_many[task], solver=name, task=task, loss=loss)
            elif issubclass(method, DualDescent):
                train(X, of_many["binary"], solver=name, loss="hinge", C=1e-4)
