"""What every solver must show: one suite over the registry, run for every choice a solver claims.

A new file in solvers/methods/ is picked up without a change here. A method that declares `exact = False`
is held to honesty (its certificate) but not to the optimum.
"""

import itertools
import sys
import time

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import solvers
import solvers.data.rows
from solvers.linalg.kernel_cache import kernels_of
from tests.support.conformance import (
    CHOICES,
    HANG_SECONDS,
    METHODS,
    assert_honest,
    assert_optimal,
    assert_true_bound,
    every_choice,
    medium_problem,
    over,
    run,
)
from tests.support.solver_problems import examples

ONE_STEP = ("svm1d",)  # done after its first step, so that there is nothing to interrupt


every_choice_of_many_steps = over([choice for choice in CHOICES if choice.method.name not in ONE_STEP])
every_method = pytest.mark.parametrize("method", [pytest.param(m, id=m.name) for m in METHODS])
every_c_scale = pytest.mark.parametrize("c_scale", ["sum", "mean"])
every_storage = pytest.mark.parametrize("storage", ["csr", "dense"])
every_dtype = pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])


@every_choice
@every_c_scale
def test_reaches_the_independent_optimum_with_an_honest_certificate(choice, c_scale):
    storages, dtypes = st.sampled_from(["csr", "dense"]), st.sampled_from([np.float64, np.float32])

    @examples(16 if choice.loss == "hinge_p" else 40)  # near p = 1 clarabel itself misses the optimum now and then
    @given(case=choice.cases(c_scale), storage=storages, dtype=dtypes)
    def check(case, storage, dtype):
        dense = case.dense(dtype)
        result = run(case, choice.method, storage=storage, dtype=dtype)
        assert_honest(result, dense)
        if choice.method.exact:
            assert_optimal(result, dense)
        else:
            assert_true_bound(result, dense)

    check()


@every_choice
def test_a_row_of_weight_two_is_the_row_twice(choice):
    @examples(8)
    @given(case=st.sampled_from(["sum", "mean"]).flatmap(choice.cases), data=st.data())
    def check(case, data):
        # Balanced class weights count rows, not weights, so the two would differ by definition.
        case = case.changed(class_weight=None)
        n = case.labels.size
        copies = np.array(data.draw(st.lists(st.integers(1, 2), min_size=n, max_size=n)))
        base = case.definition["sample_weight"]
        base = np.ones(n) if base is None else base
        weighted = case.changed(sample_weight=base * copies)
        rows = np.repeat(np.arange(n), copies)
        repeated = case.with_rows(rows, sample_weight=base[rows])
        assert_same_optimum(run(weighted, choice.method), run(repeated, choice.method), choice.method)

    check()


@every_choice
def test_is_symmetric_in_labels_and_row_order(choice):
    @examples(4)
    @given(case=choice.cases("sum"), data=st.data())
    def check(case, data):
        case = case.changed(class_weight=None)
        result = run(case, choice.method)
        order = np.array(data.draw(st.permutations(range(case.labels.size))))
        assert_same_optimum(result, run(case.with_rows(order), choice.method), choice.method)
        mirrored = run(case.mirrored(), choice.method)
        assert_same_optimum(result, mirrored, choice.method)
        if choice.method.exact:
            # P is 1-strongly convex in w: two points within g of the optimum are within 2 sqrt(2 g) in w.
            expected = mirrored.coef[::-1] if case.task == "multiclass" else -mirrored.coef
            distance = np.linalg.norm(result.coef - expected)
            assert distance <= 2.0 * np.sqrt(2.0 * (result.certificate.gap + mirrored.certificate.gap)) + 1e-9

    check()


def assert_same_optimum(first, second, method):
    """Both intervals [bound, primal] contain the one optimum, so they overlap; exact methods' are short."""
    scale = 1e-9 * max(1.0, first.certificate.primal)
    assert first.certificate.dual_bound <= second.certificate.primal + scale
    assert second.certificate.dual_bound <= first.certificate.primal + scale
    if method.exact:
        assert first.converged
        assert second.converged


@every_choice
@every_storage
def test_the_same_seed_gives_the_same_bits(choice, storage):
    X, labels = medium_problem(choice.task, storage)
    arguments = {**choice.arguments, "tol": 1e-5, "max_passes": 200}
    first, second = (solvers.train(X, labels, seed=3, **arguments) for _ in range(2))
    assert first.coef.tobytes() == second.coef.tobytes()
    assert np.array_equal(first.intercept, second.intercept)
    assert first.certificate == second.certificate
    assert (first.iterations, first.passes, first.seed) == (second.iterations, second.passes, 3)


@every_choice_of_many_steps
@every_dtype
def test_a_table_of_mostly_zeros_is_trained_on_like_its_sparse_rows(choice, dtype):
    X, labels = medium_problem(choice.task, "dense", density=0.08)
    X = X.astype(dtype)
    arguments = {**choice.arguments, "tol": 1e-5, "max_passes": 60}
    taken = []
    dense = solvers.train(X, labels, callback=lambda report: taken.append(report.snapshot()), **arguments)
    sparse = solvers.train(sp.csr_array(X), labels, **arguments)
    assert dense.coef.tobytes() == sparse.coef.tobytes()
    assert dense.certificate == sparse.certificate
    assert (dense.iterations, dense.passes) == (sparse.iterations, sparse.passes)
    resumed = [
        solvers.train(one, labels, warm_start=taken[0], resume=True, **arguments) for one in (X, sp.csr_array(X))
    ]
    assert resumed[0].coef.tobytes() == resumed[1].coef.tobytes(), "a checkpoint of either continues with either"


@every_choice
def test_starting_at_the_solution_saves_passes(choice):
    X, labels = medium_problem(choice.task)
    arguments = {**choice.arguments, "tol": 1e-5, "max_seconds": HANG_SECONDS}
    cold = solvers.train(X, labels, **arguments)
    for start in (cold, cold.state):
        warm = solvers.train(X, labels, warm_start=start, **arguments)
        assert warm.passes < cold.passes
        if choice.method.has_estimate:
            assert warm.certificate.relative_gap <= max(1e-5, cold.certificate.relative_gap)
        else:
            # Its bound grows with the number of certificates, of which the second run has fewer.
            assert warm.certificate.primal <= cold.certificate.primal * (1 + 1e-5)
    from_weights = solvers.train(X, labels, warm_start=(cold.coef, cold.intercept), **arguments)
    assert from_weights.certificate.primal <= cold.certificate.primal * (1 + 1e-5)
    if choice.method.exact:
        assert from_weights.converged


@every_choice_of_many_steps
def test_a_state_resumes_the_run_it_came_from(choice):
    X, labels = medium_problem(choice.task)
    arguments = {**choice.arguments, "tol": 1e-9}
    whole = solvers.train(X, labels, max_passes=12, **arguments)
    taken = []

    def stop_midway(report):
        if report.iterations >= min(5, whole.iterations - 1):
            taken.append(report.snapshot())
            return True
        return None

    half = solvers.train(X, labels, callback=stop_midway, **arguments)
    assert half.status is solvers.Status.STOPPED
    remaining = whole.iterations - half.iterations
    resumed = solvers.train(
        X, labels, warm_start=taken[0], callback=lambda report: report.iterations >= remaining, **arguments
    )
    assert resumed.iterations == remaining
    assert resumed.coef.tobytes() == whole.coef.tobytes(), "a checkpoint continues with the same bits"


@every_choice_of_many_steps
def test_a_callback_is_called_every_pass_and_can_stop(choice):
    X, labels = medium_problem(choice.task)
    reports = []

    def stop_at_the_third(report):
        reports.append(report)
        return len(reports) == 3

    result = solvers.train(X, labels, **choice.arguments, tol=1e-12, callback=stop_at_the_third)
    assert result.status is solvers.Status.STOPPED
    assert not result.converged
    assert len(reports) == 3
    for earlier, later in itertools.pairwise(reports):
        assert later.passes - earlier.passes <= 1 or later.seconds - earlier.seconds <= 0.5
    assert [report.iterations for report in reports] == sorted(report.iterations for report in reports)
    assert result.certificate.gap is not None
    assert np.isfinite(result.coef).all()


@every_choice_of_many_steps
def test_limits_end_the_run_with_the_best_point_so_far(choice):
    X, labels = medium_problem(choice.task, n=3000, d=200)
    arguments = {**choice.arguments, "C": 100.0, "tol": 1e-300}
    by_passes = solvers.train(X, labels, max_passes=4, **arguments)
    assert by_passes.status is solvers.Status.PASS_LIMIT
    assert by_passes.passes <= 5  # a step that starts below the limit may end one pass above it
    began = time.perf_counter()
    by_time = solvers.train(X, labels, max_seconds=0.01, **arguments)
    elapsed = time.perf_counter() - began
    assert by_time.status in (solvers.Status.TIME_LIMIT, solvers.Status.STALLED)
    assert elapsed < 2.0
    for result in (by_passes, by_time):
        assert not result.converged
        assert result.certificate.relative_gap > 0.0
        assert result.certificate.dual_bound <= result.certificate.primal


@every_method
@every_storage
@every_dtype
def test_x_is_read_where_it_lies(method, storage, dtype, monkeypatch):
    choice = next(choice for choice in CHOICES if choice.method is method)
    X, labels = medium_problem(choice.task, storage)
    X = X.astype(dtype)
    seen = []
    original = method.__init__

    def spying(self, problem, options):
        seen.append(problem)
        original(self, problem, options)

    monkeypatch.setattr(method, "__init__", spying)
    before = X.copy()
    solvers.train(X, labels, **choice.arguments, max_passes=2)
    data = seen[0].data
    assert np.shares_memory(data.values, X.data if storage == "csr" else X)
    assert data.values.dtype == dtype
    assert not data.values.flags.writeable
    if storage == "csr":
        assert np.shares_memory(data.columns, X.indices)
        assert (before != X).nnz == 0
    else:
        assert (before == X).all()


@every_choice
def test_a_tolerance_out_of_reach_ends_as_stalled(choice):
    X = np.array([[1.0, 0.3], [0.7, -0.2], [-0.4, 0.9], [-1.0, 0.1], [0.1, 0.5]])
    labels = [1, 1, 0, 0, 1] if choice.task == "binary" else [1, 2, 0, 0, 1]
    result = solvers.train(X, labels, **choice.arguments, tol=1e-300, max_seconds=HANG_SECONDS)
    assert result.status in (solvers.Status.STALLED, solvers.Status.CONVERGED)
    if choice.method.exact:
        assert result.certificate.relative_gap <= 1e-9


@every_choice
def test_warm_up_leaves_nothing_to_compile(choice):  # which the fixture of conftest.py has called
    kernels = [*kernels_of(solvers.data.rows), *kernels_of(sys.modules[choice.method.__module__])]
    before = [len(kernel.signatures) for kernel in kernels]
    for storage, dtype in itertools.product(["csr", "dense"], [np.float32, np.float64]):
        X, labels = medium_problem(choice.task, storage)
        X, weights = X.astype(dtype), np.linspace(0.0, 2.0, labels.size)
        arguments = {**choice.arguments, "max_seconds": 1.0}
        class_weight = None if choice.task in ("ordinal", "regression") else "balanced"
        first = solvers.train(X, labels, sample_weight=weights, class_weight=class_weight, **arguments)
        for start in (first, first.coef):
            solvers.train(X, labels, warm_start=start, **arguments)
    assert [len(kernel.signatures) for kernel in kernels] == before
