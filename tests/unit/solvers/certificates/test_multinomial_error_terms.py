"""The evaluation of the joint logistic problem against its formula, in coarse arithmetic."""

import numpy as np
import pytest

from solvers.certificates import multinomial
from solvers.certificates.circulation import balanced_shares
from solvers.certificates.multinomial import certify_multinomial
from solvers.data.rows import as_rows
from solvers.problem.build import build_problem
from solvers.problem.labels import read_labels
from solvers.problem.spec import resolve_spec
from tests.support.coarse import (
    LEAST,
    UNIT,
    assert_evaluation,
    joint_evaluation,
    make_coarse,
    part,
    precision,
    size_of_scores,
)

N, D, K, BIAS_SCALE = 17, 3, 4, 1.7
RANDOM = np.random.default_rng(11)
X = RANDOM.standard_normal((N, D))
COSTS = RANDOM.uniform(0.2, 3.0, N)
CODES = np.arange(N) % K
OWN = np.arange(N), CODES
COEF, BIAS = RANDOM.standard_normal((K, D)), RANDOM.standard_normal(K)
LIBRARY = 2.0**-8


def built(bias="none", costs=COSTS):
    labels = read_labels(CODES, "multiclass")
    spec = resolve_spec(
        n_rows=N, n_features=D, n_classes=K, sparse=False, task="multiclass", strategy="multinomial",
        loss="logistic", p=None, C=1.0, c_scale="sum", bias=bias, bias_scale=BIAS_SCALE, epsilon=0.1,
    )  # fmt: skip
    return build_problem(spec, as_rows(X), labels, sample_weight=costs, class_weight=None)


def shares_within(costs, part_of_costs=0.6):
    shares = RANDOM.uniform(0.05, 1.0, (N, K))
    shares[OWN] = 0.0
    return shares * (part_of_costs * costs / shares.sum(axis=1))[:, None]


def losses_of(apart):
    """log sum exp, and the error of its computation."""
    top = apart.max(axis=1)
    small = np.exp(apart - top[:, None])
    small[np.arange(N), apart.argmax(axis=1)] = 0.0
    others = small.sum(axis=1)
    of_others = ((top[:, None] - apart + K) * small).sum(axis=1) * 2.0 * UNIT + 2.0 * LIBRARY * others + K * LEAST
    value = top + np.log1p(others)
    return value, 2.0 * (of_others + LIBRARY * np.log1p(others) + UNIT * value)


def entropies_of(shares, costs):
    others = shares / costs[:, None]
    own = 1.0 - others.sum(axis=1)
    logarithms = np.log(np.where(others > 0.0, others, 1.0))
    value = -(others * logarithms).sum(axis=1) - own * np.log(own)
    doubt = part(K + 8)
    error = (others * (1.0 - logarithms)).sum(axis=1) * (4.0 * UNIT + LIBRARY)
    error += 3.0 * doubt * (2.0 - np.log(np.maximum(own, doubt))) + (LIBRARY + part(K + 8)) * value
    return costs * value, 2.0 * costs * error


def expected(problem, shares, bias, is_compensated):
    given, costs = precision(is_compensated), problem.costs
    scores = X @ COEF.T + bias
    apart = scores - scores[OWN][:, None]
    sizes = np.max([size_of_scores(X, one, is_compensated) for one in COEF], axis=0)
    errors = (given.slack + 4.0 * UNIT) * np.abs(apart)
    errors += 2.0 * (given.scores * (sizes + np.abs(bias).max()) + given.underflow)[:, None] * (1.0 + 4.0 * UNIT)
    errors[OWN] = 0.0
    losses = losses_of(apart)[0]
    most = np.sum(losses_of(apart + errors), axis=0)
    least = np.maximum(np.subtract(*losses_of(apart - errors)), 0.0)
    entropies, of_entropies = entropies_of(shares, costs)
    signed = -shares
    signed[OWN] = shares.sum(axis=1)
    pulled = (shares * apart).sum(axis=1)
    terms = np.maximum(costs * most - entropies - pulled, 0.0)
    terms += part(K + 16) * (costs * most + entropies + (shares * np.abs(apart)).sum(axis=1)) + of_entropies
    terms += (shares * errors).sum(axis=1) * (1.0 + part(K + 16))
    underflow, more = (D + 4 * N) * K * LEAST * (1.0 + costs.max()), part(K + 32)
    sums = {
        "losses": losses,
        "most": most,
        "least": least,
        "terms": terms.sum(),
        "nominal_terms": np.maximum(costs * losses - entropies - pulled, 0.0).sum(),
        "linear": entropies.sum() * (1.0 - more) - of_entropies.sum() * (1.0 + more) - underflow,
        "underflow": underflow,
    }
    return joint_evaluation(problem, X, COEF, bias, signed, sums, is_compensated)


@pytest.mark.parametrize("is_compensated", [False, True])
@pytest.mark.parametrize("bias", ["regularized", "none"])
def test_the_evaluation_of_joint_probabilities_counts_every_error(monkeypatch, bias, is_compensated):
    make_coarse(monkeypatch)
    monkeypatch.setattr(multinomial, "LIBRARY", LIBRARY)
    problem = built(bias)
    intercept = BIAS if bias == "regularized" else np.zeros(K)
    shares = shares_within(problem.costs)
    given = -shares
    given[OWN] = 5.0  # what the own class is given does not count
    found = multinomial._evaluate(problem, COEF, intercept, given, is_compensated)
    assert_evaluation(found, expected(problem, shares, intercept, is_compensated), floor=1e-12)


def test_without_a_dual_point_the_probabilities_of_the_scores_are_taken():
    problem = built("regularized")
    scores = X @ COEF.T + BIAS
    odds = np.exp(scores - scores.max(axis=1)[:, None])
    given = -problem.costs[:, None] * odds / odds.sum(axis=1)[:, None]
    found, again = certify_multinomial(problem, COEF, BIAS, None), certify_multinomial(problem, COEF, BIAS, given)
    assert found.method == "dual point from the margins"
    assert again.method == "dual point"
    assert found.primal == again.primal
    assert found.gap == pytest.approx(again.gap, rel=1e-12)
    # The rows add nothing to the gap of these probabilities: it is the distance of the weights.
    given[OWN] = 0.0
    signed = given.copy()
    signed[OWN] = -given.sum(axis=1)
    apart = COEF - signed.T @ X
    of_bias = BIAS / BIAS_SCALE - BIAS_SCALE * signed.sum(axis=0)
    distance = 0.5 * (apart**2).sum() + 0.5 * (of_bias**2).sum()
    for is_compensated in (False, True):
        assert multinomial._evaluate(problem, COEF, BIAS, None, is_compensated).gap == pytest.approx(distance, rel=1e-9)
    assert found.gap <= distance  # a multiple of the dual point is better


def test_a_free_bias_gets_a_balanced_dual_point():
    problem = built("free")
    shares = shares_within(problem.costs)
    scores = X @ COEF.T + BIAS
    apart = scores - scores[OWN][:, None]
    balanced = balanced_shares(problem, shares, apart)
    found = certify_multinomial(problem, COEF, BIAS, -shares)
    assert found == certify_multinomial(problem, COEF, BIAS, -balanced)
    assert found.dual_bound > 0.0


def test_rows_of_hardly_any_cost_have_no_entropy():
    costs = COSTS.copy()
    costs[4], costs[5], costs[6] = 0.0, 1e-291, 1e-289
    problem = built(costs=costs)
    shares = np.zeros((N, K))
    shares[6, 0] = 3e-290
    found = multinomial._entropies(problem, shares)
    assert found.value[[4, 5]].tolist() == found.error[[4, 5]].tolist() == [0.0, 0.0]
    p = 0.3
    assert found.value[6] == pytest.approx(-1e-289 * (p * np.log(p) + (1.0 - p) * np.log(1.0 - p)), rel=1e-9)


def test_shares_that_are_subnormal_have_no_entropy():
    problem = built(costs=np.ones(N))
    shares = np.zeros((N, K))
    shares[1, 0], shares[2, 0] = 1e-289, 1e-291
    found = multinomial._entropies(problem, shares)
    assert found.value[1] == pytest.approx(1e-289 * 289.0 * np.log(10.0), rel=1e-9)
    assert found.value[2] == 0.0


@pytest.mark.parametrize("scale", [1.0, 30.0, 800.0])
def test_losses_far_apart_do_not_overflow(scale):
    problem = built()
    found = certify_multinomial(problem, scale * COEF, 0.0, None)
    scores = scale * X @ COEF.T
    losses = np.logaddexp.reduce(scores - scores[OWN][:, None], axis=1)
    primal = 0.5 * scale**2 * (COEF**2).sum() + problem.costs @ losses
    assert found.primal == pytest.approx(primal, rel=1e-12)
    assert found.primal >= primal * (1.0 - 1e-14)


def test_scores_that_overflow_prove_nothing():
    problem = built()
    with np.errstate(all="ignore"):
        found = certify_multinomial(problem, np.full((K, D), np.finfo(float).max) * np.arange(K)[:, None], 0.0, None)
    assert found.dual_bound is None or found.dual_bound <= 0.0
    assert not np.isfinite(found.primal)
