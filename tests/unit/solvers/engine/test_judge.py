"""The judge with scripted certificates: what it keeps, what it says of the run, and when it certifies again."""

import math

import numpy as np
import pytest

from solvers.certificates import certify, minimising_bias
from solvers.certificates.multiclass import balanced_dual_point
from solvers.data.rows import as_rows
from solvers.engine import judge as judge_module
from solvers.engine.judge import NEAR, REFINED, Judge, certify_weights, with_best_bias, zero_point
from solvers.engine.limits import Limits
from solvers.method import Planes, Point, Progress
from solvers.problem.build import build_problem
from solvers.problem.labels import read_labels
from solvers.problem.spec import resolve_spec
from solvers.result import Certificate, Status

RANDOM = np.random.default_rng(4)
X = RANDOM.standard_normal((20, 3))
SIGNS, WORDS, TARGETS = np.arange(20) % 2, np.arange(20) % 3, RANDOM.standard_normal(20)
LOSS = {"binary": "hinge", "multiclass": "hinge", "ordinal": "pair_hinge", "regression": "epsilon_insensitive"}
TOL = 0.01


def built(task="binary", bias="regularized", loss=None, p=None):
    labels = read_labels({"binary": SIGNS, "regression": TARGETS}.get(task, WORDS), task)
    spec = resolve_spec(
        n_rows=20, n_features=3, n_classes=labels.n_classes, sparse=False, task=task, strategy="crammer_singer",
        loss=loss or LOSS[task], p=p, C=0.5, c_scale="sum", bias=bias, bias_scale=1.0, epsilon=0.1,
    )  # fmt: skip
    return build_problem(spec, as_rows(X), labels, sample_weight=None, class_weight=None, groups=None)


PROBLEM = built()


def point(number=1.0, alpha=None):
    return Point(np.full(3, number), number, np.full(20, 0.1) if alpha is None else alpha)


def proved(primal, bound, gap=None, method="dual point"):
    gap = primal - bound if gap is None else gap
    return Certificate.of_pair(primal, bound, gap, PROBLEM.primal_floor, method)


def progress(passes=5, estimate=None, iterations=7, is_complete=True):
    return Progress(iterations, passes, None, None, estimate, None, is_complete)


@pytest.fixture
def script(monkeypatch):
    """Certificates that `certify` gives in turn, and what it was given."""
    given, answers = [], []

    def scripted(problem, point, tol=None):
        given.append((problem, point, tol))
        return answers.pop(0)

    monkeypatch.setattr(judge_module, "certify", scripted)
    scripted.given, scripted.answers = given, answers
    return scripted


def test_a_run_has_converged_exactly_if_the_best_certificate_says_so(script):
    judge = Judge(PROBLEM, Limits(TOL, None, None), has_estimate=True)
    assert judge.verdict is None
    assert judge.is_far
    assert (judge.seconds, judge.certified_at, judge.bounding) == (0.0, -1, None)
    script.answers += [proved(10.0, 5.0), proved(9.0, 8.0), proved(9.0, 8.91, 0.09)]
    assert judge.certify(point(1.0), progress()).gap == 5.0
    assert judge.verdict is None
    judge.certify(point(2.0), progress())
    assert judge.verdict is None
    judge.certify(point(3.0), progress())
    assert judge.verdict is Status.CONVERGED
    assert script.given[0][0] is PROBLEM
    assert script.given[0][2] == TOL


def test_converged_at_exactly_the_tolerance(script):
    judge = Judge(PROBLEM, Limits(0.25, None, None), has_estimate=True)
    script.answers.append(proved(4.0, 3.0))
    judge.certify(point(), progress())
    assert judge.verdict is Status.CONVERGED
    assert not judge.is_far


@pytest.mark.parametrize(
    ("tol", "gap", "is_far"), [(0.1, 0.1, False), (0.1, 0.11, True), (1e-9, NEAR, False), (1e-9, 2 * NEAR, True)]
)
def test_a_point_is_far_if_its_gap_is_above_the_tolerance_and_not_small(script, tol, gap, is_far):
    judge = Judge(PROBLEM, Limits(tol, None, None), has_estimate=True)
    script.answers.append(Certificate(1.0, 0.5, gap, gap, "dual point"))
    judge.certify(point(), progress())
    assert judge.is_far == is_far


def test_numbers_that_are_not_finite_are_not_kept(script):
    judge = Judge(PROBLEM, Limits(TOL, None, None), has_estimate=True)
    script.answers += [proved(10.0, 9.99), Certificate(math.inf, None, None, None, "dual point"), proved(10.0, 9.0)]
    judge.certify(point(1.0), progress())
    assert judge.certify(point(2.0), progress(iterations=9)) is None
    assert judge.verdict is Status.NONFINITE
    assert judge.certified_at == 9
    best, certificate = judge.best()
    assert best.intercept == 1.0
    assert certificate.dual_bound == 9.99
    judge.certify(point(3.0), progress())
    assert judge.verdict is Status.CONVERGED


def test_lowest_value_and_highest_bound_are_kept_and_certified_together(script, monkeypatch):
    judge = Judge(PROBLEM, Limits(TOL, None, None), has_estimate=True)
    first, lower, tighter, both, neither = (proved(*pair) for pair in ((10, 5), (9, 4), (9.5, 6), (8, 7), (8, 7)))
    judge._keep(point(1.0), first)
    assert judge._is_pair
    assert (judge._kept[0].intercept, judge._kept[1], judge.bounding.intercept) == (1.0, first, 1.0)
    assert judge._kept[0].alpha is judge._kept[0].planes is None
    judge._keep(point(2.0), lower)
    kept, certificate = judge._kept
    assert (kept.intercept, certificate.primal, certificate.dual_bound) == (2.0, 9.0, 5.0)
    assert certificate.gap == pytest.approx(4.0)
    assert certificate.method == lower.method
    assert judge.bounding.intercept == 1.0
    assert not judge._is_pair
    judge._keep(point(3.0), tighter)
    kept, certificate = judge._kept
    assert (kept.intercept, certificate.primal, certificate.dual_bound) == (2.0, 9.0, 6.0)
    assert judge.bounding.intercept == 3.0
    assert not judge._is_pair
    # They are certified as a pair at the end, and the smaller of the two gaps is returned.
    for gap, expected in ((2.5, 2.5), (3.5, certificate.gap)):
        script.answers.append(proved(9.0, 6.0, gap))
        seconds = judge.seconds
        best, found = judge.best()
        assert best.intercept == 2.0
        assert found.gap == expected
        assert judge.seconds > seconds
        assert script.given[-1][1].intercept == 2.0
        assert np.array_equal(script.given[-1][1].alpha, point().alpha)
        assert script.given[-1][2] == TOL
    script.answers.append(proved(9.0, 6.0, certificate.gap, "the pair"))
    assert judge.best()[1].method == "the pair"
    judge._keep(point(4.0), both)
    assert judge._is_pair
    assert (judge._kept[0].intercept, judge._kept[1], judge.bounding.intercept) == (4.0, both, 4.0)
    judge._keep(point(5.0), neither)
    assert judge._is_pair
    assert (judge._kept[0].intercept, judge.bounding.intercept) == (4.0, 4.0)
    asked = len(script.given)
    assert judge.best()[1] is both
    assert len(script.given) == asked
    other = proved(7.5, 1.0, method="other")
    judge._keep(point(6.0), other)
    assert judge._kept[1].method == "other"
    judge._keep(point(7.0), proved(9.0, 7.25, method="third"))
    assert judge._kept[1].method == "other"


def test_without_a_finite_point_zero_is_returned():
    for task in LOSS:
        problem = built(task, "none")
        judge = Judge(problem, Limits(TOL, None, None), has_estimate=True)
        best, certificate = judge.best()
        assert not np.any(best.coef)
        assert not np.any(best.intercept)
        assert certificate.dual_bound == 0.0 or task == "ordinal"
        assert judge.bounding is best
        assert certificate == certify(problem, zero_point(problem), TOL)
    classes = zero_point(built("multiclass"))
    assert [np.shape(one) for one in classes[:3]] == [(3, 3), (3,), (20, 3)]
    assert not any(np.any(one) for one in classes[:3])
    two = zero_point(PROBLEM)
    assert (two.coef.shape, two.intercept, two.alpha.shape) == ((3,), 0.0, (20,))


def test_an_estimate_says_when_a_certificate_is_worth_it(script):
    judge = Judge(PROBLEM, Limits(TOL, None, None), has_estimate=True)
    assert judge.target == TOL
    assert judge.is_worth_certifying(progress(0, TOL))
    assert judge.is_worth_certifying(progress(0, 0.5 * TOL))
    assert not judge.is_worth_certifying(progress(0, 2.0 * TOL))
    assert not judge.is_worth_certifying(progress(0, None))
    assert not judge.is_worth_certifying(progress(0, TOL, is_complete=False))
    # A gap of 4 tolerances: the target becomes 0.9 / 4 of itself, and two more passes are waited for.
    script.answers.append(proved(10.0, 9.6))
    judge.certify(point(), progress(5, TOL, iterations=11))
    assert judge.certified_at == 11
    assert judge.target == pytest.approx(0.9 / 4.0 * TOL)
    waits = judge.target
    assert not judge.is_worth_certifying(progress(6, waits))
    assert judge.is_worth_certifying(progress(7, waits))
    # The next failure waits for twice as long; a narrow one for half of that.
    script.answers.append(proved(10.0, 9.6))
    judge.certify(point(), progress(10, TOL))
    assert not judge.is_worth_certifying(progress(13, 0.0))
    assert judge.is_worth_certifying(progress(14, 0.0))
    script.answers.append(proved(10.0, 9.8, 0.2))  # twice the tolerance: narrow
    judge.certify(point(), progress(20, TOL))
    assert not judge.is_worth_certifying(progress(23, 0.0))
    assert judge.is_worth_certifying(progress(24, 0.0))
    # Never less than a tenth of the target.
    before = judge.target
    script.answers.append(proved(10.0, 1.0))
    judge.certify(point(), progress(30, TOL))
    assert judge.target == pytest.approx(0.1 * before)
    # Nor more than that where there is no gap to compare with.
    before = judge.target
    script.answers.append(Certificate(10.0, 5.0, None, None, "dual point"))
    judge.certify(point(), progress(35, TOL))
    assert judge.target == pytest.approx(0.1 * before)
    # A success changes nothing.
    before = judge.target
    script.answers.append(proved(10.0, 9.9, 0.1))
    judge.certify(point(), progress(90, TOL))
    assert judge.target == before
    assert judge.is_worth_certifying(progress(90, 0.0))
    assert judge.seconds > 0.0


def test_another_method_begins_with_nothing_known_of_its_estimates(script):
    judge = Judge(PROBLEM, Limits(TOL, None, None), has_estimate=True)
    script.answers += [proved(10.0, 9.0)] * 3
    for passes in (1, 2, 3):
        judge.certify(point(), progress(passes, TOL))
    judge.begin_anew(has_estimate=False)
    assert judge.target == TOL
    assert judge.is_worth_certifying(progress(0, None))
    judge.begin_anew(has_estimate=True)
    assert not judge.is_worth_certifying(progress(0, None))
    script.answers += [proved(10.0, 9.0)]
    judge.certify(point(), progress(5, TOL))
    assert judge.is_worth_certifying(progress(7, 0.0)), "failures are counted from zero again"
    assert judge.best()[1].dual_bound == 9.0


def test_a_method_without_an_estimate_is_certified_whenever_its_passes_grew_by_half(script):
    judge = Judge(built(loss="squared_hinge"), Limits(TOL, None, None), has_estimate=False)
    assert not judge.is_worth_certifying(progress(1))
    assert judge.is_worth_certifying(progress(2))
    script.answers += [proved(10.0, 9.0)] * 3
    for passes, following in ((2, 4), (9, 13), (40, 60)):
        judge.certify(point(), progress(passes))
        assert not judge.is_worth_certifying(progress(following - 1))
        assert judge.is_worth_certifying(progress(following))


def test_a_method_without_a_dual_point_gets_one_that_is_refined():
    problem = built(loss="squared_hinge")
    bare = Point(np.full(3, 0.1), 0.05, None)
    plain = certify(problem, bare, TOL)
    judge = Judge(problem, Limits(TOL, None, None), has_estimate=False)
    refined = judge.certify(bare, progress())
    assert refined.method == REFINED
    assert judge.bounding.alpha is not None
    assert refined.primal == pytest.approx(plain.primal)
    again = certify(problem, judge.bounding, TOL)
    assert again.dual_bound == refined.dual_bound
    for broken in ([np.nan] * 3, [0.1, np.inf, 0.1]):
        found, nothing = judge._certificate(Point(np.array(broken), 0.0, None))
        assert (found.alpha, nothing.gap, nothing.method) == (None, None, "dual point from the margins")
    estimating = Judge(problem, Limits(TOL, None, None), has_estimate=True)
    assert estimating.certify(bare, progress()).method == plain.method
    own = Judge(problem, Limits(TOL, None, None), has_estimate=False)
    assert own.certify(point(0.1), progress()).method == "dual point"
    targets = Judge(built("regression"), Limits(TOL, None, None), has_estimate=False)
    assert targets.certify(bare, progress()).method == "dual point from the margins"


def test_a_free_bias_is_the_best_of_its_weights():
    given = Point(np.full(3, 0.3), 5.0, np.full(20, 0.1))
    assert with_best_bias(PROBLEM, given) is given
    for task in ("binary", "regression"):
        problem = built(task, "free")
        found = with_best_bias(problem, given)
        assert found.intercept == pytest.approx(minimising_bias(problem, X @ given.coef, 5.0), rel=1e-12)
        assert found.intercept != 5.0
        assert found.coef is given.coef
    problem = built("multiclass", "free")
    classes = Point(RANDOM.standard_normal((3, 3)), np.zeros(3), -0.1 * RANDOM.random((20, 3)))
    found = with_best_bias(problem, classes)
    assert np.array_equal(found.alpha, balanced_dual_point(problem, classes))
    assert found.alpha.sum(axis=0) == pytest.approx(np.zeros(3), abs=1e-15)
    assert balanced_dual_point(problem, classes._replace(alpha=None)) is None
    none = with_best_bias(built("multiclass", "none"), classes)
    assert none is classes


def test_weights_are_certified_by_a_kept_dual_point():
    weights, kept = Point(np.full(3, 0.1), 0.1, None), point(0.7)
    expected = certify(PROBLEM, weights._replace(alpha=kept.alpha), TOL)
    assert certify_weights(PROBLEM, weights, kept, TOL) == expected
    problem = built("ordinal", "none")
    planes = Planes(0.1 * RANDOM.standard_normal((2, 3)), np.array([0.5, 0.5]))
    kept = Point(np.zeros(3), 0.0, None, planes)
    expected = certify(problem, weights._replace(planes=planes), TOL)
    assert certify_weights(problem, weights, kept, TOL) == expected


def test_weights_are_certified_by_the_margins_of_others(script):
    weights, other = point(1.0)._replace(alpha=None), point(2.0)._replace(alpha=None)
    own, better = proved(10.0, 5.0, 4.0), proved(11.0, 7.0, 4.0, "other margins")
    script.answers += [own, better]
    found = certify_weights(PROBLEM, weights, other, TOL)
    assert (found.primal, found.dual_bound, found.method) == (10.0, 7.0, "other margins")
    assert [one[1].intercept for one in script.given] == [1.0, 2.0]
    assert [one[2] for one in script.given] == [TOL, TOL]
    for first, second in (
        (own, proved(11.0, 4.0)),
        (own, proved(11.0, 5.0)),
        (own, Certificate(math.inf, None, None, None, "m")),
        (Certificate(math.inf, None, None, None, "m"), better),
        (proved(10.0, 5.0, 2.0), better),
    ):
        script.answers += [first, second]
        assert certify_weights(PROBLEM, weights, other, TOL) is first


def test_weights_alone_are_certified_by_the_best_refinement():
    problem = built(loss="squared_hinge")
    weights = Point(np.full(3, 0.1), 0.05, None)
    plain = certify(problem, weights)
    found = certify_weights(problem, weights, None)
    assert found.gap < plain.gap
    assert found.method == REFINED
    assert found.dual_bound > plain.dual_bound
    targets = built("regression")
    assert certify_weights(targets, weights, None) == certify(targets, weights)
    for broken in ([np.inf] * 3, [0.1, np.nan, 0.1]):
        nothing = certify_weights(problem, Point(np.array(broken), 0.05, None), None)
        assert (nothing.gap, nothing.method) == (None, "dual point from the margins")


def test_the_best_of_several_refinements_is_returned(script, monkeypatch):
    problem = built(loss="squared_hinge")
    gaps = [5.0, 4.0, 2.0, 3.0, 2.5, 6.0, 2.0, 1.0, 1.5]
    script.answers += [proved(10.0, 1.0, gap) for gap in gaps]
    found = certify_weights(problem, Point(np.full(3, 0.1), 0.05, None), None)
    assert (found.gap, found.method) == (1.0, REFINED)
    assert len(script.given) == len(gaps) == 1 + judge_module.REFINEMENTS
    script.answers += [proved(10.0, 1.0, 1.0)] * 9
    assert certify_weights(problem, Point(np.full(3, 0.1), 0.05, None), None).method == "dual point"


@pytest.mark.parametrize(("loss", "p"), [("hinge_p", 1.5), ("logistic", None)])
def test_only_a_quadratic_dual_is_refined(loss, p, monkeypatch):
    problem = built(loss=loss, p=p)
    monkeypatch.setattr(judge_module, "DualRefinement", _RefinesQuadraticDuals)
    found = certify_weights(problem, Point(np.full(3, 0.1), 0.0, None), None)
    assert found.method == "dual point from the margins"


class _RefinesQuadraticDuals(judge_module.DualRefinement):
    def __init__(self, problem):
        assert problem.loss.has_quadratic_dual
        super().__init__(problem)
