"""Fold models in model files: what a training with folds keeps, and what predict makes of it."""

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.jobs.types.predict_request import PredictRequest
from app.models.file import ModelFile
from app.models.linear import scores
from app.models.prediction_sets import PredictionSets
from app.models.repository import Location
from app.predictions.model_cache import ServedModel
from app.predictions.service import predict_with
from app.tabular.frame import Column, Frame, Strings
from app.worker.train import encode_model
from app.worker.train.split import draw_folds
from tests.support.worker_bench import Bench, noisy, three_words, worker_bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with worker_bench(tmp_path) as bench:
        yield bench


def labels_of(task: str, signal: Any) -> Any:
    return {"binary": np.where(signal > 0, 1, -1), "multiclass": three_words(signal), "regression": signal}[task]


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_the_fold_models_score_the_rows_that_they_held_out(bench: Bench, task: str) -> None:
    X, signal = noisy(150)
    y = labels_of(task, signal)
    card, stored = bench.model(bench.run(bench.store(X, y), cross_validation=3, preprocess={}, tol=1e-4))
    sets = PredictionSets.of(stored)
    assert sets is not None
    assert (card["sets"]["folds"], card["sets"]["rows"], card["sets"]["reason"]) == (3, 150, None)
    assert len(sets.folds) == 3
    values = np.unique(y, return_inverse=True)[1] if task != "regression" else y
    fold_of_row = draw_folds(values, 3, 0, has_classes=task != "regression")
    assert len({fold.coef.tobytes() for fold in [*sets.folds, stored]}) == 4, "each fold has weights of its own"
    for number, fold in enumerate(sets.folds):
        out = fold_of_row == number
        found = scores(X[out], fold.coef, fold.intercept)
        if task == "regression":
            strange = np.abs(y[out] - found)
            assert np.sort(strange) == pytest.approx(sets.strangeness[0][number], rel=1e-9)
        elif task == "binary":
            assert np.sort(-found[y[out] == 1]) == pytest.approx(sets.strangeness[1][number], rel=1e-9)
        else:
            of_class = found[y[out] == stored.header.classes[0]]
            strange = of_class[:, 1:].max(axis=1) - of_class[:, 0]
            assert np.sort(strange) == pytest.approx(sets.strangeness[0][number], rel=1e-9)


def test_a_fold_keeps_its_own_vocabulary(bench: Bench) -> None:
    random = np.random.default_rng(3)
    X, signal = noisy(90)
    words = random.choice(["red", "green", "blue"], size=90)
    words[7] = "rare"
    names = sorted(set(words.tolist()))
    codes = np.array([names.index(word) for word in words], dtype=np.float64)
    columns = [Column("size", "numeric"), Column("colour", "categorical", Strings.of(names))]
    frame = Frame(np.column_stack([X[:, 0], codes]), columns)
    data = bench.store_frame(frame, np.where(signal > 0, 1, -1))
    _, stored = bench.model(bench.run(data, cross_validation=3, preprocess={}))
    sets = PredictionSets.of(stored)
    assert sets is not None
    widths = {fold.header.n_features for fold in sets.folds}
    assert min(widths) < stored.header.n_features, "the fold that held out the rare word does not know it"
    model = ServedModel.opened(Location("mdl_x", "m", 1, "blob"), stored)
    body = b'{"instances": [{"size": 0.5, "colour": "rare"}], "return": ["set"], "coverage": 0.8}'
    reply = predict_with(model, body, "application/json", None)
    assert b'"set":[' in reply.content


@pytest.mark.parametrize(
    ("others", "fields", "reason"),
    [
        ({"weight": np.ones(60)}, {"cross_validation": 3}, "weights"),
        ({"group": np.arange(60) % 12}, {"cross_validation": 3}, "groups"),
        ({"group": np.arange(60) % 3}, {"split": {"fold_column": "query"}}, "column"),
        ({}, {"cross_validation": 3, "C": "auto"}, "C was chosen"),
    ],
)
def test_what_breaks_the_proof_is_told(bench: Bench, others: Any, fields: Any, reason: str) -> None:
    X, signal = noisy(60)
    card, stored = bench.model(bench.run(bench.store(X, np.where(signal > 0, 1, -1), **others), **fields))
    assert reason in card["sets"]["reason"]
    sets = PredictionSets.of(stored)
    assert sets is not None
    assert sets.coverage(0.9)["guaranteed"] is None


def test_large_fold_models_are_not_kept(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode_model, "MOST_FOLD_BYTES", 1000)
    X, signal = noisy(60)
    data = bench.store(X, np.where(signal > 0, 1, -1))
    card, stored = bench.model(bench.run(data, cross_validation=3))
    assert card["sets"]["folds"] == 0
    assert "bytes" in card["sets"]["reason"]
    assert stored.header.sets is None
    assert bench.model(bench.run(data))[0]["sets"] is None


def test_a_resumed_job_has_the_fold_models_of_both_attempts(bench: Bench) -> None:
    bench.context = replace(bench.context, checkpoint_seconds=0.0)
    X, signal = noisy(400)
    data = bench.store(X, np.where(signal > 0, 1, -1))
    fields = {"cross_validation": 4, "solver": "dcd", "tol": 1e-2, "loss": "hinge"}
    looks: list[bool] = []
    _, plain = bench.model(bench.run(data, lambda: looks.append(True), **fields))
    seen: list[bool] = []

    def stop() -> str | None:
        seen.append(True)
        return "drain" if len(seen) > 0.6 * len(looks) else None

    job_id = bench.submit(data, **fields)
    assert bench.execute(job_id, stop)["status"] == "queued"
    resumed = bench.execute(job_id)
    (told,) = bench.events(job_id, "job.resumed")
    assert told["training"] > 0, "folds were finished before"
    _, stored = bench.model(resumed)
    assert {name: array.tobytes() for name, array in _sets(stored).items()} == {
        name: array.tobytes() for name, array in _sets(plain).items()
    }


def _sets(model: ModelFile) -> dict[str, Any]:
    assert PredictionSets.of(model) is not None
    return model.set_arrays


@pytest.mark.parametrize("task", ["multiclass", "regression"])
@pytest.mark.parametrize("format", ["csv", "ndjson", "parquet", "arrow"])
def test_a_batch_prediction_has_the_sets_of_predict(bench: Bench, task: str, format: str) -> None:
    X, signal = noisy(80)
    data = bench.store(X, labels_of(task, signal))
    job = bench.run(data, cross_validation=3, preprocess={})
    _, stored = bench.model(job)
    model = ServedModel.opened(Location("mdl_x", "m", 1, "blob"), stored)
    expected = model.sets.from_scores([scores(X, fold.coef, fold.intercept) for fold in model.sets.sets.folds], 0.8)
    request = PredictRequest(
        type="predict", model=job["model_id"], dataset_id=data, format=format, wanted=["label", "set"], coverage=0.8
    )
    done = bench.run_on_model(request)
    assert done["status"] == "succeeded", done["error"]
    assert done["result"]["columns"] == ["row", "label", "set"]
    assert done["result"]["coverage"]["requested"] == 0.8
    path = bench.blobs.path(done["result"]["output"]["sha256"])
    assert _read(path, format) == expected


def _read(path: Path, format: str) -> list[Any]:
    if format == "csv":
        return [json.loads(row["set"]) for row in csv.DictReader(path.read_text().splitlines())]
    if format == "ndjson":
        return [json.loads(line)["set"] for line in path.read_text().splitlines()]
    table = pq.read_table(path) if format == "parquet" else pa.ipc.open_stream(path.read_bytes()).read_all()
    found: list[Any] = table["set"].to_pylist()
    return found
