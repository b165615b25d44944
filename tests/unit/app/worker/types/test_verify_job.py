"""Verification jobs: what a model claims is had again from the stored rows, and what was changed is found out."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import update

from app.config import Settings
from app.db.tables import DatasetRow, ModelRow
from app.errors import AppError
from app.jobs import service as jobs
from app.jobs.admission import Admission
from app.jobs.types.verify_request import VerifyRequest
from app.models import file
from app.models import service as models
from app.worker import stored_proof
from tests.support.worker_bench import Bench, noisy, three_words, worker_bench

Json = dict[str, Any]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with worker_bench(tmp_path) as bench:
        yield bench


def verify(bench: Bench, job: Json, **fields: Any) -> Json:
    found = bench.run_on_model(VerifyRequest(type="verify", model=job["model_id"], **fields))
    assert found["status"] == "succeeded", found["error"]
    assert found["model_id"] == job["model_id"]
    result: Json = found["result"]
    return result


TASKS: list[Json] = [
    {"solver": "dcd", "split": {"test": 0.3}},
    {"solver": "tron", "loss": "squared_hinge"},
    {"solver": "pegasos", "stop": {"passes": 20}},
    {"solver": "oca_t"},
    {"task": "multiclass", "strategy": "ovr", "class_weight": {"low": 3.0}},
    {"task": "multiclass", "strategy": "crammer_singer"},
    {"task": "multiclass", "strategy": "crammer_singer", "bias": "free"},
    {"task": "ordinal"},
    {"task": "regression"},
]


@pytest.mark.parametrize("fields", TASKS, ids=lambda fields: "-".join(str(v) for v in fields.values())[:40])
def test_what_a_model_claims_is_had_again(bench: Bench, fields: Json) -> None:
    X, signal = noisy(120)
    labels: Any = {
        "multiclass": three_words(signal),
        "ordinal": np.digitize(signal, [-1.0, 1.0]),
        "regression": signal,
    }.get(fields.get("task", ""), (signal > 0).astype(float))
    weight = np.random.default_rng(0).integers(1, 4, 120).astype(float)
    job = bench.run(bench.store(X, labels, weight=weight), tol=1e-2, **fields)
    result = verify(bench, job)
    assert result["matches"] is True, result["differences"]
    assert result["bound_from"] == "the stored dual point"
    claimed = job["result"]["certificate"]
    assert result["primal"] == pytest.approx(claimed["primal"], rel=1e-9)
    assert result["dual_bound"] == pytest.approx(claimed["dual_bound"], rel=1e-9)
    assert result["relative_gap"] == pytest.approx(claimed["relative_gap"], rel=1e-6, abs=1e-9)


def trained(bench: Bench, rows: int = 200) -> tuple[str, Json]:
    X, signal = noisy(rows)
    dataset_id = bench.store(X, (signal > 0).astype(float))
    return dataset_id, bench.run(dataset_id, tol=1e-3)


def change(bench: Bench, table: Any, row_id: str, **values: Any) -> None:
    with bench.database.write() as session:
        session.execute(update(table).where(table.id == row_id).values(**values))


def test_without_a_dual_point_a_bound_is_found_anew(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_proof, "MOST_BYTES", 10)
    _, job = trained(bench)
    result = verify(bench, job)
    assert result["matches"] is True
    assert result["bound_from"] == "a dual point found from the weights"
    assert "weaker" in result["notes"][0]
    assert result["dual_bound"] <= job["primal"]
    assert result["relative_gap"] < 0.1


def test_a_damaged_dual_point_is_not_believed(bench: Bench) -> None:
    _, job = trained(bench)
    with bench.database.read() as session:
        stored = models.resolve(session, job["model_id"]).proof
    assert stored is not None
    path = bench.blobs.path(stored)
    path.write_bytes(path.read_bytes()[:-8] + b"\xff" * 8)
    result = verify(bench, job)
    assert result["bound_from"] == "a dual point found from the weights"
    assert "damaged" in result["notes"][0]


def test_changed_weights_are_found_out(bench: Bench) -> None:
    _, job = trained(bench)
    with bench.database.read() as session:
        row = models.resolve(session, job["model_id"])
    stored = file.read(bench.blobs.path(row.blob))
    forged = {"coef": stored.coef * 1.1, "intercept": np.array([stored.intercept])}
    blob = bench.blobs.put(file.encode(stored.header, forged))
    change(bench, ModelRow, row.id, blob=blob)
    result = verify(bench, job)
    assert result["matches"] is False
    assert [one["field"] for one in result["differences"]] == ["certificate.primal"]
    assert result["differences"][0]["found"] > result["differences"][0]["claimed"]


def test_other_rows_are_found_out(bench: Bench) -> None:
    dataset_id, job = trained(bench)
    X, signal = noisy(200, seed=5)
    other = bench.store(X, (signal > 0).astype(float))
    change(bench, DatasetRow, other, sha256="f" * 64)
    result = verify(bench, job, dataset_id=other)
    assert result["matches"] is False
    fields = [one["field"] for one in result["differences"]]
    assert fields == ["dataset.sha256", "certificate.primal", "certificate.dual_bound"]
    assert dataset_id != other
    labels = (signal > 0).astype(float)
    for rows, code in (
        (bench.store(X[:, :2], labels), "feature_mismatch"),
        (bench.store(X, labels + 1.0), "unknown_class"),
    ):
        with pytest.raises(AppError) as refusal:
            bench.run_on_model(VerifyRequest(type="verify", model="m", dataset_id=rows))
        assert refusal.value.code == code
    one_class = bench.store(X, np.ones(len(X)))
    failed = bench.run_on_model(VerifyRequest(type="verify", model="m", dataset_id=one_class))
    assert (failed["status"], failed["error"]["code"]) == ("failed", "other_data")


def test_what_cannot_be_verified_is_refused(bench: Bench) -> None:
    dataset_id, job = trained(bench)
    with bench.database.write() as session:
        session.delete(session.get(DatasetRow, dataset_id))
    for fields, code in (
        ({"model": "m"}, "dataset_deleted"),
        ({"model": "m", "dataset_id": dataset_id}, "unknown_dataset"),
        ({"model": "x"}, "unknown_model"),
    ):
        with pytest.raises(AppError) as refusal:
            bench.run_on_model(VerifyRequest(type="verify", **fields))
        assert refusal.value.code == code
    change(bench, ModelRow, job["model_id"], job_id=None)
    with pytest.raises(AppError) as refusal:
        bench.run_on_model(VerifyRequest(type="verify", model="m"))
    assert refusal.value.code == "model_not_trained_here"


def test_a_model_deleted_meanwhile_fails_the_job(bench: Bench) -> None:
    _, job = trained(bench)
    request = VerifyRequest(type="verify", model="m")
    with bench.database.write() as session:
        job_id = jobs.submit(session, request, Admission(bench.blobs, Settings())).id
        models.delete(session, "m")
    failed = bench.execute(job_id)
    assert (failed["status"], failed["error"]["code"]) == ("failed", "model_deleted")
    assert failed["model_id"] == job["model_id"]


def test_a_cancelled_verification_keeps_nothing(bench: Bench) -> None:
    _, job = trained(bench)
    cancelled = bench.run_on_model(VerifyRequest(type="verify", model="m"), lambda: "cancel")
    assert (cancelled["status"], cancelled["result"]) == ("cancelled", None)
    assert job["status"] == "succeeded"
