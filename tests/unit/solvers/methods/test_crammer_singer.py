"""What is special to crammer_singer: the exact step of a row, two classes as a binary problem, shrinking, its state."""

import numpy as np
import pytest
import scipy.sparse as sp

import solvers
from solvers.methods.crammer_singer.class_descent import move_shares


def problem(n=300, d=6, k=4, seed=0):
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d))
    codes = (X @ random.standard_normal((d, k)) + random.standard_normal((n, k))).argmax(axis=1)
    codes[:k] = np.arange(k)
    return X, np.array([f"class {c:02}" for c in codes])


def train(X, y, **arguments):
    given = {"solver": "crammer_singer", "task": "multiclass", "C": 0.5, "tol": 1e-9, **arguments}
    return solvers.train(X, y, **given)


@pytest.mark.parametrize("k", [2, 3, 10, 64])
def test_the_step_of_a_row_is_the_nearest_point_of_its_simplex(k):
    random = np.random.default_rng(k)
    for _ in range(300):
        h, cost = random.choice([1e-3, 1.0, 50.0], size=2)
        q = cost * random.dirichlet(np.full(k, 0.3))
        v = random.choice([random.standard_normal(k), random.integers(-1, 2, size=k).astype(float)])
        wanted = q + v / h
        move_shares(h, cost, v.copy(), q)
        # The projection by sorting: the largest number of places that stay positive.
        ordered = np.sort(wanted)[::-1]
        levels = (np.cumsum(ordered) - cost) / np.arange(1, k + 1)
        level = levels[np.flatnonzero(ordered > levels)[-1]]
        assert q == pytest.approx(np.maximum(wanted - level, 0.0), abs=1e-9 * max(cost, np.abs(wanted).max()))
        assert q.sum() == pytest.approx(cost, rel=1e-9)


def test_without_a_norm_all_goes_to_the_worst_rival():
    q = np.array([1.0, 2.0, 0.0])
    move_shares(0.0, 3.0, np.array([0.0, 1.0, 1.5]), q)
    assert q.tolist() == [0.0, 0.0, 3.0]


@pytest.mark.parametrize("bias", ["none", "regularized", "free"])
def test_two_classes_are_the_binary_problem_of_twice_the_cost(bias):
    X, y = problem(k=2)
    weights = np.linspace(0.0, 2.0, y.size)
    joint = train(X, y, bias=bias, sample_weight=weights, class_weight="balanced")
    binary = solvers.train(X, y, C=1.0, tol=1e-9, bias=bias, sample_weight=weights, class_weight="balanced")
    assert joint.converged
    assert 2.0 * joint.certificate.primal == pytest.approx(binary.certificate.primal, rel=2e-9)
    assert joint.coef[1] - joint.coef[0] == pytest.approx(binary.coef, abs=1e-3)
    assert joint.coef.sum(axis=0) == pytest.approx(0.0, abs=1e-12)
    assert (joint.predict(X) == binary.predict(X)).mean() > 0.99


def test_a_free_bias_takes_up_any_shift_of_the_rows():
    X, y = problem()
    shifted = X + np.array([3.0, -2.0, 0.0, 1.0, 0.0, 5.0])
    near, far = train(X, y, bias="free"), train(shifted, y, bias="free")
    assert near.converged
    assert far.converged
    assert near.certificate.primal == pytest.approx(far.certificate.primal, rel=2e-9)
    assert near.certificate.primal < train(X, y).certificate.primal, "the bias costs nothing"
    assert (near.predict(X) == far.predict(shifted)).mean() > 0.99


@pytest.mark.parametrize("how", ["class_weight", "sample_weight"])
def test_a_class_without_weight_is_left_out_by_its_bias(how):
    X, y = problem(k=5)
    rest = y != "class 02"
    weights = {"class_weight": {"class 02": 0.0}} if how == "class_weight" else {"sample_weight": rest.astype(float)}
    result, without = train(X, y, bias="free", **weights), train(X[rest], y[rest], bias="free")
    assert result.converged
    assert result.certificate.primal == pytest.approx(without.certificate.primal, rel=2e-9)
    assert not result.coef[2].any()
    assert np.isfinite(result.intercept).all()
    scores = X[rest] @ result.coef.T + result.intercept
    assert (scores[:, 2] + 1.0 < scores[:, [0, 1, 3, 4]].min(axis=1)).all()
    again = train(X, y, bias="free", warm_start=train(X, y, bias="free").state, **weights)
    assert again.converged
    assert again.certificate.primal == pytest.approx(result.certificate.primal, rel=2e-9)
    from_weights = train(X, y, bias="free", warm_start=train(X, y), **weights)
    assert from_weights.converged
    cold, back = (train(X, y, bias="free", warm_start=start) for start in (None, result.state))
    assert back.converged, "with weight it is a class again"
    assert back.certificate.primal == pytest.approx(cold.certificate.primal, rel=2e-9)


def test_a_state_that_lacks_a_field_is_refused_by_its_name():
    X, y = problem()
    state = train(X, y, bias="free").state
    older = {name: value for name, value in state.items() if name != "bias.pull"}
    with pytest.raises(solvers.InvalidOptions, match=r"crammer_singer of this version: it has no 'bias\.pull'"):
        train(X, y, bias="free", warm_start=older)


def test_one_class_with_weight_costs_nothing():
    X, y = problem(k=3)
    result = train(X, y, bias="free", class_weight={"class 00": 0.0, "class 02": 0.0})
    assert result.converged
    assert result.certificate.primal == 0.0
    assert set(result.predict(X)) == {"class 01"}


@pytest.mark.parametrize("scale", [1.0, 1e-4, 0.0])
@pytest.mark.parametrize("C", [1e-4, 1.0, 100.0])
def test_a_free_bias_where_every_row_is_a_class_of_its_own(scale, C):
    X = scale * np.linspace(-1.0, 2.0, 7)[:, None] ** 3
    result = train(X, np.arange(7), bias="free", C=C)
    assert result.converged
    if scale == 0.0:
        assert result.certificate.primal == pytest.approx(7 * C, rel=1e-9), "all alike: no bias is better than none"


def test_a_free_bias_alone_tells_the_commonest_class():
    y = np.repeat(["few", "many", "some"], [3, 30, 10])
    result = train(np.zeros((43, 2)), y, bias="free")
    assert result.converged
    assert set(result.predict(np.zeros((1, 2)))) == {"many"}
    assert result.certificate.primal == pytest.approx(0.5 * 2 * 13, rel=1e-9)


def test_a_state_of_another_bias_is_a_start():
    X, y = problem()
    for first, second in (("regularized", "free"), ("free", "regularized"), ("none", "free")):
        cold, warm = (train(X, y, bias=second, warm_start=start) for start in (None, train(X, y, bias=first).state))
        assert warm.converged
        assert warm.certificate.primal == pytest.approx(cold.certificate.primal, rel=2e-9)
        assert warm.trace[0].primal < cold.trace[0].primal


def test_naming_it_is_choosing_to_train_jointly():
    X, y = problem()
    named = solvers.train(X, y, solver="crammer_singer", tol=1e-6)
    by_strategy = solvers.train(X, y, strategy="crammer_singer", tol=1e-6)
    assert named.strategy == by_strategy.strategy == "crammer_singer"
    assert named.certificate.primal == pytest.approx(by_strategy.certificate.primal, rel=2e-6)


def test_an_empty_row_costs_its_whole_cost():
    X, y = problem(n=40)
    X[5] = 0.0
    kept = np.arange(40) != 5
    whole, rest = train(X, y, bias="none"), train(X[kept], y[kept], bias="none")
    assert whole.converged
    assert whole.certificate.primal == pytest.approx(rest.certificate.primal + 0.5, rel=2e-9)


def test_zeros_of_a_dense_row_are_no_entries():
    X, y = problem(n=150)
    X[np.abs(X) < 0.8] = 0.0
    dense, sparse = train(X, y), train(sp.csr_array(X), y)
    assert dense.passes == sparse.passes
    assert dense.coef == pytest.approx(sparse.coef, abs=1e-9)


def test_shrinking_reads_fewer_rows_on_the_way_to_the_same_optimum():
    X, y = problem(n=2000)
    lazy, eager = (train(X, y, tol=1e-5, options={"shrinking": on}) for on in (True, False))
    assert lazy.converged
    assert eager.converged
    assert lazy.certificate.primal == pytest.approx(eager.certificate.primal, rel=2e-5)
    rows_an_epoch = [result.state["rows_read"] / result.iterations for result in (lazy, eager)]
    assert rows_an_epoch[0] < 0.9 * rows_an_epoch[1]


def test_the_stopping_rule_of_liblinear_is_an_option():
    X, y = problem()
    loose, strict = (train(X, y, tol=1e-15, options={"violation_tol": tol}) for tol in (0.3, 1e-4))
    assert loose.status is solvers.Status.STOPPED
    assert strict.status is solvers.Status.STOPPED
    assert strict.certificate.gap < loose.certificate.gap


def test_rows_that_repeat_do_not_make_descent_slow():
    random = np.random.default_rng(7)
    table = 0.1 * random.standard_normal((40, 8))
    table[20:] = table[:20] + 1e-3 * random.standard_normal((20, 8))
    labels = random.integers(0, 4, size=40)
    arguments = {"C": 10.0, "bias_scale": 4.0}
    assert train(table, labels, max_passes=5000, **arguments).converged
    for limit in (50, 51, 60, 70):
        assert train(table, labels, **{**arguments, "tol": 1e-300}, max_passes=limit).passes <= limit


def test_a_state_starts_other_costs():
    X, y = problem()
    first = train(X, y)
    for cost in (0.45, 0.55):  # below, its dual point must be moved into the domain first
        cold, warm = (train(X, y, C=cost, tol=1e-4, warm_start=start) for start in (None, first.state))
        assert warm.converged
        assert warm.passes < cold.passes
        assert warm.certificate.primal == pytest.approx(cold.certificate.primal, rel=2e-4)


def test_what_is_no_state_of_this_problem_is_refused():
    X, y = problem()
    state = train(X, y).state
    with pytest.raises(solvers.InvalidOptions, match="crammer_singer on data with 290 rows x 6 features and 4 classes"):
        train(X[:290], y[:290], warm_start=state)
    state["alpha"][3, 0] = np.nan
    with pytest.raises(solvers.InvalidOptions, match="NaN or infinite"):
        train(X, y, warm_start=state)


def test_rows_that_overflow_when_squared_are_refused():
    X, y = problem(n=20)
    X[1, 2] = 1e200
    with pytest.raises(solvers.InvalidProblem, match=r"row 1 .*rescale X"):
        train(X, y)
