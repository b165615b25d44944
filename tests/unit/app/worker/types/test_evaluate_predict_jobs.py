"""Evaluation and batch prediction jobs: what is stored is what anyone computes from the rows and the weights."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn import metrics as reference

from app.db.tables import BlobOwnerRow, EvaluationRow
from app.errors import AppError
from app.jobs.types.evaluate_request import EvaluateRequest
from app.jobs.types.predict_request import PredictRequest
from app.models.repository import Location
from app.predictions.model_cache import ServedModel
from app.predictions.rows import Columns
from app.predictions.service import score
from app.tabular.cells import read_boolean
from app.tabular.date_text import read_date
from app.tabular.frame import Kind
from app.worker import scoring
from tests.support.builders import count_rows
from tests.support.frames import frame_of, raw_columns
from tests.support.worker_bench import Bench, noisy, three_words, worker_bench

Array = np.ndarray[Any, Any]
Json = dict[str, Any]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with worker_bench(tmp_path) as bench:
        yield bench


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "BLOCK_ENTRIES", 40)  # ten rows of four columns


def evaluate(bench: Bench, dataset_id: str) -> Json:
    job = bench.run_on_model(EvaluateRequest(type="evaluate", model="m", dataset_id=dataset_id))
    assert job["status"] == "succeeded", job["error"]
    with bench.database.read() as session:
        row = session.get(EvaluationRow, job["result"]["evaluation_id"])
        assert row is not None
        assert (row.model_id, row.dataset_id, row.job_id) == (job["model_id"], dataset_id, job["id"])
        report: Json = row.report
    assert report["metrics"] == job["result"]["metrics"]
    return report


def test_two_classes_are_judged_as_scikit_learn_judges_them(bench: Bench) -> None:
    X, signal = noisy(60)
    words = np.where(signal > 0, "up", "down")
    card, model = bench.model(bench.run(bench.store(X, words), split={"test": 0.2}))
    fresh, signal = noisy(45, seed=9)
    truth = np.where(signal > 0, "up", "down")
    report = evaluate(bench, bench.store(fresh, truth))
    scores = fresh @ model.coef + model.intercept
    assert (report["rows"], report["failed_rows"]) == (45, 0)
    assert report["metrics"]["accuracy"] == pytest.approx(np.mean((scores > 0) == (truth == "up")))
    assert report["metrics"]["roc_auc"] == pytest.approx(reference.roc_auc_score(truth == "up", scores))
    expected = reference.confusion_matrix(truth, np.where(scores > 0, "up", "down"))
    assert report["metrics"]["confusion"]["matrix"] == expected.tolist()
    assert report["curves"]["roc"]["tpr"][-1] == 1.0
    histogram = report["histogram"]
    assert sum(histogram["counts"]) == 45
    per_class = np.sum([one["counts"] for one in histogram["per_class"]], axis=0)
    assert per_class.tolist() == histogram["counts"]
    assert set(report["metrics"]) == set(card["metrics"]["test"])


@pytest.mark.parametrize("task", ["multiclass", "ordinal", "regression"])
def test_the_training_rows_are_judged_as_the_training_did(bench: Bench, task: str) -> None:
    X, signal = noisy(90)
    labels: Any = {"multiclass": three_words(signal), "ordinal": np.digitize(signal, [-1.0, 1.0])}.get(task, signal)
    dataset_id = bench.store(X, labels)
    job = bench.run(dataset_id, task=task)
    report = evaluate(bench, dataset_id)
    claimed = job["result"]["metrics"]["train"]
    assert report["metrics"].keys() == claimed.keys()
    for name, value in claimed.items():
        if isinstance(value, float):
            assert report["metrics"][name] == pytest.approx(value), name


def test_rows_that_have_no_score_are_counted_and_left_out(bench: Bench) -> None:
    X, signal = noisy(60)
    bench.run(bench.store(X, (signal > 0).astype(float)))
    damaged = X.copy()
    damaged[7, 2] = np.nan
    damaged[23, 0] = 1e308
    damaged[23, 1] = -1e308
    report = evaluate(bench, bench.store(damaged, (signal > 0).astype(float)))
    assert (report["rows"], report["failed_rows"], report["metrics"]["rows"]) == (58, 2, 58)


def test_what_cannot_be_evaluated_is_refused(bench: Bench) -> None:
    X, signal = noisy(60)
    bench.run(bench.store(X, np.where(signal > 0, "up", "down")))
    with pytest.raises(AppError, match="that the model lacks"):
        evaluate(bench, bench.store(X, three_words(signal)))
    with pytest.raises(AppError, match="that the model lacks"):
        evaluate(bench, bench.store(X, signal))
    with pytest.raises(AppError, match=r"dataset_id: .* 3 features; the model has 4"):
        evaluate(bench, bench.store(X[:, :3], np.where(signal > 0, "up", "down")))
    assert count_rows(bench.database, EvaluationRow) == 0


def predict(bench: Bench, dataset_id: str, **fields: Any) -> tuple[Json, bytes, list[Json]]:
    request = PredictRequest.model_validate({"type": "predict", "model": "m", "dataset_id": dataset_id, **fields})
    job = bench.run_on_model(request)
    assert job["status"] == "succeeded", job["error"]
    result = job["result"]
    errors = []
    if result["errors"]:
        lines = bench.blobs.path(result["errors"]["sha256"]).read_text().splitlines()
        errors = [json.loads(line) for line in lines]
    return result, bench.blobs.path(result["output"]["sha256"]).read_bytes(), errors


def table(format: str, content: bytes) -> Json:
    """Columns by name, as lists."""
    if format == "csv":
        rows = list(csv.DictReader(io.StringIO(content.decode())))
    elif format == "ndjson":
        rows = [json.loads(line) for line in content.splitlines()]
    elif format == "parquet":
        found: Json = pq.read_table(io.BytesIO(content)).to_pydict()
        return found
    else:
        with pa.ipc.open_stream(content) as stream:
            return stream.read_all().to_pydict()  # type: ignore[no-any-return]
    return {name: [row[name] for row in rows] for name in rows[0]}


@pytest.mark.parametrize("format", ["csv", "ndjson", "parquet", "arrow"])
def test_a_file_has_every_row_with_its_number(bench: Bench, format: str) -> None:
    X, signal = noisy(57)
    words = np.where(signal > 0, "up, or so", "down")
    dataset_id = bench.store(X, words)
    _, model = bench.model(bench.run(dataset_id))
    result, content, errors = predict(bench, dataset_id, format=format)
    assert (result["rows"], result["predicted"], result["failed"], errors) == (57, 57, 0, [])
    assert (result["columns"], result["errors"]) == (["row", "label", "score"], None)
    assert result["output"]["bytes"] == len(content)
    found = table(format, content)
    assert [int(row) for row in found["row"]] == list(range(57))
    scores = X @ model.coef + model.intercept
    np.testing.assert_allclose(np.array(found["score"], dtype=np.float64), scores, rtol=1e-12)
    assert found["label"] == ["up, or so" if score > 0 else "down" for score in scores]
    assert count_rows(bench.database, BlobOwnerRow) >= 2, "no row owns the file"


@pytest.mark.parametrize("format", ["csv", "ndjson", "parquet", "arrow"])
def test_several_classes_have_a_list_of_scores(bench: Bench, format: str) -> None:
    X, signal = noisy(40)
    dataset_id = bench.store(X, np.digitize(signal, [-1.0, 1.0]).astype(float))
    _, model = bench.model(bench.run(dataset_id, task="multiclass"))
    wanted = ["scores", "label", "label_certain"]
    result, content, _ = predict(bench, dataset_id, format=format, **{"return": wanted})
    assert result["columns"] == ["row", "label", "scores", "label_certain"]
    found = table(format, content)
    scores = [json.loads(one) if format == "csv" else one for one in found["scores"]]
    expected = X @ model.coef.T + model.intercept
    np.testing.assert_allclose(scores, expected, rtol=1e-12)
    assert [int(label) for label in found["label"]] == expected.argmax(axis=1).tolist()


def test_rows_without_a_score_are_in_the_file_of_errors(bench: Bench) -> None:
    X, signal = noisy(60)
    bench.run(bench.store(X, (signal > 0).astype(float)))
    damaged = X.copy()
    damaged[7, 2] = np.nan
    damaged[23] = 1e308
    result, content, errors = predict(bench, bench.store(damaged, signal), format="ndjson")
    assert (result["rows"], result["predicted"], result["failed"]) == (60, 58, 2)
    assert [(one["row"], one["code"]) for one in errors] == [(7, "missing_value"), (23, "overflow")]
    assert table("ndjson", content)["row"] == [row for row in range(60) if row not in (7, 23)]


def test_a_file_of_no_rows_has_its_heading(bench: Bench) -> None:
    X, signal = noisy(60)
    bench.run(bench.store(X, (signal > 0).astype(float)))
    result, content, errors = predict(bench, bench.store(np.full((3, X.shape[1]), np.nan), signal[:3]), format="csv")
    assert (result["predicted"], len(errors)) == (0, 3)
    assert content == b"row,label,score\n"


def test_a_sparse_dataset_may_be_narrower_and_columns_go_by_name(bench: Bench) -> None:
    X, signal = noisy(50)
    names = ["a", "b", "c", "d"]
    columns = [{"name": name, "role": "feature", "kind": "numeric"} for name in names]
    dataset_id = bench.store(X, (signal > 0).astype(float))
    bench.describe(dataset_id, columns=columns)
    _, model = bench.model(bench.run(dataset_id))
    turned = bench.store(np.column_stack([X[:, ::-1], np.ones(50)]), signal)
    bench.describe(turned, columns=[*columns[::-1], {"name": "e", "role": "feature", "kind": "numeric"}])
    _, content, _ = predict(bench, turned)
    np.testing.assert_allclose(
        np.array(table("csv", content)["score"], dtype=float), X @ model.coef + model.intercept, rtol=1e-12
    )
    lacking = bench.store(X, signal)
    bench.describe(lacking, columns=[*columns[:3], {"name": "z", "role": "feature", "kind": "numeric"}])
    with pytest.raises(AppError, match=r"dataset_id: .* no column 'd'"):
        predict(bench, lacking)


def test_cancel_between_blocks_leaves_no_file(bench: Bench) -> None:
    X, signal = noisy(50)
    dataset_id = bench.store(X, (signal > 0).astype(float))
    bench.run(dataset_id)
    before = set(bench.blobs)
    asked = iter([None, None, "cancel", "cancel", "cancel"])
    request = PredictRequest(type="predict", model="m", dataset_id=dataset_id)
    job = bench.run_on_model(request, lambda: next(asked))
    assert (job["status"], job["result"]) == ("cancelled", None)
    assert set(bench.blobs) == before
    assert list(bench.blobs.staging.iterdir()) == []


def test_a_file_without_labels_is_predicted(bench: Bench) -> None:
    """Its last column was read as the target, although it is a feature of the model."""
    X, signal = noisy(50)
    columns = [{"name": name, "role": "feature", "kind": "numeric"} for name in "abcd"]
    dataset_id = bench.store(X, (signal > 0).astype(float), columns)
    _, model = bench.model(bench.run(dataset_id))
    unlabelled = bench.store(X[:, :3], X[:, 3], [*columns[:3], {**columns[3], "role": "target"}])
    _, content, _ = predict(bench, unlabelled)
    np.testing.assert_allclose(
        np.array(table("csv", content)["score"], dtype=float), X @ model.coef + model.intercept, rtol=1e-12
    )


@pytest.mark.parametrize("labels", [["true", "False"], ["t", "f"], ["2024-05-31", "2024-06-01T12:00"], ["1.5", "NA"]])
def test_a_file_without_labels_is_predicted_whatever_its_last_column_holds(bench: Bench, labels: list[str]) -> None:
    """A feature is read as it was for training, even if its cells were read as names of classes."""
    read = read_boolean if read_boolean(labels[0]) is not None else read_date
    kind: Kind = "numeric" if labels[1] == "NA" else "boolean" if read is read_boolean else "date"
    X, signal = noisy(50)
    chosen = [label if label != "NA" else None for label in np.where(X[:, 3] > 0, *labels)]
    values = [None if label is None else float(label) if kind == "numeric" else read(label) for label in chosen]
    cells: Json = {"a": ("numeric", X[:, 0].tolist()), "b": (kind, values)}
    whole = bench.store_frame(frame_of(cells), (signal > 0).astype(float))
    bench.run(whole, preprocess={})
    _, expected, _ = predict(bench, whole)
    columns = [{"name": "a", "role": "feature", "kind": "numeric"}, {"name": "b", "role": "target"}]
    _, content, _ = predict(bench, bench.store(X[:, :1], np.where(X[:, 3] > 0, *labels), columns))
    assert content == expected


def shop(rows: int) -> tuple[Json, Array]:
    random = np.random.default_rng(rows)
    price, city = random.normal(10.0, 3.0, rows), random.integers(0, 3, rows)
    sold = price + np.array([-2.0, 0.0, 2.0])[city] < 10.0
    cells: Json = {
        "price": ("numeric", price.tolist()),
        "city": ("categorical", [["Oslo", "Rome", "Bonn"][k] for k in city]),
    }
    return cells, np.where(sold, "yes", "no")


def test_a_model_with_preprocessing_scores_raw_tables(bench: Bench) -> None:
    cells, labels = shop(120)
    dataset_id = bench.store_frame(frame_of(cells), labels)
    job = bench.run(dataset_id, preprocess={"missing": "error", "unknown": "error"})
    _, model = bench.model(job)
    report = evaluate(bench, dataset_id)
    assert report["metrics"]["accuracy"] == pytest.approx(job["result"]["metrics"]["train"]["accuracy"])
    served = ServedModel.opened(Location(job["model_id"], "m", 1, ""), model)
    fresh, labels = shop(30)
    fresh["price"][1][4] = None
    fresh["city"][1][17] = "Paris"
    result, content, errors = predict(bench, bench.store_frame(frame_of(fresh), labels), format="ndjson")
    assert (result["predicted"], result["failed"]) == (28, 2)
    assert [one["row"] for one in errors] == [4, 17]
    assert "'price'" in errors[0]["detail"]
    assert "'city'" in errors[1]["detail"]
    chosen = [row for row in range(30) if row not in (4, 17)]
    raw = {name: [values[row] for row in chosen] for name, values in raw_columns(fresh).items()}
    single = score(served, Columns(raw, len(chosen)))
    assert table("ndjson", content)["score"] == single.scores.tolist(), "predict and batch differ"
