"""Training with `calibrate`: probabilities that are correct on unseen rows."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.errors import AppError
from app.models.calibration import Calibration, sigmoid
from app.models.file import ModelFile
from tests.support.worker_bench import Bench, noisy, worker_bench

Array = np.ndarray[Any, Any]
WEIGHTS = np.array([1.5, -1.0, 0.5, 0.0])


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with worker_bench(tmp_path) as bench:
        yield bench


def known(rows: int, seed: int) -> tuple[Array, Array, Array]:
    """Rows, their true probability of being of class 1, and classes drawn by it."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, 4))
    truth = sigmoid(X @ WEIGHTS - 0.5)
    return X, truth, (random.random(rows) < truth).astype(float)


def probabilities(model: ModelFile, X: Array) -> Array:
    calibration = Calibration.of(model)
    assert calibration is not None
    return calibration.probabilities(X @ model.coef.T + model.intercept)


@pytest.mark.parametrize(("wanted", "rows", "method"), [(True, 1500, "platt"), (True, 6000, "isotonic")])
def test_probabilities_are_true_on_rows_that_nobody_has_seen(bench: Bench, wanted: Any, rows: int, method: str) -> None:
    X, _, y = known(rows, 1)
    job = bench.run(bench.store(X, y), calibrate=wanted, split={"test": 0.3}, tol=1e-2)
    card, model = bench.model(job)
    assert card["calibration"]["method"] == method
    assert card["calibration"]["rows"] == round(0.7 * rows)
    assert job["result"]["calibration"] == card["calibration"]
    assert card["cross_validation"] is None, "it was not asked for"
    fresh, truth, happened = known(20_000, 2)
    said = probabilities(model, fresh)[:, 1]
    assert np.abs(said - truth).mean() < 0.035
    assert np.mean((said - happened) ** 2) < np.mean((truth - happened) ** 2) + 0.005
    for low in np.arange(0.0, 1.0, 0.1):  # of what is said to happen that often, that much happens
        chosen = (said >= low) & (said < low + 0.1)
        if chosen.sum() > 500:
            assert abs(said[chosen].mean() - happened[chosen].mean()) < 0.06
    test = card["metrics"]["test"]
    assert test["calibration_error"] < 0.06
    assert test["brier"] == pytest.approx(np.mean((truth - happened) ** 2), abs=0.03)
    assert 0.0 < test["log_loss"] < 0.7
    assert sum(test["calibration_curve"]["rows"]) == test["rows"]
    assert "brier" not in card["metrics"]["train"]


def test_scores_alone_would_not_be_true(bench: Bench) -> None:
    """What the test above can find: the plain sigmoid of a hinge model's score is far off."""
    X, _, y = known(1500, 1)
    _, model = bench.model(bench.run(bench.store(X, y), calibrate="platt", tol=1e-2, C=10.0))
    fresh, truth, _ = known(5000, 2)
    scores = fresh @ model.coef + model.intercept
    assert np.abs(sigmoid(4.0 * scores) - truth).mean() > 0.1
    assert np.abs(probabilities(model, fresh)[:, 1] - truth).mean() < 0.035


@pytest.mark.parametrize("strategy", ["ovr", "crammer_singer"])
def test_several_classes(bench: Bench, strategy: str) -> None:
    random = np.random.default_rng(0)
    W = np.array([[1.5, 0.0, 0.0, 0.5], [0.0, 1.5, 0.0, -0.5], [0.0, 0.0, 1.5, 0.0]])

    def draw(rows: int) -> tuple[Array, Array, Array]:
        X = random.normal(size=(rows, 4))
        shares = np.exp(X @ W.T)
        shares /= shares.sum(axis=1, keepdims=True)
        return X, shares, (random.random((rows, 1)) > shares.cumsum(axis=1)).sum(axis=1)

    X, _, codes = draw(2000)
    dataset_id = bench.store(X, np.array(["a", "b", "c"])[codes])
    _, model = bench.model(bench.run(dataset_id, calibrate="platt", strategy=strategy, tol=1e-2, split={"test": 0.2}))
    fresh, truth, codes = draw(5000)
    said = probabilities(model, fresh)
    np.testing.assert_allclose(said.sum(axis=1), 1.0, rtol=1e-12)
    assert np.abs(said - truth).mean() < 0.05
    likeliest = said.max(axis=1)
    assert abs(likeliest.mean() - np.mean(said.argmax(axis=1) == codes)) < 0.04


def test_the_folds_of_a_cross_validation_are_used(bench: Bench) -> None:
    X, _, y = known(300, 3)
    job = bench.run(bench.store(X, y), calibrate="isotonic", cross_validation=3, tol=1e-2)
    card, _ = bench.model(job)
    assert len(card["cross_validation"]["folds"]) == 3
    assert (card["calibration"]["method"], card["calibration"]["rows"]) == ("isotonic", 300)
    assert card["calibration"]["held_out"]["brier"] < 0.25


def test_weights_of_rows_count(bench: Bench) -> None:
    X, _, y = known(400, 3)
    heavy = np.where(y == 1, 3.0, 1.0)
    dataset_id = bench.store(X, y, weight=heavy)
    _, weighed = bench.model(bench.run(dataset_id, calibrate="platt", tol=1e-2))
    _, plain = bench.model(bench.run(bench.store(X, y), calibrate="platt", tol=1e-2))
    assert probabilities(weighed, X)[:, 1].mean() > probabilities(plain, X)[:, 1].mean() + 0.1


def test_a_rare_class_makes_fewer_folds(bench: Bench) -> None:
    X, signal = noisy(60)
    y = np.zeros(60)
    y[np.argsort(signal)[-3:]] = 1
    card, _ = bench.model(bench.run(bench.store(X, y), calibrate=True))
    assert card["calibration"]["rows"] == 60


def test_who_finishes_early_has_a_model_without_probabilities(bench: Bench) -> None:
    X, _, y = known(300, 3)
    job = bench.run(bench.store(X, y), lambda: "finish", calibrate=True)
    card, model = bench.model(job)
    assert card["calibration"] is None
    assert Calibration.of(model) is None


def test_what_cannot_be_calibrated_is_refused(bench: Bench) -> None:
    X, signal = noisy(60)
    with pytest.raises(AppError, match="no probabilities"):
        bench.run(bench.store(X, signal), calibrate=True)
    one = np.zeros(60)
    one[0] = 1
    with pytest.raises(AppError, match="has one row"):
        bench.run(bench.store(X, one), calibrate=True)
