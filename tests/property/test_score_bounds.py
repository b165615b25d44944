"""What a certificate says about single scores: no score is further from the exact optimum's than its bound, and no
label that is called certain is another one there."""

from typing import Any

import numpy as np
import pytest

import solvers
from app.models.file import Header
from app.predictions.score_error import Certainty, RowErrors
from app.preprocess.norms import row_norms
from tests.support.builders import SOAK

TIGHT = 1e-10
CASES: list[dict[str, Any]] = [
    {"loss": "squared_hinge"},
    {"loss": "squared_hinge", "bias_scale": 5.0, "C": 10.0},
    {"loss": "squared_hinge", "bias": "none", "c_scale": "mean", "C": 100.0},
    {"loss": "hinge", "solver": "dcd"},
    {"loss": "hinge", "c_scale": "mean", "C": 50.0, "bias_scale": 0.3},
    {"loss": "squared_hinge", "class_weight": "balanced"},
    {"task": "multiclass", "loss": "squared_hinge"},
    {"task": "multiclass", "loss": "squared_hinge", "bias": "none", "C": 5.0},
    {"task": "multiclass", "strategy": "crammer_singer"},
    {"task": "multiclass", "strategy": "crammer_singer", "bias_scale": 4.0, "C": 3.0},
    {"task": "regression", "loss": "squared_epsilon_insensitive"},
    {"task": "ordinal"},
]


def rows_and_labels(seed: int, task: str) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    X = random.normal(size=(120, 4)) * [1.0, 3.0, 0.3, 1.0]
    values = X @ random.normal(size=4) + 0.5 + 0.7 * random.normal(size=120)
    if task == "regression":
        return X, values
    if task == "ordinal":
        return X, np.digitize(values, [-1.0, 0.5, 2.0])
    if task == "multiclass":
        return X, np.array(["a", "b", "c"])[np.digitize(values, [-0.7, 1.2])]
    return X, np.where(values > 0, 1, -1)


def header_of(result: solvers.SolveResult, case: dict[str, Any]) -> Header:
    certificate: dict[str, Any] = {"gap": result.certificate.gap}
    if result.per_class is not None:
        certificate["per_class"] = [{"gap": part.gap} for part in result.per_class]
    params = {"bias": case.get("bias", "regularized"), "bias_scale": case.get("bias_scale", 1.0)}
    return Header(
        task=result.task,  # type: ignore[arg-type]
        strategy=result.strategy,
        classes=[] if result.task == "regression" else list(np.asarray(result.classes).tolist()),
        n_features=4,
        feature_names=None,
        card={"params": params, "certificate": certificate},
    )


@pytest.mark.parametrize("seed", range(2 * SOAK))
@pytest.mark.parametrize("case", CASES, ids=str)
def test_no_score_is_further_from_the_optimum_than_its_bound(case: dict[str, Any], seed: int) -> None:
    X, y = rows_and_labels(seed, case.get("task", "binary"))
    probes = np.vstack([X, np.random.default_rng(seed + 1).normal(scale=4.0, size=(300, 4)), np.zeros((1, 4))])
    exact = solvers.train(X, y, **case, tol=TIGHT, max_passes=20_000)
    slack = np.sqrt(2.0 * max(exact.certificate.gap or 0.0, 0.0)) * np.sqrt(row_norms(probes) ** 2 + 25.0)
    decided = 0
    for tol in (0.3, 1e-2, 1e-4):
        loose = solvers.train(X, y, **case, tol=tol)
        certainty = Certainty.of(header_of(loose, case))
        assert certainty is not None
        ours, best = loose.decision_function(probes), exact.decision_function(probes)
        errors = RowErrors(row_norms(probes), np.zeros_like(ours))
        bounds = certainty.bounds(errors)
        difference = np.abs(ours - best)
        excess = difference.T - (bounds.T + slack + 1e-9)
        assert excess.max() <= 0.0
        if loose.task in ("binary", "multiclass"):
            certain = certainty.is_label_certain(errors, ours)
            mine, theirs = (f > 0 if f.ndim == 1 else f.argmax(axis=1) for f in (ours, best))
            assert (mine == theirs)[certain].all()
            decided += int(certain.sum())
    assert decided > 100 or exact.task not in ("binary", "multiclass")


def test_a_free_bias_and_a_card_without_a_gap_prove_nothing() -> None:
    X, y = rows_and_labels(0, "binary")
    result = solvers.train(X, y, loss="squared_hinge", bias="free", solver="alm_exact")
    assert Certainty.of(header_of(result, {"bias": "free"})) is None
    header = header_of(solvers.train(X, y), {})
    for card in (
        {},
        {"params": {"bias": "none"}},
        {"params": {"bias": "none"}, "certificate": {"gap": None}},
        {"params": {}, "certificate": {"gap": 1.0}},
        {"params": {"bias": "none"}, "certificate": {"gap": -1e-300}},
        {"params": {"bias": "none"}, "certificate": {"gap": True}},
        {"params": {"bias": "regularized", "bias_scale": -1.0}, "certificate": {"gap": 1.0}},
    ):
        assert Certainty.of(header.model_copy(update={"card": card})) is None


def test_the_bound_is_the_formula() -> None:
    header = Header(
        task="binary",
        classes=[0, 1],
        n_features=2,
        feature_names=None,
        card={"params": {"bias": "regularized", "bias_scale": 2.0}, "certificate": {"gap": 0.02}},
    )
    certainty = Certainty.of(header)
    assert certainty is not None
    errors = RowErrors(np.array([0.0, 3.0]), np.array([0.0, 0.5]))
    bounds = certainty.bounds(errors)
    np.testing.assert_allclose(bounds, [2.0 * 0.2, np.sqrt(13.0) * 0.2 + 0.5], rtol=1e-14)
    scores = np.array([bounds[0], bounds[1] * 1.01])
    assert certainty.is_label_certain(errors, scores).tolist() == [False, True]
    joint = Certainty(radius=0.2, beta=0.0)
    # sqrt(2 gap) = 0.2, so a difference is certain beyond 2 |x| sqrt(gap) = 0.2 sqrt(2) |x|
    edge = 0.2 * np.sqrt(2.0)
    leads = np.array([[0.0, edge * 0.99, -9.0], [0.0, edge * 1.01, -9.0]])
    assert joint.is_label_certain(RowErrors(np.ones(2), np.zeros((2, 3))), leads).tolist() == [False, True]
    # rounding of both scores counts
    rounding = np.array([[edge * 0.006, edge * 0.005, 0.0]] * 2)
    assert joint.is_label_certain(RowErrors(np.ones(2), rounding), leads).tolist() == [False, False]
    apart = Certainty(radius=np.array([0.1, 0.2, 5.0]), beta=0.0)
    leads = np.array([[0.0, 0.31, -9.0], [0.0, 0.31, -4.0], [0.0, 0.29, -9.0]])
    assert apart.is_label_certain(RowErrors(np.ones(3), np.zeros((3, 3))), leads).tolist() == [True, False, False]
