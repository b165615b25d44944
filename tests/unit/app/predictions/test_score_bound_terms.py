"""Bounds of scores against their formula, with a unit so coarse that every term is seen."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from app.models.file import Header
from app.predictions import score_error
from app.predictions.score_error import Certainty, RowErrors, row_errors

UNIT, UP, SMALLEST, LOST_WEIGHT = 2.0**-10, 1.0 + 2.0**-6, 2.0**-12, 2.0**-7
RANDOM = np.random.default_rng(6)
X = RANDOM.standard_normal((5, 7))
X[RANDOM.random((5, 7)) < 0.3] = 0.0
SHIFT = np.array([0.0, 0.5, -1.5, 0.0, 0.25, 0.0, 0.0])


class Shifted:
    shift = SHIFT

    def norms(self, matrix: Any) -> np.ndarray:
        return np.arange(1.0, 1.0 + matrix.shape[0])


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("UNIT", UNIT), ("UP", UP), ("SMALLEST", SMALLEST), ("LOST_WEIGHT", LOST_WEIGHT)):
        monkeypatch.setattr(score_error, name, value)


def test_the_constants_are_those_of_doubles() -> None:
    assert score_error.UNIT == 2.0**-53
    assert score_error.UP == 1.0 + 16 * 2.0**-53
    assert score_error.UNIT * score_error.LOST_WEIGHT == 5e-324
    assert score_error.SMALLEST == 2.0**-1000


def expected_errors(terms: np.ndarray, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
    products, sizes = np.abs(X) @ np.abs(coef).T, np.abs(X).sum(axis=1)
    moved = np.abs(SHIFT)
    of_score = products + LOST_WEIGHT * sizes[:, None] + np.abs(intercept)
    of_shift = np.abs(coef) @ moved + LOST_WEIGHT * moved.sum()
    rounding = 2.0 * UNIT * (terms + 4.0) * (1.0 + 4.0 * UNIT * (terms + 8.0))
    rounding = rounding[:, None] * of_score
    rounding = rounding + UNIT * 11.0 * (of_shift + np.abs(intercept)) * (1.0 + 4.0 * UNIT * 11.0)
    return rounding * UP + SMALLEST


@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("classes", [1, 3])
def test_the_rounding_of_scores_counts_every_term(is_sparse: bool, classes: int) -> None:
    coef, intercept = RANDOM.standard_normal((classes, 7)), RANDOM.standard_normal(classes)
    model = SimpleNamespace(coef=coef if classes > 1 else coef[0], intercept=intercept if classes > 1 else -1.25)
    if classes == 1:
        intercept = np.array([-1.25])
    matrix: Any = sp.csr_array(X) if is_sparse else X
    terms = (X != 0.0).sum(axis=1) if is_sparse else np.full(5, 7)
    found = row_errors(matrix, model, Shifted())  # type: ignore[arg-type]
    expected = expected_errors(terms, coef, intercept)
    assert found.rounding == pytest.approx(expected if classes > 1 else expected[:, 0], rel=1e-12)
    assert found.norms == pytest.approx(np.arange(1.0, 6.0) * (1.0 + 2.0 * UNIT * 23.0) + SMALLEST, rel=1e-12)
    single = row_errors(matrix.astype(np.float32), model, Shifted())  # type: ignore[arg-type]
    assert single.rounding.dtype == np.float64
    assert single.rounding == pytest.approx(found.rounding, rel=1e-5)


def test_overflow_is_no_warning() -> None:
    model = SimpleNamespace(coef=np.full(7, 1e300), intercept=0.0)
    with np.errstate(all="raise", under="ignore"):
        found = row_errors(np.full((1, 7), 1e300), model, Shifted())  # type: ignore[arg-type]
        assert not np.isfinite(found.rounding).any()
        certainty = Certainty(1e300, 1.0)
        assert not np.isfinite(certainty.bounds(RowErrors(np.array([1e300]), np.zeros(1)))).any()
        assert not certainty.is_label_certain(RowErrors(np.array([1e300]), np.zeros(1)), np.array([1e308])).any()


def header(task: str = "binary", strategy: str | None = None, params: Any = None, **certificate: Any) -> Header:
    params = {"bias": "regularized", "bias_scale": 2.0} if params is None else params
    classes = [0, 1, 2] if task == "multiclass" else [0, 1]
    card = {"params": params, "certificate": certificate}
    return Header(task=task, strategy=strategy, classes=classes, n_features=2, feature_names=None, card=card)


@pytest.mark.usefixtures("coarse")
def test_the_radius_is_the_root_of_twice_the_gap() -> None:
    radius = math.sqrt(2.0 * 8.0) * UP + SMALLEST
    assert Certainty.of(header(gap=8.0)) == Certainty(radius, 2.0)
    assert Certainty.of(header(gap=0)) == Certainty(SMALLEST, 2.0)
    assert Certainty.of(header("multiclass", "crammer_singer", gap=8.0)) == Certainty(radius, 2.0)
    assert Certainty.of(header("ordinal", params={}, gap=8.0)) == Certainty(radius, 0.0)
    assert Certainty.of(header(params={"bias": "none"}, gap=8.0)) == Certainty(radius, 0.0)
    each = Certainty.of(header("multiclass", "ovr", per_class=[{"gap": gap} for gap in (8.0, 0.5, 2.0)], gap=99.0))
    assert each is not None
    assert each.radius == pytest.approx(np.array([4.0, 1.0, 2.0]) * UP + SMALLEST)
    assert each.beta == 2.0
    # A strategy that is left over from a task with classes does not count.
    assert Certainty.of(header("binary", "ovr", gap=8.0)) == Certainty(radius, 2.0)


@pytest.mark.parametrize(
    "card",
    [
        header(gap=8.0, claimed=True),
        header(gap=None),
        header(),
        header(gap=-1.0),
        header(gap=math.inf),
        header(gap=math.nan),
        header(gap=True),
        header(gap="8"),
        header(params={"bias": "free", "bias_scale": 2.0}, gap=8.0),
        header(params={"bias": "regularized"}, gap=8.0),
        header(params={"bias": "regularized", "bias_scale": -1.0}, gap=8.0),
        header(params={"bias_scale": 1.0}, gap=8.0),
        header("multiclass", "ovr", gap=8.0),
        header("multiclass", "ovr", per_class=[{"gap": 1.0}] * 2, gap=8.0),
        header("multiclass", "ovr", per_class=[{"gap": 1.0}, {"gap": None}, {"gap": 1.0}], gap=8.0),
        header("multiclass", "ovr", per_class=[], gap=8.0),
        Header(task="binary", strategy=None, classes=[0, 1], n_features=2, feature_names=None, card={}),
    ],
)
def test_a_card_that_proves_nothing(card: Header) -> None:
    assert Certainty.of(card) is None


NORMS = np.array([3.0, 0.0])


@pytest.mark.usefixtures("coarse")
def test_bounds_are_reach_and_rounding() -> None:
    reach = np.hypot(NORMS, 4.0) * UP
    one = Certainty(0.5, 4.0)
    rounding = np.array([0.25, 0.125])
    assert one.bounds(RowErrors(NORMS, rounding)) == pytest.approx((reach * 0.5 + rounding) * UP, rel=1e-15)
    rounding = RANDOM.uniform(0.0, 1.0, (2, 3))
    joint = one.bounds(RowErrors(NORMS, rounding))
    assert joint == pytest.approx((reach[:, None] * 0.5 + rounding) * UP, rel=1e-15)
    each = Certainty(np.array([0.5, 1.0, 2.0]), 4.0)
    bounds = each.bounds(RowErrors(NORMS, rounding))
    assert bounds == pytest.approx((reach[:, None] * np.array([0.5, 1.0, 2.0]) + rounding) * UP, rel=1e-15)


@pytest.mark.usefixtures("coarse")
def test_a_label_is_certain_just_beyond_what_is_unknown() -> None:
    norms, reach = np.array([3.0]), 5.0 * UP
    two = Certainty(0.5, 4.0)
    limit = (reach * 0.5 + 0.25) * UP
    for score, expected in ((1.01 * limit, True), (-1.01 * limit, True), (0.99 * limit, False), (limit, False)):
        found = two.is_label_certain(RowErrors(norms, np.array([0.25])), np.array([score]))
        assert found.tolist() == [expected]
    rounding = np.array([[0.25, 0.125, 0.5]])
    # Trained jointly: sqrt(2) times the reach, and the rounding of both scores.
    for rival, of_rival in ((1, 0.125), (2, 0.5)):
        limit = (math.sqrt(2.0) * reach * 0.5 + 0.25 + of_rival) * UP
        for lead, expected in ((1.001 * limit, True), (0.999 * limit, False)):
            scores = np.array([[7.0, -90.0, -90.0]])
            scores[0, rival] = 7.0 - lead
            assert two.is_label_certain(RowErrors(norms, rounding), scores).tolist() == [expected]
    # One against the rest: the bounds of both scores.
    each = Certainty(np.array([0.5, 1.0, 2.0]), 4.0)
    bounds = each.bounds(RowErrors(norms, rounding))[0]
    for rival in (1, 2):
        limit = (bounds[0] + bounds[rival]) * UP
        for lead, expected in ((1.001 * limit, True), (0.999 * limit, False)):
            scores = np.array([[7.0, -90.0, -90.0]])
            scores[0, rival] = 7.0 - lead
            assert each.is_label_certain(RowErrors(norms, rounding), scores).tolist() == [expected]
    assert not two.is_label_certain(RowErrors(norms, rounding), np.zeros((1, 3))).any()
    several = RowErrors(np.zeros(2), np.zeros((2, 3)))
    scores = np.array([[9.0, 1.0, 2.0], [1.0, 9.0, 8.0]])
    assert Certainty(0.5, 4.0).is_label_certain(several, scores).tolist() == [True, False]
