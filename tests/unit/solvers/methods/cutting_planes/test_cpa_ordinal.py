"""What is special to ordinal problems: pairs are counted, not looked at; Algorithm 2 as printed; its line search."""

import itertools

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp

import solvers
from solvers.certificates.ordinal import plane_at
from solvers.data.blocks import RowBlocks
from solvers.data.rows import as_rows
from solvers.method import Start
from solvers.methods.cutting_planes.cpa_ordinal import SEARCH_ACCURACY, OrdinalCuttingPlanes
from solvers.methods.cutting_planes.pair_counts import PairCounter
from solvers.problem.build import build_problem
from solvers.problem.labels import read_labels
from solvers.problem.problems import rank_thresholds
from solvers.problem.spec import resolve_spec


def problem_of(X, y, *, groups=None, sample_weight=None, C=1.0, c_scale="sum"):
    data, labels = as_rows(X), read_labels(y, "ordinal")
    setting = resolve_spec(
        n_rows=data.n_rows,
        n_features=data.n_features,
        n_classes=labels.n_classes,
        sparse=data.sparse,
        task="ordinal",
        strategy="ovr",
        loss="auto",
        p=None,
        C=C,
        c_scale=c_scale,
        bias="none",
        bias_scale=1.0,
        epsilon=0.1,
    )
    return build_problem(setting, data, labels, sample_weight=sample_weight, class_weight=None, groups=groups)


def pairs_of(y, groups, weights):
    """(higher rows, lower rows, s_i s_j) by looking at all pairs."""
    high, low = np.nonzero((y[:, None] > y) & (groups[:, None] == groups))
    return high, low, weights[high] * weights[low]


def medium(n=300, d=5, ranks=4, seed=0):
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d))
    noisy = X @ random.standard_normal(d) + random.standard_normal(n)
    return X, np.digitize(noisy, np.quantile(noisy, np.linspace(0.0, 1.0, ranks + 1)[1:-1]))


def train(X, y, **arguments):
    return solvers.train(
        X, y, **{"solver": "cpa_ordinal", "task": "ordinal", "c_scale": "mean", "C": 50.0, **arguments}
    )


@pytest.mark.parametrize("seed", range(60))
def test_counts_are_those_of_looking_at_every_pair(seed):
    random = np.random.default_rng(seed)
    n = int(random.integers(2, 70))
    ranks, group_count = random.choice([2, 3, 7, n]), random.choice([1, 2, 9, n])
    y = np.concatenate([[0.0, 1.0], random.integers(ranks, size=n - 2) / 4.0])
    groups = np.concatenate([[0, 0], random.integers(group_count, size=n - 2)])
    weights = np.concatenate([[1.0, 2.0], random.choice([0.0, 1.0, 2.0, 5.0], size=n - 2)])
    order = random.permutation(n)
    y, groups, weights = y[order], groups[order], weights[order]
    scores = random.choice([0.1, 1.0, 10.0]) * random.standard_normal(n)
    if seed % 2:
        scores = np.round(scores, 1)  # equal scores, and differences of 1 up to rounding
    problem = problem_of(scores[:, None], y, groups=groups, sample_weight=weights)

    high, low, costs = pairs_of(y, groups, weights)
    differences = scores[high] - scores[low]
    violated = np.where(differences < 1.0 - 1e-9, costs, 0.0)
    expected = np.bincount(high, violated, n) - np.bincount(low, violated, n)
    counts, beta, loss = PairCounter(problem).count(scores)
    assert (counts == expected).all()
    assert beta == violated.sum()
    assert loss == pytest.approx(costs @ np.maximum(0.0, 1.0 - differences), abs=1e-9)
    plane = plane_at(problem, np.ones(1), is_cut=True)
    assert plane.level == beta
    assert (plane.counts == counts).all()


def test_counts_with_any_weights_are_right_up_to_rounding():
    random = np.random.default_rng(1)
    n = 200
    y, groups, weights = random.integers(5, size=n), random.integers(3, size=n), random.random(n)
    scores = random.standard_normal(n)
    found = PairCounter(problem_of(scores[:, None], y, groups=groups, sample_weight=weights, C=3.0)).count(scores)
    high, low, costs = pairs_of(y, groups, weights)
    violated = np.where(scores[high] - scores[low] < 1.0, 3.0 * costs, 0.0)
    assert found.counts == pytest.approx(np.bincount(high, violated, n) - np.bincount(low, violated, n), rel=1e-12)
    assert found.beta == pytest.approx(violated.sum(), rel=1e-12)


def test_more_pairs_than_32_bits_can_number_are_counted_exactly():
    n = 200_000
    y = np.arange(n) % 2
    near, far = 30_000, n // 2 - 30_000
    scores = np.zeros(n)
    scores[1::2] = np.repeat([0.5, 3.0], [near, far])
    found = PairCounter(problem_of(np.zeros((n, 1)), y)).count(scores)
    assert found.beta == near * (n // 2) == 3_000_000_000
    assert found.loss == 0.5 * found.beta
    assert (found.counts[0::2] == -near).all()
    assert (found.counts[1::2] == np.repeat([n // 2, 0], [near, far])).all()

    all_different = PairCounter(problem_of(np.zeros((n, 1)), np.arange(n))).count(np.zeros(n))
    assert all_different.beta == n * (n - 1) // 2 == 19_999_900_000
    assert (all_different.counts == 2 * np.arange(n) - (n - 1)).all()


def test_ten_billion_pairs_are_trained_on():
    random = np.random.default_rng(0)
    n = 200_000
    y = np.arange(n) % 2
    X = (y + random.standard_normal(n))[:, None].astype(np.float32)
    result = train(X, y, C=10.0, tol=1e-4)
    assert result.converged
    assert result.certificate.primal < 10.0  # P(0) = C, whatever the number of pairs


def test_without_line_search_it_is_the_printed_algorithm():
    X, y = medium(n=60, d=4)
    C, reached = 50.0, []
    high, low, costs = pairs_of(y, np.zeros(y.size), np.ones(y.size))
    costs = C * costs / costs.sum()
    differences = X[high] - X[low]
    train(
        X,
        y,
        C=C,
        tol=1e-6,
        options={"line_search": False},
        callback=lambda report: reached.append(report.snapshot()["reached"]),
    )
    assert len(reached) > 10
    planes, w = [], np.zeros(4)
    for number in range(10):
        violated = np.where(differences @ w < 1.0, costs, 0.0)
        planes.append((differences.T @ violated, violated.sum()))
        w = least_with(planes)
        if number:  # the plane at zero is there before the first step
            assert reached[number - 1] == pytest.approx(w, rel=1e-5, abs=1e-6)


def least_with(planes):
    """argmin over w and xi >= 0 of 1/2 |w|^2 + xi with xi >= beta - a . w for every plane (a, beta)."""
    normals, levels = np.array([a for a, _ in planes]), np.array([beta for _, beta in planes])
    d = normals.shape[1]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    A = np.vstack([np.column_stack([-normals, -np.ones(levels.size)]), np.append(np.zeros(d), -1.0)])
    solution = clarabel.DefaultSolver(
        sp.diags_array(np.append(np.ones(d), 0.0), format="csc"),
        np.append(np.zeros(d), 1.0),
        sp.csc_array(A),
        np.append(-levels, 0.0),
        [clarabel.NonnegativeConeT(levels.size + 1)],
        settings,
    ).solve()
    return np.array(solution.x)[:d]


@pytest.mark.parametrize("seed", range(5))
def test_the_line_search_ends_near_the_lowest_point_of_its_line(seed):
    X, y = medium(n=80, seed=seed)
    problem = problem_of(X, y, C=200.0, c_scale="mean")
    method = OrdinalCuttingPlanes(problem, OrdinalCuttingPlanes.checked_options(None))
    state = method.init(0, Start())
    high, low, costs = pairs_of(y, np.zeros(y.size), np.ones(y.size))
    costs = 200.0 * costs / costs.sum()

    def primal(w):
        scores = X @ w
        return 0.5 * w @ w + costs @ np.maximum(0.0, 1.0 - (scores[high] - scores[low]))

    for _ in range(12):
        start, reached, bound = state.w, state.reached, state.bound
        method.step(state, 0.0)
        lowest = min(primal(start + share * (reached - start)) for share in np.linspace(0.0, 2.0, 401))
        allowed = SEARCH_ACCURACY * (primal(start) - bound)
        assert primal(state.w) <= lowest + allowed + 1e-9 * lowest
        assert primal(state.w) <= primal(start) * (1 + 1e-12)


def test_scores_carried_along_stay_those_of_the_weights():
    """At the optimum the way to the reduced solution is nothing but rounding, which must not be followed far."""
    for seed in range(40):
        X, y = medium(n=30, d=1, ranks=3, seed=seed)
        method = OrdinalCuttingPlanes(problem_of(X, y), OrdinalCuttingPlanes.checked_options(None))
        state = method.init(0, Start())
        for _ in range(40):
            method.step(state, 0.0)
        assert state.scores == pytest.approx(X @ state.w, rel=1e-13, abs=1e-13)


def test_the_line_search_saves_iterations_and_ends_at_the_same_optimum():
    X, y = medium()
    searched, plain = train(X, y, tol=1e-6), train(X, y, tol=1e-6, options={"line_search": False})
    assert searched.converged
    assert plain.converged
    assert searched.certificate.primal == pytest.approx(plain.certificate.primal, rel=2e-6)
    assert searched.iterations < 0.6 * plain.iterations


@pytest.mark.parametrize("line_search", [True, False])
def test_the_papers_stopping_rule_bounds_the_mean_loss(line_search):
    X, y = medium()
    result = train(X, y, C=50.0, tol=1e-12, options={"epsilon": 0.01, "line_search": line_search})
    assert result.status is solvers.Status.STOPPED
    assert result.certificate.gap <= 0.01 * 50.0
    assert result.certificate.gap > 1e-4 * 50.0


def test_a_state_goes_on_with_other_costs_and_starts_other_rows():
    X, y = medium(n=400, d=20)
    first = train(X, y, tol=1e-5)
    for C, rows in ((60.0, slice(None)), (50.0, slice(0, 390))):
        cold = train(X[rows], y[rows], C=C, tol=1e-5)
        warm = train(X[rows], y[rows], C=C, tol=1e-5, warm_start=first.state)
        assert warm.converged
        assert warm.certificate.primal == pytest.approx(cold.certificate.primal, rel=2e-5)
        assert warm.iterations < cold.iterations
    changed = X.copy()
    changed[:, 0] *= 2.0
    other = train(changed, y, tol=1e-5, warm_start=first.state)
    assert other.converged
    assert other.certificate.primal == pytest.approx(train(changed, y, tol=1e-5).certificate.primal, rel=2e-5)
    with pytest.raises(solvers.InvalidOptions, match="on data with 19 features"):
        train(X[:, 1:], y, warm_start=first.state)


def test_rows_of_a_group_need_not_be_adjacent():
    X, y = medium(n=120)
    groups = np.repeat(np.arange(12), 10)
    shuffled = np.random.default_rng(0).permutation(120)
    whole = train(X, y, groups=groups, tol=1e-7)
    mixed = train(X[shuffled], y[shuffled], groups=groups[shuffled].astype(str), tol=1e-7)
    assert mixed.coef == pytest.approx(whole.coef, abs=1e-3)
    assert mixed.certificate.primal == pytest.approx(whole.certificate.primal, rel=2e-7)


def test_rows_may_come_in_blocks():
    X, y = medium(n=120)
    whole, parts = train(X, y, tol=1e-7), train(RowBlocks([X[:50], X[50:51], X[51:]]), y, tol=1e-7)
    assert parts.converged
    assert parts.coef == pytest.approx(whole.coef, abs=1e-9)
    assert type(parts.certificate.gap) is float


def test_thresholds_make_the_fewest_rank_errors_of_all_thresholds():
    random = np.random.default_rng(3)
    for _ in range(20):
        n = 9
        y = np.concatenate([[0, 1, 2], random.integers(3, size=n - 3)])
        scores, weights = np.round(random.standard_normal(n), 1), random.integers(1, 4, size=n)
        problem = problem_of(scores[:, None], y, sample_weight=weights)
        cuts = np.concatenate([[scores.min() - 1.0], np.unique(scores)])

        def errors(thresholds, scores=scores, y=y, weights=weights):
            return np.abs((scores[:, None] > np.asarray(thresholds)).sum(axis=1) - y) @ weights

        fewest = min(errors(pair) for pair in itertools.combinations_with_replacement(cuts, 2))
        assert errors(rank_thresholds(problem, np.ones(1))) == fewest


def test_ranks_are_predicted_and_real_relevance_is_scored_only():
    X, y = medium(n=400, ranks=4)
    ranked = train(X, 10 * y, tol=1e-3)
    predicted = ranked.predict(X)
    assert set(predicted) <= {0, 10, 20, 30}
    assert np.abs(predicted - 10 * y).mean() < 0.6 * np.abs(np.median(10 * y) - 10 * y).mean()
    real = train(X, X[:, 0] + 0.01 * np.arange(400), tol=1e-3)
    assert real.thresholds is None
    assert np.corrcoef(real.decision_function(X), X[:, 0])[0, 1] > 0.5
    with pytest.raises(solvers.InvalidProblem, match="decision_function"):
        real.predict(X)
