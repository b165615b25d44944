"""Curves from scores to probabilities: what they promise, whatever the scores, and that they find a known truth."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import _SigmoidCalibration
from sklearn.isotonic import IsotonicRegression

from app.errors import CorruptModel
from app.models import file
from app.models.calibration import Calibration, Method, margins, sigmoid
from app.worker.train.calibrate import ISOTONIC_ROWS, fit_calibration
from tests.support.builders import model_header

Array = np.ndarray[Any, Any]
METHODS: tuple[Method, ...] = ("platt", "isotonic")


def drawn(rows: int, truth: Any, seed: int = 0) -> tuple[Array, Array]:
    """Scores, and classes drawn by the probability that `truth` says."""
    random = np.random.default_rng(seed)
    scores = random.normal(scale=2.0, size=rows)
    return scores, (random.random(rows) < truth(scores)).astype(np.int64)


def reread(calibration: Calibration, folder: Path, classes: int = 2) -> Calibration:
    document, arrays = calibration.stored()
    task = "binary" if classes == 2 else "multiclass"
    shape = (1,) if classes == 2 else (classes, 1)
    weights = {"coef": np.zeros(shape), "intercept": np.zeros(1 if classes == 2 else classes)}
    header = model_header(1, task=task, classes=list(range(classes)), calibration=document)
    path = folder / "model"
    path.write_bytes(file.encode(header, {**weights, **arrays}))
    found = Calibration.of(file.read(path))
    assert found is not None
    return found


@pytest.mark.parametrize("method", METHODS)
def test_a_known_truth_is_found(method: Method) -> None:
    def truth(f: Array) -> Array:
        return sigmoid(1.7 * f - 0.8)

    scores, codes = drawn(40_000, truth)
    calibration = fit_calibration(method, "score", scores, codes)
    grid = np.linspace(-3.0, 3.0, 101)
    worst = np.abs(calibration.probabilities(grid)[:, 1] - truth(grid)).max()
    assert worst < (0.01 if method == "platt" else 0.05)
    if method == "platt":
        assert calibration.arrays["slope"][0] == pytest.approx(1.7, rel=0.03)


def test_a_truth_that_is_no_sigmoid_is_found_by_the_free_curve() -> None:
    def truth(f: Array) -> Array:
        return np.where(f > 1.0, 0.9, np.where(f > -1.0, 0.5, 0.2))

    scores, codes = drawn(40_000, truth)
    grid = np.array([-3.0, -2.0, -0.5, 0.0, 0.5, 2.0, 3.0])
    errors = {
        method: np.abs(fit_calibration(method, "score", scores, codes).probabilities(grid)[:, 1] - truth(grid)).max()
        for method in METHODS
    }
    assert errors["isotonic"] < 0.03 < errors["platt"]


def test_the_sigmoid_is_the_one_that_scikit_learn_finds() -> None:
    scores, codes = drawn(500, lambda f: sigmoid(0.7 * f + 1.0))
    weight = np.random.default_rng(1).integers(1, 4, 500).astype(np.float64)
    for used in (None, weight):
        peer = _SigmoidCalibration().fit(scores, codes, used)
        found = fit_calibration("platt", "score", scores, codes, used)
        # its targets do not count weights, and its optimiser stops early
        tolerance = 1e-4 if used is None else 2e-2
        assert found.arrays["slope"][0] == pytest.approx(-peer.a_, rel=tolerance)
        assert found.arrays["shift"][0] == pytest.approx(-peer.b_, rel=tolerance, abs=tolerance)


def test_the_free_curve_is_the_one_that_scikit_learn_finds() -> None:
    scores, codes = drawn(2000, lambda f: sigmoid(f))
    scores = np.round(scores, 1)
    weight = np.random.default_rng(1).integers(0, 3, 2000).astype(np.float64)
    low, high = 1 / (weight[codes == 0].sum() + 2), 1 - 1 / (weight[codes == 1].sum() + 2)
    peer = IsotonicRegression(y_min=low, y_max=high, out_of_bounds="clip").fit(scores, codes, weight)
    found = fit_calibration("isotonic", "score", scores, codes, weight)
    grid = np.linspace(-9.0, 9.0, 500)
    np.testing.assert_allclose(found.probabilities(grid)[:, 1], peer.predict(grid), rtol=1e-9, atol=1e-12)


def test_a_row_of_weight_two_is_the_row_twice() -> None:
    scores, codes = drawn(200, sigmoid)
    weight = np.where(np.arange(200) % 3 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(200), weight.astype(int))
    grid = np.linspace(-4.0, 4.0, 50)
    for method in METHODS:
        by_weight = fit_calibration(method, "score", scores, codes, weight).probabilities(grid)
        repeated = fit_calibration(method, "score", scores[twice], codes[twice]).probabilities(grid)
        np.testing.assert_allclose(by_weight, repeated, rtol=1e-6)


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_whatever_the_scores_probabilities_add_up_and_never_fall(data: st.DataObject) -> None:
    classes, rows = data.draw(st.integers(2, 4)), data.draw(st.integers(4, 40))
    method, argument = data.draw(st.sampled_from(METHODS)), data.draw(st.sampled_from(["score", "margin"]))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    size = data.draw(st.sampled_from([1e-200, 1e-3, 1.0, 1e8, 1e150]))
    shape = (rows,) if classes == 2 else (rows, classes)
    scores = size * np.round(random.normal(size=shape), data.draw(st.sampled_from([0, 1, 6])))
    codes = np.append(np.arange(classes), random.integers(0, classes, rows - classes)) if rows >= classes else None
    assert codes is not None
    weight = random.integers(0, 3, rows) + np.append(np.ones(classes), np.zeros(rows - classes))
    calibration = fit_calibration(method, argument, scores, codes, weight)
    probe = size * np.sort(3.0 * random.normal(size=(50, *shape[1:])), axis=0)
    found = calibration.probabilities(probe)
    assert found.shape == (50, classes)
    assert np.isfinite(found).all()
    assert (found >= 0.0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    if classes == 2:
        assert (np.diff(found[:, 1]) >= 0.0).all()
        return
    grown = np.repeat(probe[:1], 50, axis=0)  # one score grows, the others stay
    grown[:, 1] = probe[:, 1]
    assert (np.diff(calibration.probabilities(grown)[:, 1]) >= -1e-15).all()


@pytest.mark.parametrize("method", METHODS)
def test_scores_that_say_nothing_or_lie_give_the_share_of_the_class(method: Method) -> None:
    codes = np.repeat([0, 0, 0, 1], 100)
    for scores in (np.zeros(400), -codes.astype(np.float64)):
        found = fit_calibration(method, "score", scores, codes).probabilities(np.array([-5.0, 0.0, 5.0]))
        np.testing.assert_allclose(found[:, 1], 0.25, atol=0.01)


@pytest.mark.parametrize("method", METHODS)
def test_classes_that_scores_part_perfectly_are_not_certain(method: Method) -> None:
    scores = np.linspace(-2.0, 2.0, 41)
    found = fit_calibration(method, "score", scores, (scores > 0).astype(np.int64)).probabilities(np.array([-2.0, 2.0]))
    assert 0.0 < found[0, 1] < 0.06
    assert 0.94 < found[1, 1] < 1.0


def test_the_method_is_chosen_by_the_rows_of_the_rarest_class() -> None:
    for rare, method in ((ISOTONIC_ROWS - 1, "platt"), (ISOTONIC_ROWS, "isotonic")):
        codes = np.repeat([0, 1], [2 * ISOTONIC_ROWS, rare])
        scores = np.random.default_rng(0).normal(size=len(codes)) + codes
        assert fit_calibration(None, "score", scores, codes).method == method


def test_a_margin_is_the_distance_to_the_best_other_class() -> None:
    scores = np.array([[1.0, 4.0, 3.0], [2.0, 2.0, 0.0]])
    assert margins(scores).tolist() == [[-3.0, 1.0, -1.0], [0.0, 0.0, -2.0]]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("classes", [2, 3])
def test_a_stored_curve_comes_back_to_the_same_bits(tmp_path: Path, method: Method, classes: int) -> None:
    random = np.random.default_rng(0)
    scores = random.normal(size=300) if classes == 2 else random.normal(size=(300, classes))
    fitted = fit_calibration(method, "margin", scores, np.arange(300) % classes)
    found = reread(fitted, tmp_path, classes)
    assert (found.method, found.argument) == (method, "margin")
    assert np.array_equal(found.probabilities(scores), fitted.probabilities(scores))


@pytest.mark.parametrize(
    ("method", "arrays"),
    [
        ("platt", {"slope": [-1.0], "shift": [0.0]}),
        ("platt", {"slope": [1.0, 1.0], "shift": [0.0, 0.0]}),
        ("platt", {"slope": [1.0]}),
        ("isotonic", {"scores": [0.0, 1.0], "values": [0.5, 0.4], "starts": [0, 2]}),
        ("isotonic", {"scores": [1.0, 0.0], "values": [0.4, 0.5], "starts": [0, 2]}),
        ("isotonic", {"scores": [0.0, 1.0], "values": [0.0, 0.5], "starts": [0, 2]}),
        ("isotonic", {"scores": [0.0, 1.0], "values": [0.4, 0.5], "starts": [0, 3]}),
        ("isotonic", {"scores": [], "values": [], "starts": [0, 0]}),
        ("guess", {"slope": [1.0], "shift": [0.0]}),
    ],
)
def test_a_file_whose_curve_makes_no_sense_is_refused(tmp_path: Path, method: Any, arrays: Any) -> None:
    kinds = {"starts": np.int64}
    damaged = {name: np.array(values, dtype=kinds.get(name, np.float64)) for name, values in arrays.items()}
    with pytest.raises(CorruptModel):
        reread(Calibration(method, "score", damaged), tmp_path)
