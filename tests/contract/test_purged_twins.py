"""Files of equal content: one owner gives its file up and it is deleted, at the moment another is about to own it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.admin.integrity import verify_storage
from app.config import Settings
from app.jobs.types.predict_request import PredictRequest
from app.main import create_app
from app.storage import BlobStore
from app.storage.identity import open_store
from app.web.context import context_of
from tests.support.builders import InProcess, migrated_database, temporary_settings
from tests.support.serving import checked
from tests.support.worker_bench import Bench, noisy

MODEL = json.dumps({"task": "binary", "classes": ["no", "yes"], "coef": [1.5, -0.5], "intercept": 0.1}).encode()


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    return temporary_settings(tmp_path / "data", database_url=database_url)


@pytest.fixture
def bench(settings: Settings) -> Iterator[Bench]:
    with migrated_database(settings.resolved_database_url) as database:
        yield Bench(database, open_store(settings.data_dir, database))


@pytest.fixture
def deletions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """From now on each blob is deleted once, right after it is written, when no row owns it yet."""
    deleted: list[str] = []
    name_file = BlobStore.name_file

    def name_then_delete(store: BlobStore, file: Path, sha256: str) -> None:
        name_file(store, file, sha256)
        if sha256 not in deleted:
            deleted.append(sha256)
            store.remove(sha256)

    monkeypatch.setattr(BlobStore, "name_file", name_then_delete)
    return deleted


def test_an_import_that_was_acknowledged_answers(settings: Settings, bench: Bench, deletions: list[str]) -> None:
    app = create_app(settings)
    http = InProcess(app)
    headers = {"Content-Type": "application/json"}
    made = checked(http.post("/v1/models/import", params={"name": "m"}, content=MODEL, headers=headers))
    assert len(deletions) == 1
    assert http.get(f"/v1/models/{made['id']}/weights").json()["coef"] == [1.5, -0.5]
    assert verify_storage(settings).faults == []
    context_of(app).database.close()


def trained(bench: Bench) -> tuple[str, dict[str, Any]]:
    X, signal = noisy(60)
    dataset_id = bench.store(X, (signal > 0).astype(float))
    return dataset_id, bench.run(dataset_id)


def test_a_model_and_its_proof_are_there(settings: Settings, bench: Bench, request: pytest.FixtureRequest) -> None:
    X, signal = noisy(60)
    dataset_id = bench.store(X, (signal > 0).astype(float))
    deletions = request.getfixturevalue("deletions")
    job = bench.run(dataset_id)
    assert len(deletions) >= 2, "the model and its proof"
    bench.model(job)
    assert [fault for fault in verify_storage(settings).faults if job["model_id"] in fault] == []


def test_the_files_of_a_batch_prediction_are_there(
    settings: Settings, bench: Bench, request: pytest.FixtureRequest
) -> None:
    dataset_id, job = trained(bench)
    deletions = request.getfixturevalue("deletions")
    ended = bench.run_on_model(PredictRequest(type="predict", model=job["model_id"], dataset_id=dataset_id))
    assert ended["status"] == "succeeded"
    assert deletions == [ended["result"]["output"]["sha256"]]
    assert bench.blobs.is_intact(deletions[0])
