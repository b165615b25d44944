"""The clock of a search, and how long `choose_c` takes."""

import time

import numpy as np
from numba import njit

import solvers
from solvers.tuning.quick import FOLDS, LEAST_SECONDS, choose_c


def made(n=300):
    random = np.random.default_rng(0)
    X = random.standard_normal((n, 4))
    return X, (X @ np.arange(1.0, 5.0) + random.standard_normal(n) > 0.0).astype(int)


def test_compiling_kernels_is_not_counted():
    X, y = made()
    solvers.tune(X, y, C=[0.1, 1.0], folds=3, refit=False)  # loads the kernels of the search itself
    compiled = []

    def prepare(_variant, training, held_out):
        began = time.perf_counter()
        njit(lambda x: np.sort(x)[::-1].cumsum())(np.ones(3))  # a new function: never in the cache
        compiled.append(time.perf_counter() - began)
        return X[training], X[held_out]

    began = time.perf_counter()
    result = solvers.tune(None, y, prepare=prepare, C=[0.1, 1.0], folds=3, refit=False)
    passed = time.perf_counter() - began
    assert result.finished
    assert result.seconds < passed - 0.8 * sum(compiled)


def test_a_short_search_does_not_begin_a_fold_that_would_take_too_long():
    X, y = made()
    copies = []

    def slow(_variant, training, held_out):
        copies.append(training.size)
        time.sleep(0.6 * LEAST_SECONDS)
        return X[training], X[held_out]

    found = choose_c(None, y, prepare=slow)
    assert len(copies) == found.folds == 1
    quick = choose_c(X, y)
    assert quick.folds == FOLDS
    assert quick.seconds < LEAST_SECONDS
    assert min(trial.C for trial in quick.trials) <= quick.C <= max(trial.C for trial in quick.trials)
