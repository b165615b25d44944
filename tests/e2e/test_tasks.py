"""Every task through the HTTP API: from a file to the answers of predict, judged by arithmetic on the weights."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as reference

from tests.support.serving import Service
from tests.support.tables import csv_text

Array = np.ndarray[Any, Any]
Json = dict[str, Any]

TRAIN_ROWS, TEST_ROWS = slice(0, None, 4), slice(1, None, 12)  # of a set that is long and sorted


@pytest.fixture(scope="session")
def service(sqlite_service: Service) -> Service:
    return sqlite_service


def real(folder: Path, name: str) -> tuple[Array, Array]:
    """Rows with features of mean 0 and deviation 1."""
    with np.load(folder / name / "train.npz", allow_pickle=False) as stored:
        X, y = stored["X"].astype(np.float64), stored["y"]
    return (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12), y


def signal(rows: int, features: int = 5) -> tuple[Array, Array]:
    random = np.random.default_rng(rows)
    X = random.normal(size=(rows, features))
    return X, X @ random.normal(size=features) + 0.3 * random.normal(size=rows)


def train(service: Service, dataset: Json, **fields: Any) -> Json:
    job = service.wait(service.submit(dataset["id"], **fields)["id"])
    assert job["status"] == "succeeded", job["error"]
    return job


def predict(service: Service, model: str, rows: Array, **fields: Any) -> Json:
    answer = service.http.post(f"/v1/models/{model}/predict", json={"instances": rows.tolist(), **fields})
    assert answer.status_code == 200, answer.text
    body: Json = answer.json()
    return body


def weights(service: Service, model: str) -> tuple[Json, Array, Any]:
    found = service.get(f"/v1/models/{model}/weights")
    return found, np.array(found["coef"]), np.array(found["intercept"])


@pytest.mark.parametrize(
    ("strategy", "bias"), [("ovr", "regularized"), ("crammer_singer", "regularized"), ("crammer_singer", "free")]
)
def test_classes_of_a_real_set(service: Service, shared_data: Path, strategy: str, bias: str) -> None:
    X, y = real(shared_data, "satimage")
    data, held_out = (service.upload(csv_text(X[part], y[part])) for part in (TRAIN_ROWS, TEST_ROWS))
    split = {"test_dataset_id": held_out["id"]}
    name = f"satimage-{strategy}-{bias}"
    job = train(service, data, strategy=strategy, bias=bias, split=split, tol=1e-2, model=name)
    assert (job["result"]["task"], job["result"]["strategy"]) == ("multiclass", strategy)
    assert job["result"]["converged"]
    model = service.get(f"/v1/models/{job['model_id']}")
    classes = np.unique(y).tolist()
    assert (model["task"], model["classes"]) == ("multiclass", classes)
    assert (model["certificate"]["per_class"] is not None) == (strategy == "ovr")
    found, coef, intercept = weights(service, job["model_id"])
    assert (found["classes"], coef.shape, intercept.shape) == (classes, (6, 36), (6,))
    X, y = X[TEST_ROWS], y[TEST_ROWS]
    scores = X @ coef.T + intercept
    answer = predict(service, job["model_id"], X, **{"return": ["label", "score", "scores"]})
    assert answer["classes"] == classes
    np.testing.assert_allclose([one["scores"] for one in answer["predictions"]], scores, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose([one["score"] for one in answer["predictions"]], scores.max(axis=1), rtol=1e-9)
    labels = [one["label"] for one in answer["predictions"]]
    assert labels == [classes[k] for k in scores.argmax(axis=1)]
    test = model["metrics"]["test"]
    assert test["accuracy"] == pytest.approx(reference.accuracy_score(y, labels))
    assert test["accuracy"] > 0.78
    assert test["f1"] == pytest.approx(reference.f1_score(y, labels, average="macro"))
    assert test["confusion"]["matrix"] == reference.confusion_matrix(y, labels, labels=classes).tolist()
    areas = [reference.roc_auc_score(y == label, scores[:, k]) for k, label in enumerate(classes)]
    assert test["roc_auc"] == pytest.approx(np.mean(areas))


def test_words_of_every_kind_come_back(service: Service) -> None:
    X, values = signal(120)
    words = np.array(["né", "2", "true"])[np.digitize(values, [-1.0, 1.0])]
    data = service.upload(csv_text(X, words))
    job = train(service, data, class_weight="balanced")
    assert job["result"]["task_reason"] == "the labels are 3 text classes"
    model = service.get(f"/v1/models/{job['model_id']}")
    assert model["classes"] == ["2", "né", "true"]
    answer = predict(service, job["model_id"], X)
    labels = [one["label"] for one in answer["predictions"]]
    assert np.mean(np.array(labels) == words) == pytest.approx(model["metrics"]["train"]["accuracy"])
    assert set(labels) == {"né", "2", "true"}
    assert set(answer["predictions"][0]) == {"label", "score"}


def test_an_order_within_queries(service: Service) -> None:
    X, values = signal(200)
    query = np.random.default_rng(1).permutation(np.arange(200) % 10)
    stars = np.digitize(values, [-2.0, 0.0, 2.0])
    data = service.upload(csv_text(np.column_stack([X, query]), stars), group="x5")
    assert data["n_features"] == 5
    job = train(service, data, task="ordinal", split={"test": 0.3}, tol=1e-2, model="shop")
    test = job["result"]["metrics"]["test"]
    assert (test["rows"], test["groups"]) == (60, 3)
    assert test["swapped_pairs"] < 0.1
    assert test["ndcg"]["5"] > 0.9
    found, coef, intercept = weights(service, "shop")
    assert (found["task"], found["classes"], len(found["thresholds"])) == ("ordinal", [0, 1, 2, 3], 3)
    scores = X @ coef + intercept
    ranks = np.searchsorted(found["thresholds"], scores).tolist()
    answer = predict(service, "shop", X, **{"return": ["label", "rank", "score"]})
    np.testing.assert_allclose([one["score"] for one in answer["predictions"]], scores, rtol=1e-9, atol=1e-12)
    assert [one["label"] for one in answer["predictions"]] == ranks
    assert [one["rank"] for one in answer["predictions"]] == ranks


def test_a_real_relevance_orders_and_names_no_rank(service: Service) -> None:
    X, values = signal(300)
    job = train(service, service.upload(csv_text(X, values)), task="ordinal", tol=1e-2)
    assert job["result"]["metrics"]["train"]["kendall_tau"] > 0.8
    assert set(predict(service, job["model_id"], X)["predictions"][0]) == {"score"}
    body = {"instances": X[:1].tolist(), "return": ["label"]}
    refused = service.http.post(f"/v1/models/{job['model_id']}/predict", json=body)
    assert (refused.status_code, refused.json()["code"]) == (422, "unknown_output")


def test_wine_is_ranked_about_as_well_as_it_is_regressed(service: Service, shared_data: Path) -> None:
    X, y = real(shared_data, "wine_quality_red")
    data = service.upload(csv_text(X, y))
    asked = {"split": {"test": 0.3}, "tol": 1e-2}
    ordinal = train(service, data, task="ordinal", **asked)["result"]["metrics"]["test"]
    regression = train(service, data, task="regression", **asked)["result"]["metrics"]["test"]
    assert ordinal["mae"] < 0.6
    assert regression["mae"] < 0.6


def test_numbers_of_a_real_set(service: Service, shared_data: Path) -> None:
    X, y = real(shared_data, "boston_housing")
    data = service.upload(csv_text(X, y))
    job = train(service, data, cross_validation=5, model="houses", tol=1e-2)
    assert job["result"]["task"] == "regression"
    validation = job["result"]["cross_validation"]
    assert (len(validation["folds"]), validation["by"]) == (5, "row")
    assert 0.5 < validation["mean"]["r2"] < 0.9
    assert service.get("/v1/models/houses")["cross_validation"] == validation
    found, coef, intercept = weights(service, "houses")
    assert (found["task"], found["classes"], found["thresholds"]) == ("regression", [], None)
    answer = predict(service, "houses", X)
    values = X @ coef + intercept
    np.testing.assert_allclose([one["label"] for one in answer["predictions"]], values, rtol=1e-9)
    assert all(one["score"] == one["label"] for one in answer["predictions"])
    assert service.get("/v1/models/houses")["metrics"]["train"]["mae"] == pytest.approx(np.abs(values - y).mean())


def test_two_classes_have_curves(service: Service) -> None:
    X, values = signal(400)
    job = train(service, service.upload(csv_text(X, np.where(values > 0, "up", "down"))), split={"test": 0.5})
    model = service.get(f"/v1/models/{job['model_id']}")
    area = np.trapezoid(model["curves"]["roc"]["tpr"], model["curves"]["roc"]["fpr"])
    assert area == pytest.approx(model["metrics"]["test"]["roc_auc"])
    assert len(model["curves"]["pr"]["recall"]) <= 200
    assert 0.9 < model["metrics"]["test"]["pr_auc"] <= 1
    assert 0.8 < model["metrics"]["test"]["prbep"] <= 1


def test_cancel_ends_a_cross_validation(service: Service) -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(4000, 30))
    data = service.upload(csv_text(X, random.integers(0, 2, 4000)))
    job = service.submit(data["id"], cross_validation=50, C=1000.0, tol=1e-10, stop={"seconds": 300})
    assert service.http.post(f"/v1/jobs/{job['id']}/cancel").status_code == 200
    assert service.wait(job["id"], 10)["status"] == "cancelled"


def problem(service: Service, dataset: Json, **fields: Any) -> Json:
    refused = service.http.post("/v1/jobs", json={"dataset_id": dataset["id"], **fields})
    assert refused.status_code == 422, refused.text
    body: Json = refused.json()
    return body


def test_what_a_task_cannot_have_is_refused_by_field(service: Service) -> None:
    X, values = signal(60)
    words = service.upload(csv_text(X, np.array(["a", "b", "c"])[np.digitize(values, [-1.0, 1.0])]))
    two = service.upload(csv_text(X, np.where(values > 0, 1, 0)))
    for data, fields, field in [
        (words, {"task": "ordinal"}, "task"),
        (words, {"task": "regression"}, "task"),
        (words, {"task": "binary"}, "task"),
        (words, {"strategy": "ovo"}, "strategy"),
        (two, {"loss": "epsilon_insensitive"}, "loss"),
        (two, {"split": {"group": True}}, "split.group"),
        (two, {"split": {"fold_column": "x0"}}, "split.fold_column"),
        (two, {"cross_validation": 1}, "cross_validation"),
        (two, {"cross_validation": 50}, "cross_validation"),
        (two, {"task": "ordinal", "class_weight": "balanced"}, "class_weight"),
    ]:
        assert problem(service, data, **fields)["errors"][0]["field"] == field, fields
