"""The stand-alone verifier: a model and its rows, downloaded from a service, and judged by the shipped file alone."""

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.serving import Service, checked
from tests.support.tables import csv_text

Json = dict[str, Any]


@pytest.fixture(scope="session")
def service(sqlite_service: Service) -> Service:
    return sqlite_service


def export(service: Service, model_id: str) -> bytes:
    response = service.http.get(f"/v1/models/{model_id}/export", params={"format": "verifier"})
    assert response.status_code == 200, response.text
    assert response.headers["X-Max-Score-Difference"] == "0.0"  # the same weights, put into raw units in the same way
    return response.content


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    """Isolated: neither this project nor the environment is there to help."""
    command = [sys.executable, "-I", "verify_model.py", "model.npz", "data.npz"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def downloaded(service: Service, folder: Path, model_id: str) -> None:
    with zipfile.ZipFile(io.BytesIO(export(service, model_id))) as archive:
        assert sorted(archive.namelist()) == ["README.txt", "model.npz", "verify_model.py"]
        archive.extractall(folder)
    job = checked(
        service.http.post(f"/v1/models/{model_id}/verify", json={"rows": True}, headers={"Prefer": "wait=60"})
    )
    assert job["result"]["matches"] is True, job
    output = service.http.get(f"/v1/jobs/{job['id']}/output")
    assert output.headers["content-type"] == "application/x-npz"
    assert len(output.content) == job["result"]["output"]["bytes"]
    (folder / "data.npz").write_bytes(output.content)


random = np.random.default_rng(3)
X = random.normal(size=(150, 3)) * [1e-3, 1.0, 1e3] + [1e6, 0.0, 5.0]
SIGNAL = (X - [1e6, 0.0, 5.0]) / [1e-3, 1.0, 1e3] @ [2.0, -1.0, 0.5] + 0.5 * random.normal(size=150)
LABELS: Json = {
    "binary": np.where(SIGNAL > 0, "up", "down"),
    "multiclass": np.array(["low", "mid", "high"])[np.digitize(SIGNAL, [-1.0, 1.0])],
    "ordinal": np.digitize(SIGNAL, [-1.0, 1.0]).astype(str),
    "regression": SIGNAL.astype(str),
}
CASES: list[Json] = [
    {"task": "binary", "preprocess": {"scale": "standard"}, "split": {"test": 0.2}, "class_weight": {"up": 2.0}},
    {"task": "multiclass", "preprocess": {"scale": "standard"}, "class_weight": "balanced"},
    {"task": "multiclass", "strategy": "crammer_singer", "preprocess": {"scale": "maxabs"}, "bias": "free"},
    {"task": "ordinal", "preprocess": {"scale": "minmax"}},
    {"task": "regression", "preprocess": {"scale": "standard"}, "bias": "none"},
    {"task": "binary", "loss": "logistic", "preprocess": {"scale": "standard"}, "bias": "free"},
    {"task": "multiclass", "loss": "logistic", "preprocess": {"scale": "standard"}},
    {"task": "multiclass", "loss": "logistic", "strategy": "multinomial", "preprocess": {"scale": "standard"}},
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case.values()))[:50])
def test_a_model_is_proved_by_the_file_alone(service: Service, tmp_path: Path, case: Json) -> None:
    dataset = service.upload(csv_text(X, LABELS[case["task"]]))
    job = service.wait(service.submit(dataset["id"], model="proved", tol=1e-3, **case)["id"])
    assert job["status"] == "succeeded", job["error"]
    downloaded(service, tmp_path, job["model_id"])
    found = run(tmp_path)
    assert found.returncode == 0, found
    assert "PROVED" in found.stdout
    if case is not CASES[0]:
        return  # one model is enough to see that the file finds out others
    with np.load(tmp_path / "model.npz") as stored:
        arrays = dict(stored)
    header = json.loads(bytes(arrays["header"]))
    for change in ({"gap": 0.0, "relative_gap": 0.0}, {"primal": header["certificate"]["primal"] * 0.9}):
        forged = {**header, "certificate": {**header["certificate"], **change}}
        content = np.frombuffer(json.dumps(forged).encode(), dtype=np.uint8)
        np.savez(tmp_path / "model.npz", **{**arrays, "header": content})
        assert run(tmp_path).returncode == 1
    np.savez(tmp_path / "model.npz", **arrays)
    np.savez(tmp_path / "data.npz", X=X, y=LABELS[case["task"]])  # not as the solver saw them
    refused = run(tmp_path)
    assert refused.returncode == 2
    assert "preprocesses its columns" in refused.stdout


def test_the_rows_of_a_model_without_preprocessing_are_those_that_were_sent(service: Service, tmp_path: Path) -> None:
    rows = (X - [1e6, 0.0, 5.0]) / [1e-3, 1.0, 1e3]
    dataset = service.upload(csv_text(rows, LABELS["binary"]))
    job = service.wait(service.submit(dataset["id"], model="plain", tol=1e-3)["id"])
    with zipfile.ZipFile(io.BytesIO(export(service, job["model_id"]))) as archive:
        archive.extractall(tmp_path)
    np.savez(tmp_path / "data.npz", X=rows, y=LABELS["binary"])
    assert run(tmp_path).returncode == 0
    without = service.wait(checked(service.http.post("/v1/models/plain/verify"))["id"])
    assert service.http.get(f"/v1/jobs/{without['id']}/output").status_code == 409
