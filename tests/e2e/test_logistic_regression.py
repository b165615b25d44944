"""Logistic regression through the service: probabilities without a calibration, in predict and in exports."""

from typing import Any

import numpy as np
import onnxruntime
import pytest

from tests.support.serving import Service, checked
from tests.support.tables import csv_text

Json = dict[str, Any]

RANDOM = np.random.default_rng(8)
X = RANDOM.standard_normal((240, 4))
SIGNAL = X @ [2.0, -1.0, 0.5, 0.0] + RANDOM.standard_normal(240)
LABELS = {"binary": np.where(SIGNAL > 0.5, "up", "down"), "multiclass": np.digitize(SIGNAL, [-1.0, 1.0]).astype(str)}
CASES: list[Json] = [{"task": "binary"}, {"task": "multiclass"}, {"task": "multiclass", "strategy": "multinomial"}]


@pytest.fixture(scope="session")
def service(sqlite_service: Service) -> Service:
    return sqlite_service


def trained(service: Service, case: Json, **more: Any) -> Json:
    dataset = service.upload(csv_text(X, LABELS[case["task"]]))
    job = service.wait(
        service.submit(dataset["id"], model="odds", loss="logistic", tol=1e-6, **case, split={"test": 0.25}, **more)[
            "id"
        ]
    )
    assert job["status"] == "succeeded", job["error"]
    return job


def predicted(service: Service, model_id: str) -> tuple[np.ndarray, np.ndarray]:
    """Scores of the first rows, and probabilities by class."""
    wanted = ["label", "score", "probability", "probabilities"]
    answer = checked(
        service.http.post(f"/v1/models/{model_id}/predict", json={"instances": X[:30].tolist(), "return": wanted})
    )
    rows = answer["predictions"]
    return np.array([row["score"] for row in rows]), np.array([row["probabilities"] for row in rows])


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case.values()))
def test_probabilities_need_no_calibration(service: Service, case: Json) -> None:
    job = trained(service, case)
    model = checked(service.http.get(f"/v1/models/{job['model_id']}"))
    assert model["calibration"] == {"method": "logistic", "rows": 0, "held_out": None}
    assert model["certificate"]["relative_gap"] <= 1e-6
    assert 0.0 < model["metrics"]["test"]["log_loss"] < 1.0
    scores, shares = predicted(service, job["model_id"])
    assert shares.sum(axis=1) == pytest.approx(np.ones(30))
    if case.get("strategy") == "multinomial":
        weights = checked(service.http.get(f"/v1/models/{job['model_id']}/weights"))
        scores_by_class = X[:30] @ np.array(weights["coef"]).T + np.array(weights["intercept"])
        odds = np.exp(scores_by_class)
        assert shares == pytest.approx(odds / odds.sum(axis=1, keepdims=True), rel=1e-9)
    if case["task"] == "binary":
        assert shares[:, 1] == pytest.approx(1.0 / (1.0 + np.exp(-scores)), rel=1e-12)


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case.values()))
def test_exports_keep_the_probabilities(service: Service, case: Json) -> None:
    model_id = trained(service, case)["model_id"]
    _, shares = predicted(service, model_id)
    exported = service.http.get(f"/v1/models/{model_id}/export", params={"format": "onnx"})
    session = onnxruntime.InferenceSession(exported.content)
    names = [one.name for one in session.get_outputs()]
    found = dict(zip(names, session.run(None, {session.get_inputs()[0].name: X[:30]}), strict=True))
    assert found["probabilities"] == pytest.approx(shares, abs=1e-12)
    document = service.http.get(f"/v1/models/{model_id}/export", params={"format": "json"})
    again = service.http.post(
        "/v1/models/import", params={"name": "odds-again", "format": "json"}, content=document.content,
        headers={"Content-Type": document.headers["content-type"]},
    )  # fmt: skip
    _, of_import = predicted(service, checked(again)["id"])
    assert of_import == pytest.approx(shares, abs=1e-15)
    liblinear = service.http.get(f"/v1/models/{model_id}/export", params={"format": "liblinear"})
    # LIBLINEAR has no jointly trained logistic model: its labels are right there, and it gives no probabilities.
    is_joint = case.get("strategy") == "multinomial"
    assert liblinear.text.startswith(f"solver_type {'L2R_L2LOSS_SVC' if is_joint else 'L2R_LR'}\n")


def test_a_calibration_that_is_asked_for_is_fitted(service: Service) -> None:
    job = trained(service, {"task": "binary"}, calibrate="platt")
    model = checked(service.http.get(f"/v1/models/{job['model_id']}"))
    assert model["calibration"]["method"] == "platt"
    assert model["calibration"]["rows"] > 0
