"""What is special to the cutting-plane methods: planes, line searches, the paper's stopping rule, states."""

import numpy as np
import pytest
import scipy.sparse as sp

import solvers
from solvers import cost
from solvers.data.rows import as_rows
from solvers.method import Start
from solvers.methods.cutting_planes.cutting_planes import CuttingPlanesState
from solvers.methods.cutting_planes.oca_e import OptimizedCuttingPlanesExact
from solvers.methods.cutting_planes.oca_line_search import SMALLEST, BinaryLine, ClassLine, three_point_search
from solvers.methods.cutting_planes.risks import risk_of
from solvers.problem.build import build_problem
from solvers.problem.labels import read_labels
from solvers.problem.spec import resolve_spec

pytestmark = pytest.mark.slow


def problem(task="binary", loss="hinge", bias="regularized", n=80, d=6, k=4, seed=0):
    """Few distinct values, so that rows lie on each other's breakpoints, and some rows without cost."""
    random = np.random.default_rng(seed)
    X = np.round(random.standard_normal((n, d)), 1) * (random.random((n, d)) < 0.7)
    signal = X @ random.standard_normal(d) + random.standard_normal(n)
    y = signal > 0 if task == "binary" else np.digitize(signal, np.linspace(-1.5, 1.5, k - 1))
    setting = resolve_spec(
        n_rows=n,
        n_features=d,
        n_classes=2 if task == "binary" else k,
        sparse=False,
        task=task,
        strategy="crammer_singer",
        loss=loss,
        p=None,
        C=0.5,
        c_scale="sum",
        bias=bias,
        bias_scale=2.0,
        epsilon=0.1,
    )
    weights = random.choice([0.0, 0.5, 1.0, 3.0], size=n)
    labels = read_labels(y, task)
    return build_problem(setting, as_rows(X), labels, sample_weight=weights, class_weight=None, groups=None)


every_risk = pytest.mark.parametrize(
    ("task", "loss"), [("binary", "hinge"), ("binary", "squared_hinge"), ("multiclass", "hinge")]
)


@every_risk
@pytest.mark.parametrize("bias", ["none", "regularized"])
def test_a_plane_touches_the_loss_where_it_is_cut_and_lies_below_it_elsewhere(task, loss, bias):
    risk = risk_of(problem(task, loss, bias))
    random = np.random.default_rng(3)
    points = 0.5 * random.standard_normal((12, risk.n_weights))
    if bias == "none":
        points.reshape(-1, points.shape[1] // (4 if task == "multiclass" else 1))[:, -1] = 0.0
    scores = [risk.empty_scores() for _ in points]
    for weights, out in zip(points, scores, strict=True):
        risk.find_scores(weights, out)
    losses = np.array([risk.loss(each) for each in scores])
    last = None
    for k in range(len(points)):
        cut = risk.cut(scores[k], scores[k], 0.0, last)
        values = cut.level - points @ cut.normal
        # Marks of the squared hinge are rounded to float32, which costs the plane its second order only.
        assert values[k] == pytest.approx(losses[k], rel=1e-12)
        assert (values <= losses * (1 + 1e-12)).all()
        from_scratch = risk.cut(scores[k], scores[k], 0.0, None)
        assert cut.normal == pytest.approx(from_scratch.normal, abs=1e-12)
        assert cut.rows_read <= from_scratch.rows_read
        last = cut
    between = risk.cut(scores[0], scores[1], 0.3, None)
    middle = risk.empty_scores()
    risk.find_scores(0.7 * points[0] + 0.3 * points[1], middle)
    assert between.level == pytest.approx(risk.cut(middle, middle, 0.0, None).level, rel=1e-12)


def line_between(task, seed):
    """(line, f): a line of random scores, and its objective from the definition, up to the line's constant."""
    random = np.random.default_rng(seed)
    stated = problem(task, seed=seed, n=int(random.integers(2, 60)), k=int(random.integers(3, 6)))
    risk = risk_of(stated)
    start, end = (np.round(random.standard_normal(risk.empty_scores().shape), 1) for _ in range(2))
    square, slope = float(random.choice([1e-3, 0.3, 20.0])), float(random.normal(scale=3.0))
    line = (BinaryLine if task == "binary" else ClassLine)(stated, start, end, square, slope)

    def f(mu):
        return 0.5 * square * mu**2 + slope * mu + risk.loss(start + mu * (end - start))

    return line, f


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_the_exact_search_finds_the_minimum_whatever_it_is_told_to_expect(task):
    seen_zero = seen_positive = 0
    for seed in range(150):
        line, f = line_between(task, seed)
        found = line.minimum(1.0)
        assert found >= 0.0
        scale = max(1.0, abs(f(found)))
        for mu in np.concatenate([[0.0], found * np.array([0.5, 0.99, 1.01, 2.0]), np.geomspace(1e-4, 1e4, 60)]):
            assert f(found) <= f(mu) + 1e-12 * max(scale, abs(f(mu)))
        for guess in (1e-6, 0.3, 50.0, 1e6):
            assert f(line.minimum(guess)) <= f(found) + 1e-12 * scale
        seen_zero += found == 0.0
        seen_positive += found > 0.0
    assert min(seen_zero, seen_positive) >= 10


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_the_three_points_end_around_a_lower_middle(task):
    for seed in range(60):
        line, f = line_between(task, seed)
        found = three_point_search(line, [0.0, 0.2, 1.0, 30.0][seed % 4])
        assert found >= SMALLEST
        exact = line.minimum(1.0)
        if exact > SMALLEST:
            # The middle of a window that holds the minimum, and windows grow with the distance they came.
            assert f(found) <= max(f(SMALLEST), f(100.0)) + 1e-9
        assert line.values(found)[0] == pytest.approx(f(found), rel=1e-12, abs=1e-12)


def test_a_plateau_ends_the_three_point_search():
    stated = problem()
    margins = np.full(stated.data.n_rows, 5.0)
    line = BinaryLine(stated, margins, margins, 0.0, 0.0)
    assert three_point_search(line, 0.7) == 0.7


@every_risk
def test_the_dual_point_of_the_planes_proves_at_least_their_bound(task, loss):
    X, y = training_rows(task)
    solver = "bmrm" if loss == "squared_hinge" else "oca_e"
    seen = []

    def note(report):
        if report.iterations == 6:
            seen.append((report.dual_bound, report.snapshot()))
        return report.iterations == 6

    solvers.train(X, y, solver=solver, loss=loss, strategy="crammer_singer", bias="none", callback=note, tol=1e-12)
    bound, state = seen[0]
    bundle = CuttingPlanesState.restored(state, solver).bundle
    planes = bundle.active()
    stated = build_problem(
        resolve_spec(
            n_rows=len(y),
            n_features=X.shape[1],
            n_classes=len(np.unique(y)),
            sparse=False,
            task=task,
            strategy="crammer_singer",
            loss=loss,
            p=None,
            C=1.0,
            c_scale="sum",
            bias="none",
            bias_scale=1.0,
            epsilon=0.1,
        ),
        as_rows(X),
        read_labels(y, task),
        sample_weight=None,
        class_weight=None,
        groups=None,
    )
    alpha = risk_of(stated).dual_point(bundle.attached, planes, bundle.multipliers[planes])
    if task == "multiclass":
        assert alpha.sum(axis=1) == pytest.approx(0.0, abs=1e-12)
        codes = np.searchsorted(np.unique(y), y)
        own = alpha[np.arange(len(y)), codes]
        assert (own <= 1.0 + 1e-12).all()
        value = own.sum() - 0.5 * ((alpha.T @ X) ** 2).sum()
    else:
        assert (alpha >= 0.0).all()
        w = X.T @ (alpha * np.where(y, 1.0, -1.0))
        value = alpha.sum() - (0.25 * (alpha**2).sum() if loss == "squared_hinge" else 0.0) - 0.5 * w @ w
    assert value >= bound * (1 - 1e-12)
    if loss == "hinge":
        assert value == pytest.approx(bound, rel=1e-10)


def training_rows(task="binary", n=200, d=6, seed=0):
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d))
    signal = X @ random.standard_normal(d) + random.standard_normal(n)
    return X, signal > 0 if task == "binary" else np.digitize(signal, [-1.0, 0.5])


@pytest.mark.parametrize("epsilon", [0.1, 0.01])
def test_cpa_stops_by_the_papers_rule_on_the_mean_loss(epsilon):
    X, y = training_rows()
    arguments = {"solver": "cpa", "C": 50.0, "c_scale": "mean", "bias": "none", "tol": 1e-9}
    stopped = solvers.train(X, y, options={"epsilon": epsilon}, **arguments)
    assert stopped.status is solvers.Status.STOPPED
    certified = solvers.train(X, y, **arguments)
    assert certified.converged
    assert stopped.iterations < certified.iterations
    # Joachims (2006), Theorem 3: the planes' optimum is below the true one; with epsilon more loss it is feasible.
    assert stopped.certificate.gap <= 50.0 * epsilon
    assert certified.certificate.primal >= stopped.certificate.dual_bound


def test_planes_are_cut_where_the_option_says():
    X, y = training_rows()
    results = {
        share: solvers.train(X, y, solver="oca_e", tol=1e-6, options={"cutting_share": share}) for share in (0.1, 1.0)
    }
    assert all(result.converged for result in results.values())
    assert results[0.1].coef.tobytes() != results[1.0].coef.tobytes()
    with pytest.raises(solvers.InvalidOptions, match=r"options\.cutting_share"):
        solvers.train(X, y, solver="oca_t", options={"cutting_share": 0.0})


@pytest.mark.parametrize(("solver", "task"), [("cpa", "binary"), ("oca_t", "binary"), ("oca_e", "multiclass")])
def test_a_state_starts_other_costs_and_other_rows_from_its_weights(solver, task):
    X, y = training_rows(task)
    arguments = {"solver": solver, "strategy": "crammer_singer", "tol": 1e-6}
    first = solvers.train(X, y, **arguments)
    for rows, C in ((slice(None), 1.1), (slice(0, 190), 1.0)):
        cold = solvers.train(X[rows], y[rows], C=C, **arguments)
        warm = solvers.train(X[rows], y[rows], C=C, warm_start=first.state, **arguments)
        assert warm.converged
        assert warm.certificate.primal == pytest.approx(cold.certificate.primal, rel=2e-6)
    with pytest.raises(solvers.InvalidOptions, match="not a state of"):
        solvers.train(X[:, :4], y, warm_start=first.state, **arguments)


def test_the_exact_search_stands_still_where_every_step_is_uphill_and_still_arrives():
    """Zero weights are optimal among all that the first planes propose, as on the poker hands of Arnosti (2011)."""
    random = np.random.default_rng(4)
    X = random.integers(1, 14, (400, 5)).astype(float)
    y = random.choice(4, size=400, p=[0.5, 0.4, 0.07, 0.03])
    arguments = {"strategy": "crammer_singer", "bias": "none", "tol": 1e-2, "max_passes": 20_000}
    exact, inexact = (solvers.train(X, y, solver=solver, **arguments) for solver in ("oca_e", "oca_t"))
    assert exact.converged
    assert inexact.converged
    assert exact.state["standstills"] >= 3
    assert inexact.state["standstills"] == 0


def test_more_classes_than_a_byte_can_count():
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(300), 2)
    X = random.standard_normal((300, 40))[y] + 0.1 * random.standard_normal((600, 40))
    result = solvers.train(X, y, solver="oca_e", strategy="crammer_singer", max_passes=20)
    assert result.state["bundle.attached"].dtype == np.int32
    assert result.state["bundle.attached"].max() > 255
    assert 0.0 < result.certificate.dual_bound <= result.certificate.primal < 600.0
    assert (result.predict(X) == y).mean() > 0.9


def test_the_time_of_the_search_is_kept_beside_the_state_and_changes_no_bit():
    X, y = training_rows()
    first, second = (solvers.train(X, y, solver="oca_e", tol=1e-4) for _ in range(2))
    assert 0.0 < first.state["search_seconds"] < first.seconds
    for name, value in first.state.items():
        if not name.endswith("seconds"):
            assert np.array_equal(value, second.state[name]), name


def test_weights_as_a_start_are_cut_at_once():
    stated = problem()
    method = OptimizedCuttingPlanesExact(stated, {"cutting_share": 0.1})
    coef = np.linspace(-1.0, 1.0, 6)
    state = method.init(0, Start(coef=coef, intercept=0.5))
    assert state.weights == pytest.approx([*coef, 0.25])
    assert state.bundle.count == 3


@pytest.mark.parametrize(("solver", "task"), [("cpa", "binary"), ("bmrm", "binary"), ("oca_t", "multiclass")])
@pytest.mark.parametrize("scale", [1e160, 1e-160])
def test_values_whose_squares_leave_the_range_of_floats_end_with_a_name(solver, task, scale):
    X, y = training_rows(task)
    result = solvers.train(scale * X, y, solver=solver, strategy="crammer_singer", max_passes=200)
    assert result.status is (solvers.Status.NONFINITE if scale > 1.0 else solvers.Status.CONVERGED)
    assert np.isfinite(result.coef).all()


def test_a_bound_that_is_exact_to_the_last_digit_does_not_end_the_reduced_problem():
    """Repeated rows of two classes: the last plane lifts the bound by 1e-14 only, but the objective falls by 4e-5."""
    repeated = [0.731855972, 0.0, -2.03809385]
    rows = [[0.0, 0.0450620047, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.00514787687], repeated, repeated]
    rows += [[0.0, -5.38254068, 0.0], [0.0, 0.0, 0.0], [-2.67512461, -3.78543772, 0.0], repeated]
    rows += [[0.0, -6.54736251, 0.0], repeated, repeated, repeated]
    result = solvers.train(
        np.array(rows),
        [1, 0, 0, 2, 2, 0, 1, 0, 2, 0, 3, 3, 3],
        solver="oca_e",
        strategy="crammer_singer",
        C=130.0,
        c_scale="mean",
        bias="none",
        class_weight="balanced",
        sample_weight=[1.0, 1.0, 0.5, 0.5, 0.5, 1.0, 0.0, 0.0, 0.5, 0.5, 3.0, 3.0, 0.0],
        tol=2e-7,
    )
    assert result.converged


def test_fifty_three_classes_are_trained_jointly_to_one_optimum():
    random = np.random.default_rng(7)
    labels = np.arange(530) % 53
    X = random.standard_normal((53, 20))[labels] + random.standard_normal((530, 20))
    results = [
        solvers.train(X, labels, solver=solver, strategy="crammer_singer", C=0.1, tol=1e-4)
        for solver in ("oca_e", "oca_t", "crammer_singer")
    ]
    for result in results:
        assert result.converged
        assert result.coef.shape == (53, 20)
        for other in results:
            assert result.certificate.dual_bound <= other.certificate.primal


def wide_rows(n=60, d=900, seed=5):
    """Rows like texts: far fewer than columns, few entries each."""
    random = np.random.default_rng(seed)
    X = sp.random_array((n, d), density=0.02, rng=random, format="csr")
    X.data[:] = np.abs(X.data) + 0.1
    return X, X @ random.standard_normal(d) + 0.3 * random.standard_normal(n)


FORMS = [
    ("oca_e", "binary", "hinge"),
    ("oca_t", "binary", "hinge"),
    ("oca_t", "multiclass", "hinge"),
    ("cpa", "binary", "hinge"),
    ("bmrm", "binary", "squared_hinge"),
]


@pytest.mark.parametrize(("solver", "task", "loss"), FORMS)
@pytest.mark.parametrize(("C", "tol"), [(1.0, 1e-7), (1e3, 1e-6)])
def test_planes_kept_by_scores_are_the_planes_kept_by_normals(monkeypatch, solver, task, loss, C, tol):
    """Two ways to compute the same iterates: as many of them, to the same optimum and as good a certificate."""
    X, signal = wide_rows()
    y = signal > 0 if task == "binary" else np.digitize(signal, [-0.5, 0.5])
    setting = {"solver": solver, "task": task, "loss": loss, "C": C, "tol": tol, "max_seconds": None}
    if task == "multiclass":
        setting["strategy"] = "crammer_singer"
    by_scores = solvers.train(X, y, **setting)
    monkeypatch.setattr(cost, "WORTH_A_READ", 0)
    by_normals = solvers.train(X, y, **setting)
    widths = [result.state["bundle.vectors"].shape[1] for result in (by_scores, by_normals)]
    assert widths == [60 * (3 if task == "multiclass" else 1), 901 * (3 if task == "multiclass" else 1)]
    assert by_scores.converged
    assert by_normals.converged
    assert abs(by_scores.iterations - by_normals.iterations) <= 0.1 * by_normals.iterations + 2
    scale = by_normals.certificate.primal
    assert abs(by_scores.certificate.primal - scale) <= 2 * tol * scale
    assert by_scores.certificate.relative_gap <= tol


@pytest.mark.parametrize(("solver", "task", "loss"), FORMS)
def test_the_scores_of_a_plane_and_its_dual_point_multiply_like_normals(solver, task, loss):
    given = problem(task, loss)
    risk = risk_of(given)
    random = np.random.default_rng(9)
    normals, scores, duals = [], [], []
    for _ in range(4):
        at = risk.empty_scores()
        risk.find_scores(random.standard_normal(risk.n_weights), at)
        cut = risk.cut(at, at, 0.0, None)
        normals.append(cut.normal)
        scores.append(risk.empty_scores())
        risk.find_scores(cut.normal, scores[-1])
        duals.append(risk.dual_point(cut.marks[None], np.zeros(1, dtype=np.intp), np.ones(1)))
        np.testing.assert_allclose(risk.combine(duals[-1]), cut.normal, rtol=1e-12, atol=1e-12)
    expected = np.array(normals) @ np.array(normals).T
    found = np.array([[float((dual * at).sum()) for at in scores] for dual in duals])
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())


def test_a_state_whose_planes_are_kept_otherwise_starts_from_its_weights(monkeypatch):
    X, signal = wide_rows()
    first = solvers.train(X, signal > 0, solver="oca_e", tol=1e-3)
    monkeypatch.setattr(cost, "WORTH_A_READ", 0)
    second = solvers.train(X, signal > 0, solver="oca_e", tol=1e-6, warm_start=first.state)
    assert second.converged
    assert second.state["bundle.vectors"].shape[1] == 901
