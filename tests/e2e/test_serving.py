"""Predictions over HTTP by those who ask for them: plain HTTP, tritonclient, what MLflow clients send, our client."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import tritonclient.http as triton
from hyperplane import Client
from tritonclient.utils import InferenceServerException

from tests.support.serving import Service
from tests.support.tables import csv_text

Json = dict[str, Any]

X = np.random.default_rng(0).normal(size=(80, 5)) * [1.0, 2.0, 0.5, 1.0, 3.0]
VALUES = X @ [1.0, -0.5, 2.0, 0.1, 0.3]
NAMES = [f"x{j}" for j in range(5)]


@pytest.fixture(scope="session")
def service(sqlite_service: Service) -> Service:
    for name, labels, tol in (
        ("words", np.where(VALUES > 0, "up", "down"), 1e-2),
        ("numbers", np.digitize(VALUES, [-2.0, 2.0]), 1e-6),
        ("amounts", VALUES + 0.5, 1e-6),
    ):
        data = sqlite_service.upload(csv_text(X, labels))
        job = sqlite_service.wait(sqlite_service.submit(data["id"], model=name, tol=tol, loss="auto")["id"])
        assert job["status"] == "succeeded", job["error"]
    return sqlite_service


@pytest.fixture(scope="session")
def table(service: Service) -> str:
    """A model of a number, a category and a text."""
    lines = ["age,job,note,label"]
    for number in range(60):
        job, note = ("baker", "free money now") if number % 2 else ("nurse", "see you at lunch")
        lines.append(
            f"{20 + number % 7 if number % 5 else ''},{job},{note} {number % 3},{'spam' if number % 2 else 'ham'}"
        )
    data = service.upload("\n".join(lines).encode())
    preprocess = {"missing": "mean", "columns": {"note": {"kind": "text"}}}
    job_done = service.wait(service.submit(data["id"], model="table", preprocess=preprocess)["id"])
    assert job_done["status"] == "succeeded", job_done["error"]
    return "table"


@pytest.fixture
def client(service: Service) -> Iterator[triton.InferenceServerClient]:
    client = triton.InferenceServerClient(f"127.0.0.1:{service.port}")
    yield client
    client.close()


def predict(service: Service, model: str, rows: Any = X, **fields: Any) -> list[Json]:
    body = {"instances": np.asarray(rows).tolist(), **fields}
    answer = service.http.post(f"/v1/models/{model}/predict", json=body)
    assert answer.status_code == 200, answer.text
    found: list[Json] = answer.json()["predictions"]
    return found


def matrix_input(rows: Any, binary: bool, datatype: str = "FP64") -> triton.InferInput:
    kinds = {"FP64": np.float64, "FP32": np.float32, "INT64": np.int64}
    tensor = triton.InferInput("X", list(rows.shape), datatype)
    tensor.set_data_from_numpy(rows.astype(kinds[datatype]), binary_data=binary)
    return tensor


def test_tritonclient_sees_a_server_and_its_models(client: triton.InferenceServerClient) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.get_server_metadata()["extensions"] == ["binary_tensor_data"]
    assert client.is_model_ready("words")
    assert client.is_model_ready("words", "1")
    assert not client.is_model_ready("words", "2")
    assert not client.is_model_ready("nothing")
    metadata = client.get_model_metadata("words", "1")
    assert (metadata["name"], metadata["versions"]) == ("words", ["1"])
    assert metadata["inputs"] == [{"name": "X", "datatype": "FP64", "shape": [-1, 5]}]
    outputs = {one["name"]: one["datatype"] for one in metadata["outputs"]}
    assert (outputs["label"], outputs["score"], outputs["label_certain"]) == ("BYTES", "FP64", "BOOL")
    outputs = {one["name"]: one for one in client.get_model_metadata("numbers")["outputs"]}
    assert (outputs["label"]["datatype"], outputs["scores"]["shape"]) == ("INT64", [-1, 3])


@pytest.mark.parametrize("binary_output", [True, False, None], ids=["raw", "json", "default"])
@pytest.mark.parametrize("binary_input", [True, False], ids=["raw", "json"])
@pytest.mark.parametrize("model", ["words", "numbers", "amounts"])
def test_tritonclient_gets_the_answers_of_predict(
    service: Service, client: triton.InferenceServerClient, model: str, binary_input: bool, binary_output: bool | None
) -> None:
    outputs = None
    if binary_output is not None:
        outputs = [triton.InferRequestedOutput(name, binary_data=binary_output) for name in ("label", "score")]
    answer = client.infer(model, [matrix_input(X, binary_input)], outputs=outputs, request_id="r1")
    expected = predict(service, model)
    assert answer.get_response()["id"] == "r1"
    assert answer.get_response()["model_version"] == "1"
    assert answer.as_numpy("score").tolist() == [one["score"] for one in expected]
    labels = answer.as_numpy("label").tolist()
    if model == "words":
        labels = [one.decode() if isinstance(one, bytes) else one for one in labels]
    assert labels == [one["label"] for one in expected]


def test_tritonclient_asks_for_every_output(service: Service, client: triton.InferenceServerClient) -> None:
    wanted = [one["name"] for one in client.get_model_metadata("numbers")["outputs"]]
    assert {"scores", "score_error_bound", "label_certain"} <= set(wanted)
    outputs = [triton.InferRequestedOutput(name) for name in wanted]
    answer = client.infer("numbers", [matrix_input(X, True)], model_version="1", outputs=outputs)
    expected = predict(service, "numbers", **{"return": wanted})
    for name in wanted:
        assert answer.as_numpy(name).tolist() == [one[name] for one in expected]


def test_tritonclient_may_name_the_columns_and_use_other_types(
    service: Service, client: triton.InferenceServerClient
) -> None:
    inputs = []
    for number, name in enumerate(NAMES):
        column = triton.InferInput(name, [80, 1] if number else [80], "FP64")
        values = X[:, number]
        column.set_data_from_numpy(values[:, None] if number else values, binary_data=bool(number % 2))
        inputs.append(column)
    answer = client.infer("amounts", inputs[::-1])
    assert answer.as_numpy("score").tolist() == [one["score"] for one in predict(service, "amounts")]
    whole = np.round(X)
    for datatype in ("FP32", "INT64"):
        answer = client.infer("amounts", [matrix_input(whole, True, datatype)])
        assert answer.as_numpy("score").tolist() == [one["score"] for one in predict(service, "amounts", whole)]


def test_tritonclient_sends_raw_columns_of_every_kind(
    service: Service, table: str, client: triton.InferenceServerClient
) -> None:
    rows: list[Json] = [
        {"age": 31.0, "job": "baker", "note": "free money"},
        {"age": 22.5, "job": "pilot", "note": "lunch, you"},
    ]
    answer = service.http.post(f"/v1/models/{table}/predict", json={"instances": rows})
    assert answer.status_code == 200, answer.text
    expected = answer.json()["predictions"]
    kinds = {one["name"]: one["datatype"] for one in client.get_model_metadata(table)["inputs"]}
    assert kinds == {"age": "FP64", "job": "BYTES", "note": "BYTES"}
    for binary in (True, False):
        inputs = []
        for name, datatype in kinds.items():
            values = np.array([row[name] for row in rows], dtype=np.float64 if datatype == "FP64" else np.object_)
            inputs.append(triton.InferInput(name, [2], datatype))
            inputs[-1].set_data_from_numpy(values, binary_data=binary)
        found = client.infer(table, inputs)
        assert found.as_numpy("score").tolist() == [one["score"] for one in expected]
    explained = service.http.post(f"/v1/models/{table}/explain?top=20", json={"instances": rows}).json()["explanations"]
    named = {part["feature"] for part in explained[0]["contributions"]}
    assert "job=baker" in named
    assert any(name.startswith("note:") for name in named)
    assert [one["score"] for one in explained] == [one["score"] for one in expected]


def test_tritonclient_is_told_what_is_wrong(client: triton.InferenceServerClient) -> None:
    for rows, model, said in ((X[:, :4], "words", "5 features"), (X, "nothing", "no such model")):
        with pytest.raises(InferenceServerException) as caught:
            client.infer(model, [matrix_input(rows, True)])
        assert said in str(caught.value)
    hole = X.copy()
    hole[3, 2] = np.nan
    with pytest.raises(InferenceServerException) as caught:
        client.infer("words", [matrix_input(hole, True)])
    assert "X[3].x2: a value is missing" in str(caught.value)


INVOCATIONS: dict[str, Json] = {
    "split": {"dataframe_split": {"columns": NAMES, "index": [0, 1], "data": X[:2].tolist()}},
    "split in another order": {
        "dataframe_split": {"columns": NAMES[::-1], "data": X[:2, ::-1].tolist()},
    },
    "split without names": {"dataframe_split": {"columns": [0, 1, 2, 3, 4], "data": X[:2].tolist()}},
    "records": {"dataframe_records": [dict(zip(NAMES, row, strict=True)) for row in X[:2].tolist()]},
    "instances": {"instances": X[:2].tolist()},
    "named instances": {"instances": [dict(zip(NAMES, row, strict=True)) for row in X[:2].tolist()]},
    "inputs": {"inputs": X[:2].tolist(), "params": {}},
    "named inputs": {"inputs": {name: X[:2, j].tolist() for j, name in enumerate(NAMES)}},
}


@pytest.mark.parametrize("shape", INVOCATIONS)
def test_what_mlflow_clients_send_is_answered_as_mlflow_does(service: Service, shape: str) -> None:
    for model in ("words", "numbers", "amounts"):
        answer = service.http.post(f"/v1/models/{model}/invocations", json=INVOCATIONS[shape])
        assert answer.status_code == 200, answer.text
        assert answer.json() == {"predictions": [one["label"] for one in predict(service, model, X[:2])]}


def test_mlflow_bodies_made_by_pandas_and_mistakes_in_them(service: Service) -> None:
    frame = pd.DataFrame(X[:3], columns=NAMES)
    expected = [one["label"] for one in predict(service, "words", X[:3])]
    path = "/v1/models/words/invocations"
    for given in (frame, frame[NAMES[::-1]], pd.DataFrame(X[:3])):
        body = json.dumps({"dataframe_split": given.to_dict(orient="split")})
        answer = service.http.post(path, content=body, headers={"Content-Type": "application/json"})
        assert answer.json() == {"predictions": expected}
    answer = service.http.post(path, content=frame.to_csv(index=False), headers={"Content-Type": "text/csv"})
    assert answer.json() == {"predictions": expected}
    wanted = {"params": {"return": ["score", "label"]}, "instances": X[:3].tolist()}
    assert service.http.post(path, json=wanted).json() == {"predictions": predict(service, "words", X[:3])}
    for wrong, field in (
        ({}, "body"),
        ({"instances": [[1]], "inputs": [[1]]}, "body"),
        ({"instances": [[1]]}, "instances[0]"),
        ({"inputs": {"x0": [1, 2], "x1": [1]}}, "inputs"),
        ({"inputs": []}, "inputs"),
        ({"dataframe_split": {"columns": ["x0", "x0"], "data": [[1, 2]]}}, "dataframe_split.columns"),
        ({"dataframe_split": {"columns": NAMES, "data": [[1, 2]]}}, "dataframe_split.data[0]"),
        ({"dataframe_split": {"columns": NAMES, "data": [[1, 2, "x", 4, 5]]}}, "dataframe_split.data[0].x2"),
        ({"dataframe_split": {"columns": [1, 0, 2, 3, 4], "data": [[0] * 5]}}, "dataframe_split.columns"),
        ({"dataframe_split": {"columns": [0, 1], "data": [[0] * 5]}}, "dataframe_split.data[0]"),
        ({"dataframe_records": [{"x0": 1}]}, "dataframe_records[0]"),
        ({"instances": [[0] * 5], "params": {"temperature": 1}}, "params"),
    ):
        answer = service.http.post(path, json=wrong)
        assert answer.status_code == 422, (wrong, answer.text)
        assert answer.json()["errors"][0]["field"] == field, (wrong, answer.text)


def test_a_row_is_explained_by_its_strongest_features(service: Service) -> None:
    weights = service.get("/v1/models/words/weights")
    answer = service.http.post("/v1/models/words/explain?top=2", json={"instances": X[:5].tolist()})
    assert answer.status_code == 200, answer.text
    document = answer.json()
    assert (document["name"], document["version"]) == ("words", 1)
    assert document["relative_to"] == "training_mean"
    for row, one in zip(X, document["explanations"], strict=False):
        added = (row - X.mean(axis=0)) * np.array(weights["coef"])
        strongest = np.argsort(-np.abs(added))[:2]
        assert [part["feature"] for part in one["contributions"]] == [NAMES[j] for j in strongest]
        found = [part["contribution"] for part in one["contributions"]]
        assert found == pytest.approx(added[strongest].tolist(), rel=1e-12)
        total = sum(part["contribution"] for part in one["contributions"]) + one["others"]["contribution"]
        assert total + one["intercept"] == pytest.approx(one["score"], rel=1e-12, abs=1e-12)
        assert one["others"]["count"] == 3
        assert one["text"].startswith(f"{one['label']} (score ")
        assert NAMES[strongest[0]] in one["text"]


def test_the_answer_comes_in_the_accepted_format_and_says_who_answered(service: Service) -> None:
    body = {"instances": X[:2].tolist()}
    for accept, content_type in (
        ("text/csv", "text/csv; charset=utf-8"),
        ("application/x-npy", "application/x-npy"),
        ("application/vnd.apache.arrow.stream", "application/vnd.apache.arrow.stream"),
        ("application/x-ndjson", "application/x-ndjson"),
        ("*/*", "application/json"),
    ):
        answer = service.http.post("/v1/models/words/predict", json=body, headers={"Accept": accept})
        assert (answer.status_code, answer.headers["content-type"]) == (200, content_type)
        assert answer.headers["x-model-name"] == "words"
        assert answer.headers["x-model-version"] == "1"
        assert answer.headers["x-model-id"].startswith("mdl_")


def test_a_large_body_is_answered_as_a_small_one(service: Service) -> None:
    many = np.tile(X, (40, 1))
    assert predict(service, "numbers", many) == predict(service, "numbers") * 40


def test_the_bound_of_a_loosely_trained_model_is_told(service: Service) -> None:
    card = service.get("/v1/models/words")
    found = predict(service, "words", **{"return": ["score", "score_error_bound", "label_certain"]})
    radius = np.sqrt(2.0 * card["certificate"]["gap"])
    expected = np.sqrt((X**2).sum(axis=1) + 1.0) * radius
    np.testing.assert_allclose([one["score_error_bound"] for one in found], expected, rtol=1e-12)
    assert all(one["label_certain"] is (abs(one["score"]) > one["score_error_bound"]) for one in found)


def test_our_client_sends_what_python_users_have(service: Service) -> None:
    expected = predict(service, "words", X[:4])
    frame = pd.DataFrame(X[:4], columns=NAMES)
    with Client(service.url) as client:
        for rows in (X[:4], X[:4].tolist(), sp.csr_array(X[:4]), sp.csc_matrix(X[:4])):
            assert client.models.predict("words", rows)["predictions"] == expected
        for table in (frame, frame[NAMES[::-1]]):
            assert client.models.predict("words", table).to_dict("records") == expected
        scores = client.models.predict("words", X[:4], outputs=["score"])["predictions"]
        assert scores == [{"score": one["score"]} for one in expected]


def test_formats_over_http(service: Service, tmp_path: Path) -> None:
    expected = predict(service, "words", X[:4])
    stream = io.BytesIO()
    np.save(stream, X[:4])
    for content, media_type in (
        (stream.getvalue(), "application/x-npy"),
        (pd.DataFrame(X[:4], columns=NAMES).to_csv(index=False).encode(), "text/csv"),
        (b"\n".join(json.dumps(row).encode() for row in X[:4].tolist()), "application/x-ndjson"),
    ):
        path = "/v1/models/words/predict?return=label,score"
        answer = service.http.post(path, content=content, headers={"Content-Type": media_type})
        assert answer.status_code == 200, answer.text
        assert answer.json()["predictions"] == expected
    refused = service.http.post("/v1/models/words/predict?index_base=2", json={"instances": X[:1].tolist()})
    assert refused.status_code == 422
