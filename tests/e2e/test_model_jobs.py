"""Verification, evaluation and batch prediction through a real service, as a client would use them."""

import csv
import io
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.serving import Service, checked
from tests.support.tables import csv_text

Json = dict[str, Any]


@pytest.fixture(scope="session")
def service(sqlite_service: Service) -> Service:
    return sqlite_service


@pytest.fixture(scope="session")
def data(service: Service) -> Json:
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 3))
    labels = np.where(X @ [2.0, -1.0, 0.5] + 0.5 * random.normal(size=300) > 0, "up", "down")
    dataset = service.upload(csv_text(X, labels))
    job = service.wait(service.submit(dataset["id"], model="m", split={"test": 0.3})["id"])
    assert job["status"] == "succeeded", job["error"]
    assert service.http.put("/v1/models/m/aliases/prod", json={"version": 1}).status_code == 201
    return dataset


def on_model(service: Service, action: str, **body: Any) -> Json:
    path = f"/v1/models/m@prod/{action}"
    job = checked(service.http.post(path, json=body, headers={"Prefer": "wait=30"}))
    assert job["status"] == "succeeded", job["error"]
    return job


def test_a_certificate_is_had_again(service: Service, data: Json) -> None:
    job = on_model(service, "verify")
    assert (job["type"], job["model"], job["dataset_id"]) == ("verify", "m", data["id"])
    assert job["result"]["matches"] is True
    claimed = service.get("/v1/models/m")["certificate"]
    assert job["result"]["primal"] == pytest.approx(claimed["primal"], rel=1e-9)
    assert job["relative_gap"] == pytest.approx(claimed["relative_gap"], rel=1e-6)
    empty = service.http.post("/v1/models/m/verify", headers={"Prefer": "wait=30"})
    assert (empty.status_code, empty.json()["status"]) == (201, "succeeded")
    assert service.get(f"/v1/jobs/{job['id']}/trace")["data"] == []


def test_an_evaluation_is_stored(service: Service, data: Json) -> None:
    job = on_model(service, "evaluate", dataset_id=data["id"])
    evaluation = service.get(f"/v1/evaluations/{job['result']['evaluation_id']}")
    assert (evaluation["rows"], evaluation["dataset_id"], evaluation["job_id"]) == (300, data["id"], job["id"])
    assert evaluation["metrics"] == job["result"]["metrics"]
    assert 0.5 < evaluation["metrics"]["accuracy"] <= 1.0
    assert sum(evaluation["histogram"]["counts"]) == 300
    assert evaluation["curves"]["roc"]["fpr"][0] == 0.0
    (listed, *_) = service.get("/v1/models/m/evaluations")["data"]
    assert listed == {name: evaluation[name] for name in listed}
    for path in ("/v1/evaluations/x", "/v1/evaluations/ev_01m7h944fsex4m8e47tq1ns5tn", "/v1/models/x/evaluations"):
        assert service.http.get(path).status_code == 404


def test_probabilities_are_answered_and_judged(service: Service, data: Json) -> None:
    asked = {"model": "sure", "calibrate": True, "split": {"test": 0.3}}
    job = service.wait(service.submit(data["id"], **asked)["id"])
    assert job["status"] == "succeeded", job["error"]
    assert (job["result"]["calibration"]["method"], job["result"]["calibration"]["rows"]) == ("platt", 210)
    assert 0.0 < job["result"]["metrics"]["test"]["brier"] < 0.25
    assert service.get("/v1/models/sure")["calibration"] == job["result"]["calibration"]
    rows = np.random.default_rng(1).normal(size=(50, 3))
    body = {"instances": rows.tolist(), "return": ["label", "score", "probability", "probabilities"]}
    answer = checked(service.http.post("/v1/models/sure/predict", json=body))
    assert answer["classes"] == ["down", "up"]
    found = sorted(answer["predictions"], key=lambda one: one["score"])
    said = [one["probability"] for one in found]
    assert said == sorted(said), "it falls while the score rises"
    assert said[0] < 0.3 < 0.7 < said[-1]
    for one in found:
        assert one["probabilities"][1] == one["probability"]
        assert sum(one["probabilities"]) == pytest.approx(1.0, abs=1e-12)
    path = "/v1/models/sure/evaluate"
    judged = checked(service.http.post(path, json={"dataset_id": data["id"]}, headers={"Prefer": "wait=30"}))
    assert judged["result"]["metrics"]["calibration_error"] < 0.15
    refused = service.http.post("/v1/models/m/predict", json={"instances": [[0, 0, 0]], "return": ["probability"]})
    assert refused.status_code == 422


def test_a_file_of_predictions(service: Service, data: Json) -> None:
    body = {"type": "predict", "model": "m@prod", "dataset_id": data["id"], "return": ["score", "label"]}
    job = checked(service.http.post("/v1/jobs", json=body, headers={"Prefer": "wait=30"}))
    assert job["status"] == "succeeded", job["error"]
    assert (job["result"]["rows"], job["result"]["predicted"], job["result"]["failed"]) == (300, 300, 0)
    output = service.http.get(f"/v1/jobs/{job['id']}/output")
    assert output.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(output.text)))
    assert [row["row"] for row in rows] == [str(number) for number in range(300)]
    preview = service.get(f"/v1/datasets/{data['id']}/preview", rows=5)["data"]
    instances = [row["values"] for row in preview]
    single = service.http.post("/v1/models/m@prod/predict", json={"instances": instances}).json()["predictions"]
    assert [float(row["score"]) for row in rows[:5]] == [one["score"] for one in single]
    assert [row["label"] for row in rows[:5]] == [one["label"] for one in single]
    part = service.http.get(f"/v1/jobs/{job['id']}/output", headers={"Range": "bytes=0-15"})
    assert (part.status_code, part.content) == (206, output.content[:16])
    none = service.http.get(f"/v1/jobs/{job['id']}/errors")
    assert (none.status_code, none.json()["code"]) == (409, "no_errors")
    assert service.http.delete(f"/v1/jobs/{job['id']}/output").status_code == 204
    gone = service.http.get(f"/v1/jobs/{job['id']}/output")
    assert (gone.status_code, gone.json()["code"]) == (409, "output_deleted")


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"type": "guess"}, 422, None),
        ({"type": ["train"]}, 422, None),
        ({"type": "evaluate", "model": "m"}, 422, "dataset_id"),
        ({"type": "evaluate", "model": "m", "dataset_id": "x"}, 422, "dataset_id"),
        ({"type": "verify", "model": "none"}, 422, "model"),
        ({"type": "predict", "model": "m", "dataset_id": "x", "format": "xls"}, 422, "format"),
        ({"type": "predict", "model": "m", "dataset_id": "x", "return": ["contributions"]}, 422, "return.0"),
        ({"type": "predict", "model": "m", "dataset_id": "x", "C": 1.0}, 422, "C"),
        ({"type": "train", "dataset_id": "x", "C": -1.0}, 422, "C"),
    ],
)
def test_what_a_job_cannot_be_is_refused_by_field(service: Service, body: Json, status: int, field: str | None) -> None:
    refused = service.http.post("/v1/jobs", json=body)
    assert refused.status_code == status, refused.text
    assert refused.json()["errors"][0].get("field") == field


def test_only_a_batch_prediction_has_files(service: Service, data: Json) -> None:
    job = on_model(service, "verify", dataset_id=data["id"])
    for method, path in (("GET", "output"), ("GET", "errors"), ("DELETE", "output")):
        refused = service.http.request(method, f"/v1/jobs/{job['id']}/{path}")
        assert (refused.status_code, refused.json()["code"]) == (409, "no_output")
    assert service.http.get("/v1/jobs/job_01m7h944fsex4m8e47tq1ns5tn/output").status_code == 404
    assert service.http.post("/v1/models/none/verify").status_code == 404


def test_truths_of_one_format_are_judged_by_those_of_another(service: Service) -> None:
    X = np.random.default_rng(3).normal(size=(60, 2))
    rows = [{"a": a, "b": b, "bought": bool(a > b)} for a, b in X.tolist()]
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    dataset = service.upload(lines, "application/x-ndjson")
    assert [one["label"] for one in dataset["classes"]] == ["false", "true"]
    job = service.wait(service.submit(dataset["id"], model="truths", class_weight={"true": 2.0})["id"])
    assert job["status"] == "succeeded", job["error"]
    body = {"instances": [{"a": 2.0, "b": -2.0}, {"a": -2.0, "b": 2.0}]}
    answer = checked(service.http.post("/v1/models/truths/predict", json=body))
    assert [one["label"] for one in answer["predictions"]] == ["true", "false"]
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), file)
    same = service.upload(file.getvalue(), "application/vnd.apache.parquet")
    path, wait = "/v1/models/truths/evaluate", {"Prefer": "wait=30"}
    judged = checked(service.http.post(path, json={"dataset_id": same["id"]}, headers=wait))
    assert judged["result"]["metrics"]["accuracy"] > 0.9
