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
    claimed = job["result"]["certificate"]
    # a recomputed bound confirms the claim only if it is at least as high; a lower one proves nothing
    is_as_high = result["dual_bound"] >= claimed["dual_bound"] - 1e-9 * claimed["primal"]
    assert result["matches"] is (True if is_as_high else None)
    assert result["differences"] == []
    assert result["bound_from"] == "a dual point found from the weights"
    assert "weaker" in result["notes"][0]
    assert result["dual_bound"] <= job["primal"]
    assert result["relative_gap"] < 0.1


def test_a_bound_above_what_is_found_without_a_dual_point_is_not_confirmed(bench: Bench) -> None:
    """Not contradicted either, up to the primal value: then it is."""
    _, job = trained(bench)
    certificate = job["result"]["certificate"]
    change(bench, ModelRow, job["model_id"], proof=None)
    for bound, verdict in ((certificate["primal"] * (1 - 1e-7), None), (certificate["primal"] * 1.01, False)):
        gap = max(0.0, certificate["primal"] - bound)
        figures = {"dual_bound": bound, "gap": gap, "relative_gap": gap / certificate["primal"]}
        forge(bench, job["model_id"], {**certificate, **figures})
        result = verify(bench, job)
        assert result["matches"] is verdict, result
        assert (result["differences"] == []) is (verdict is None)


def forge(bench: Bench, model_id: str, certificate: Json) -> None:
    """The same certificate on the model's page and in its file."""
    with bench.database.read() as session:
        row = models.resolve(session, model_id)
        card = {**row.card, "certificate": certificate}
    stored = file.read(bench.blobs.path(row.blob))
    arrays = {"coef": stored.coef, "intercept": np.atleast_1d(stored.intercept), **stored.extra}
    blob = bench.blobs.put(file.encode(stored.header.model_copy(update={"card": card}), arrays))
    change(bench, ModelRow, row.id, card=card, blob=blob)


FORGERIES: list[tuple[Json, list[str]]] = [
    ({"gap": 0.0, "relative_gap": 0.0}, ["gap"]),
    ({"relative_gap": 0.0}, ["relative_gap"]),
    ({"dual_bound": 1.0}, ["dual_bound", "gap"]),
    ({"dual_bound": 0.9999, "gap": 0.0001, "relative_gap": 0.0001}, ["dual_bound"]),
    ({"dual_bound": 1.5, "gap": 0.0, "relative_gap": 0.0}, ["dual_bound"]),
    ({"primal": 0.9}, ["primal", "gap"]),
    ({"dual_bound": None}, ["gap"]),
    ({"dual_bound": None, "gap": None, "relative_gap": None}, ["converged"]),
    ({"dual_bound": 0.5, "gap": 0.5, "relative_gap": 0.5}, ["converged"]),
]


@pytest.mark.parametrize(("forged", "found_out"), FORGERIES, ids=str)
def test_a_forged_certificate_is_found_out(bench: Bench, forged: Json, found_out: list[str]) -> None:
    """Figures are given as shares of the primal value."""
    X, signal = noisy(100)
    job = bench.run(bench.store(X, (signal > 0).astype(float)), tol=1e-2, C=1.0)
    certificate = job["result"]["certificate"]
    assert certificate["relative_gap"] > 1e-6
    scaled = {name: value and value * certificate["primal"] for name, value in forged.items() if name != "relative_gap"}
    kept = {"relative_gap": forged["relative_gap"]} if "relative_gap" in forged else {}
    forge(bench, job["model_id"], {**certificate, **scaled, **kept})
    result = verify(bench, job)
    assert result["matches"] is False
    fields = [one["field"].removeprefix("certificate.") for one in result["differences"]]
    assert set(found_out) <= set(fields), fields


def test_a_forged_page_is_found_out_by_the_file(bench: Bench) -> None:
    _, job = trained(bench)
    with bench.database.read() as session:
        card = models.resolve(session, job["model_id"]).card
    weaker = {**card["certificate"], "method": "by hand"}
    change(bench, ModelRow, job["model_id"], card={**card, "certificate": weaker})
    assert [one["field"] for one in verify(bench, job)["differences"]] == ["file.certificate"]


def test_the_certificate_of_every_class_is_compared(bench: Bench) -> None:
    X, signal = noisy(120)
    job = bench.run(bench.store(X, three_words(signal)), tol=1e-2, task="multiclass", strategy="ovr")
    certificate = job["result"]["certificate"]
    first, second, *rest = certificate["per_class"]
    moved = 0.5 * first["gap"]
    gaps = {"dual_bound": first["dual_bound"] + moved, "gap": first["gap"] - moved}
    stronger = {**first, **gaps, "relative_gap": gaps["gap"] / first["primal"]}
    gaps = {"dual_bound": second["dual_bound"] - moved, "gap": second["gap"] + moved}
    weaker = {**second, **gaps, "relative_gap": gaps["gap"] / second["primal"]}
    forge(bench, job["model_id"], {**certificate, "per_class": [stronger, weaker, *rest]})  # the sum stays
    result = verify(bench, job)
    assert "certificate.per_class[0].dual_bound" in [one["field"] for one in result["differences"]]
    assert [part["label"] for part in result["per_class"]] == [part["label"] for part in certificate["per_class"]]
    forge(bench, job["model_id"], {**certificate, "per_class": [second, first, *rest]})
    assert verify(bench, job)["matches"] is False
    forge(bench, job["model_id"], {**certificate, "per_class": [first, second]})
    assert verify(bench, job)["matches"] is False
    forge(bench, job["model_id"], certificate)
    assert verify(bench, job)["matches"] is True


def test_a_weaker_claim_than_what_is_proven_matches(bench: Bench) -> None:
    _, job = trained(bench)
    certificate = job["result"]["certificate"]
    spare = 1e-3 * certificate["primal"] - certificate["gap"]
    bound = certificate["dual_bound"] - 0.5 * spare
    gap = certificate["primal"] - bound
    weaker = {**certificate, "dual_bound": bound, "gap": gap, "relative_gap": gap / certificate["primal"]}
    forge(bench, job["model_id"], weaker)
    assert verify(bench, job)["matches"] is True


@pytest.mark.parametrize("fields", [{}, {"solver": "tron", "loss": "squared_hinge"}], ids=str)
def test_columns_far_from_zero_match_although_the_stored_weights_are_rounded(bench: Bench, fields: Json) -> None:
    X, signal = noisy(150)
    far = X * 1e-3 + 1e9
    job = bench.run(bench.store(far, (signal > 0).astype(float)), tol=1e-6, preprocess={"scale": "standard"}, **fields)
    result = verify(bench, job)
    assert result["matches"] is True, result["differences"]
    assert result["primal"] == job["result"]["certificate"]["primal"]
    assert result["notes"] == []


def test_the_dual_point_of_other_rows_is_not_used(bench: Bench) -> None:
    _, job = trained(bench)
    X, signal = noisy(150, seed=5)
    fewer = bench.store(X, (signal > 0).astype(float))
    result = verify(bench, job, dataset_id=fewer)
    assert result["matches"] is False
    assert result["bound_from"] == "a dual point found from the weights"
    assert "belongs to other rows" in result["notes"][0]


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


@pytest.mark.parametrize("preprocess", [None, {"scale": "standard"}], ids=str)
def test_changed_weights_are_found_out(bench: Bench, preprocess: Json | None) -> None:
    X, signal = noisy(200)
    job = bench.run(bench.store(X, (signal > 0).astype(float)), tol=1e-3, preprocess=preprocess)
    with bench.database.read() as session:
        row = models.resolve(session, job["model_id"])
    stored = file.read(bench.blobs.path(row.blob))
    forged = {"coef": stored.coef * 1.1, "intercept": np.array([stored.intercept]), **stored.extra}
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
