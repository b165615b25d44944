"""What is special to svm1d, project and local: exactness on a line, the best kept, and trials that are left out."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given

import solvers
from solvers.methods.projections import local
from solvers.methods.projections.line_problem import Line
from tests.support.solver_problems import cases, examples
from tests.support.solver_reference import reference_interval

every_loss = pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
every_storage = pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
EXPONENTS = {"hinge": 1.0, "squared_hinge": 2.0}


def table(n=200, d=6, density=1.0, seed=2):
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d)) * (random.random((n, d)) < density)
    return X, np.where(X @ random.standard_normal(d) + random.standard_normal(n) > 0, 1.0, -1.0)


def value_at(X, y, w, b, p, C=1.0):
    return 0.5 * w @ w + C * (np.maximum(0.0, 1.0 - y * (X @ w + b)) ** p).sum()


@every_loss
def test_svm1d_solves_problems_of_one_feature(loss):
    @examples(60)
    @given(case=cases(loss=loss, bias="free", c_scale="sum"))
    def check(case):
        definition = {**case.definition, "strategy": "ovr"}
        column = case.X[:, :1]
        result = solvers.train(column, case.labels, solver="svm1d", tol=1e-9, **definition)
        assert result.converged, result.certificate
        assert result.certificate.method == "dual point"
        one_feature = type(case)(column, case.labels, case.definition)
        interval = reference_interval(one_feature.dense())
        tolerance = 1e-8 * max(interval.high, 1e-6)
        assert interval.low - tolerance <= result.certificate.primal <= interval.high + tolerance
        assert result.passes <= 2

    check()


@every_loss
@pytest.mark.parametrize("direction", ["mean_difference", "first_feature", "random"])
def test_svm1d_is_the_best_multiple_of_its_direction(loss, direction):
    X, y = table()
    result = solvers.train(
        X, y, solver="svm1d", loss=loss, bias="free", seed=3, tol=1e-6, options={"direction": direction}
    )
    assert result.status is solvers.Status.STALLED
    expected = {
        "mean_difference": X[y > 0].mean(axis=0) - X[y < 0].mean(axis=0),
        "first_feature": np.eye(6)[0],
        "random": np.random.default_rng(3).standard_normal(6),
    }[direction]
    cosine = result.coef @ expected / np.linalg.norm(result.coef) / np.linalg.norm(expected)
    assert abs(cosine) == pytest.approx(1.0, rel=1e-12)
    p = EXPONENTS[loss]
    best = value_at(X, y, result.coef, result.intercept, p)
    assert result.certificate.primal == pytest.approx(best, rel=1e-12)
    for factor in (0.9, 0.999, 1.001, 1.1):
        for shift in (-0.01, -1e-4, 0.0, 1e-4, 0.01):
            assert best <= value_at(X, y, factor * result.coef, result.intercept + shift, p) * (1 + 1e-12)


def test_svm1d_takes_its_direction_from_given_weights():
    X, y = table()
    weights = np.arange(1.0, 7.0)
    result = solvers.train(X, y, solver="svm1d", bias="free", warm_start=weights)
    assert np.abs(np.cross(result.coef[:3], weights[:3])).max() <= 1e-12
    assert result.passes == 1


@every_loss
@every_storage
def test_project_keeps_the_best_of_its_directions(loss, storage):
    X, y = table(n=60, density=0.6)
    result = solvers.train(
        storage(X), y, solver="project", loss=loss, bias="free", seed=4, max_passes=5, options={"directions": 3}
    )
    assert (result.passes, result.iterations) == (5, 15)
    line = Line(y, np.ones(y.size), is_squared=loss == "squared_hinge")
    optima = []
    for batch in range(5):
        drawn = np.random.default_rng([4, 3 * batch]).standard_normal((6, 3))
        optima += [line.solve(X @ direction, direction @ direction).value for direction in drawn.T]
    assert result.certificate.primal == pytest.approx(min(optima), rel=1e-12)
    assert result.state["tried_at_best"] == 1 + int(np.argmin(optima))


def test_project_says_stalled_when_its_patience_is_over():
    X, y = table()
    result = solvers.train(X, y, solver="project", bias="free", tol=1e-12, options={"patience": 40})
    assert result.status is solvers.Status.STALLED
    assert 40 <= result.iterations - result.state["tried_at_best"] < 48


def printed_local_search(X, y, p, phases):
    """Algorithm 3 as printed, one trial after another, without anything that saves work."""
    line, d = Line(y, np.ones(y.size), is_squared=p == 2.0), X.shape[1]
    w, l_min, l_last = np.zeros(d), np.inf, 0.0
    t, curr, thres, no_decrease = 1.0, 2.0, 1.1, False
    path = []
    for _ in range(phases):
        for j in range(d):
            for sign in (1.0, -1.0):
                trial = w.copy()
                trial[j] += sign * t
                optimum = line.solve(X @ trial, trial @ trial) if trial.any() else None
                if optimum is not None and optimum.value < l_min * (1 - 1e-13):
                    w, l_min = optimum.slope * trial, optimum.value
                    break
        path.append((t, l_min))
        if l_last < l_min * thres:
            if no_decrease:
                thres, curr = 1.0 + (thres - 1.0) / 16.0, 0.5
            else:
                curr = 1.0 / curr
            no_decrease = True
        else:
            no_decrease = False
        t, l_last = t * curr, l_min
    return path


@every_loss
@every_storage
def test_local_walks_the_printed_way(loss, storage, monkeypatch):
    X, y = table(n=80, d=5, density=0.7)
    path, original = [], local.LocalSearch._end_phase

    def recording(self, state):
        path.append((state.phase.t, state.value))
        return original(self, state)

    monkeypatch.setattr(local.LocalSearch, "_end_phase", recording)
    arguments = {"solver": "local", "loss": loss, "bias": "free", "tol": 1e-12}
    solvers.train(storage(X), y, **arguments, callback=lambda report: len(path) >= 20)
    printed = printed_local_search(X, y, EXPONENTS[loss], phases=20)
    assert [t for t, _ in path[:20]] == [t for t, _ in printed]
    assert [value for _, value in path[:20]] == pytest.approx([value for _, value in printed], rel=1e-9)


@every_loss
def test_trials_that_local_leaves_out_could_not_have_helped(loss, monkeypatch):
    X, y = table(n=120, d=8, density=0.5)
    line = Line(y, np.ones(y.size), is_squared=loss == "squared_hinge")
    left_out = []

    def judged(report):
        state = report.snapshot()
        w, z, norm = state["w_scale"] * state["w"], state["z"], state["squared_norm"]
        for j in range(8):
            g = X[:, j] @ state["pull"]
            for change in (state["phase.t"], -state["phase.t"]):
                turned = norm + change * (2.0 * w[j] + change)
                if (norm + change * g) ** 2 <= norm * turned:
                    optimum = line.solve(z + change * X[:, j], turned)
                    left_out.append(optimum.value - state["value"] * (1 - 1e-10))

    solvers.train(X, y, solver="local", loss=loss, bias="free", tol=1e-12, max_passes=40, callback=judged)
    assert len(left_out) > 100
    assert min(left_out) >= 0.0


@every_loss
@every_storage
def test_local_keeps_scores_norm_and_value_true_to_its_weights(loss, storage):
    X, y = table(n=300, d=12, density=0.5)
    result = solvers.train(storage(X), y, solver="local", loss=loss, bias="free", C=3.0, tol=1e-12)
    state = result.state
    w = state["w_scale"] * state["w"]
    assert np.abs(state["z"] - X @ w).max() <= 1e-11
    assert state["squared_norm"] == pytest.approx(w @ w, rel=1e-11)
    value = value_at(X, y, w, state["intercept"], EXPONENTS[loss], C=3.0)
    assert state["value"] == pytest.approx(value, rel=1e-11)


def test_local_ends_near_the_optimum_of_a_smooth_problem_and_stalls_above_that_of_hinge():
    X, y = table(n=500, d=10)
    smooth = solvers.train(X, y, solver="local", loss="squared_hinge", bias="free", tol=1e-6)
    assert smooth.converged
    kinked = solvers.train(X, y, solver="local", loss="hinge", bias="free", tol=1e-9)
    assert kinked.status is solvers.Status.STALLED
    assert kinked.certificate.relative_gap < 0.01


def test_local_finds_a_way_from_the_origin_where_no_coordinate_alone_helps():
    random = np.random.default_rng(6)
    X = random.standard_normal((600, 12))
    y = np.where(X.sum(axis=1) > 1.5 * np.sqrt(12.0), 1.0, -1.0)
    line = Line(y, np.ones(y.size), is_squared=False)
    assert all(line.solve(X[:, j], 1.0).slope == 0.0 for j in range(12))
    result = solvers.train(X, y, solver="local", bias="free", tol=1e-3)
    assert result.certificate.primal < 0.5 * 2.0 * (y > 0).sum()
    assert (result.predict(X) == y).mean() > 0.98


def test_local_makes_one_copy_of_the_columns(monkeypatch):
    made = []

    def counting(data, multipliers, *, constant):
        made.append(original(data, multipliers, constant=constant))
        return made[-1]

    original = local.transposed
    monkeypatch.setattr(local, "transposed", counting)
    X, y = table()
    solvers.train(X, y, solver="local", loss="squared_hinge", bias="free", tol=1e-3)
    assert len(made) == 1


@every_loss
@every_storage
def test_project_finds_the_same_with_any_number_of_threads(loss, storage):
    X, y = table()
    arguments = {"solver": "project", "loss": loss, "bias": "free", "max_passes": 12, "options": {"directions": 7}}
    one, three = (solvers.train(storage(X), y, threads=threads, **arguments) for threads in (1, 3))
    assert one.coef.tobytes() == three.coef.tobytes()
    assert one.certificate == three.certificate
    assert (one.threads, three.threads) == (1, 3)
