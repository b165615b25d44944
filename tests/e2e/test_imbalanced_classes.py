"""A rare class through a real service: its threshold decides in every way to predict, and summaries are short."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from tests.support.builders import checked_problem
from tests.support.serving import Service, checked
from tests.support.tables import csv_text

Json = dict[str, Any]
ONE_SCREEN = 40
"""Most lines of the summary of the quick start, as indented JSON, without its warnings of four lines each."""


@pytest.fixture(scope="module")
def service(sqlite_service: Service) -> Service:
    return sqlite_service


def lines_of(shown: Json, warnings: list[Any]) -> int:
    return len(json.dumps(shown, indent=2).splitlines()) - 4 * len(warnings)


def rare(rows: int, seed: int) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, 3))
    return X, np.where(X @ [1.0, -0.7, 0.5] + random.normal(size=rows) > 2.6, "fraud", "fine")


@pytest.fixture(scope="module")
def tuned(service: Service) -> Json:
    dataset = service.upload(csv_text(*rare(1200, 1)))
    fields = {"C": 1.0, "threshold": {"metric": "balanced_accuracy"}, "split": {"test": 0.25}}
    job = service.wait(service.submit(dataset["id"], model="rare", **fields)["id"])
    assert job["status"] == "succeeded", job["error"]
    return job


def test_the_threshold_decides_in_every_way_to_predict(service: Service, tuned: Json) -> None:
    limit = tuned["result"]["threshold"]["value"]
    model = service.get("/v1/models/rare")
    assert model["threshold"] == tuned["result"]["threshold"]
    assert model["metrics"]["test"]["threshold"] == limit
    assert service.get("/v1/models/rare/weights")["thresholds"] == [limit]
    X, truth = rare(400, 2)
    body = {"instances": X.tolist(), "return": ["label", "score", "label_certain", "score_error_bound"]}
    rows = checked(service.http.post("/v1/models/rare/predict", json=body))["predictions"]
    labels = ["fraud" if row["score"] > limit else "fine" for row in rows]
    by_sign = ["fraud" if row["score"] > 0 else "fine" for row in rows]
    assert labels != by_sign
    assert [row["label"] for row in rows] == labels
    for row in rows:
        assert row["label_certain"] is (abs(row["score"] - limit) > row["score_error_bound"])
    invoked = checked(service.http.post("/v1/models/rare/invocations", json={"instances": X.tolist()}))
    assert invoked["predictions"] == labels
    tensor = {"name": "X", "datatype": "FP64", "shape": list(X.shape), "data": X.ravel().tolist()}
    inferred = checked(service.http.post("/v2/models/rare/infer", json={"inputs": [tensor]}))
    assert next(one["data"] for one in inferred["outputs"] if one["name"] == "label") == labels
    dataset = service.upload(csv_text(X, truth))
    asked = {"type": "predict", "dataset_id": dataset["id"], "model": "rare"}
    batch = checked(service.http.post("/v1/jobs", json=asked, headers={"Prefer": "wait=60"}))
    written = list(csv.DictReader(io.StringIO(service.http.get(f"/v1/jobs/{batch['id']}/output").text)))
    assert [row["label"] for row in written] == labels
    evaluated = checked(
        service.http.post("/v1/models/rare/evaluate", json={"dataset_id": dataset["id"]}, headers={"Prefer": "wait=60"})
    )
    metrics = evaluated["result"]["metrics"]
    assert metrics["accuracy"] == pytest.approx(np.mean(np.array(labels) == truth))
    assert (metrics["positive_class"], metrics["threshold"]) == ("fraud", limit)
    onnx = service.http.get("/v1/models/rare/export", params={"format": "onnx"})
    assert onnx.headers["x-threshold"] == repr(limit)
    assert onnxruntime.InferenceSession(onnx.content).run(["label"], {"X": X})[0].tolist() == labels
    for kind in ("verifier", "liblinear"):
        exported = service.http.get("/v1/models/rare/export", params={"format": kind})
        assert exported.status_code == 200, exported.text
        assert exported.headers["x-threshold"].startswith(repr(limit))


def test_a_summary_fits_on_one_screen(service: Service, tuned: Json) -> None:
    radar = (Path(__file__).parents[2] / "app" / "examples" / "ionosphere.csv").read_bytes()
    dataset = service.upload(radar)
    body = {"dataset_id": dataset["id"], "model": "screen"}
    job = checked(service.http.post("/v1/jobs", params={"view": "summary"}, json=body, headers={"Prefer": "wait=60"}))
    assert job["status"] == "succeeded", job["error"]
    assert lines_of(job, job["result"]["warnings"]) <= ONE_SCREEN
    assert service.get(f"/v1/jobs/{job['id']}", view="summary") == job
    whole = service.get(f"/v1/jobs/{job['id']}")
    result = job["result"]
    assert result["headline"] == whole["result"]["headline"]
    for name, value in result["metrics"]["train"].items():
        assert value == whole["result"]["metrics"]["train"][name]
    assert {one["code"] for one in result["warnings"]} == {one["code"] for one in whole["result"]["warnings"]}
    model = service.get("/v1/models/screen", view="summary")
    assert "curves" not in model
    assert lines_of(model, model["warnings"]) <= ONE_SCREEN + 5
    assert model["metrics"] == result["metrics"]
    (listed,) = service.get("/v1/models", name="screen")["data"]
    assert listed["headline"] == result["headline"]
    (listed,) = service.get("/v1/models", name="rare")["data"]
    assert (listed["headline"]["name"], listed["headline"]["rows"]) == ("balanced_accuracy", "test")
    running = service.get(f"/v1/jobs/{tuned['id']}", view="summary")["result"]
    assert running["threshold"]["metric"] == "balanced_accuracy"
    refused = checked_problem(service.http.get("/v1/models/radar", params={"view": "x"}), 422)
    assert refused["errors"][0]["field"] == "view"


def test_a_label_that_is_none_of_the_classes(service: Service, tuned: Json) -> None:
    for fields in ({"type": "train"}, {"type": "tune"}, {"type": "race", "solvers": ["dcd", "newton"]}):
        body = {"dataset_id": tuned["dataset_id"], "model": "x", "positive_class": "maybe", **fields}
        problem = checked_problem(service.http.post("/v1/jobs", json=body), 422)
        assert [item["field"] for item in problem["errors"]] == ["positive_class"]
        assert "'fine', 'fraud'" in problem["errors"][0]["detail"]
    body = {"dataset_id": tuned["dataset_id"], "positive_class": "maybe"}
    problem = checked_problem(service.http.post("/v1/models/rare/evaluate", json=body), 422)
    assert problem["errors"][0]["field"] == "positive_class"
