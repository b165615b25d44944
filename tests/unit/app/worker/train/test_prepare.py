"""Preprocessing in a training job: learnt from the training rows alone, separately in each fold, stored in the file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.db.tables import JobRow
from app.errors import Invalid
from app.jobs.schemas import SplitByShare
from app.jobs.types.train_request import TrainRequest
from app.jobs.types.verify_request import VerifyRequest
from app.jobs.validation.preprocessing import expected
from app.models.file import ModelFile
from app.preprocess.fit import fit
from app.preprocess.pipeline import Pipeline
from app.preprocess.pipeline_document import from_document
from app.preprocess.scaling import scaled_rows
from app.preprocess.spec import Preprocess
from app.worker.train.split import split_rows
from tests.support.builders import dataset_row, job_row, migrated_database
from tests.support.frames import Table, frame_of, raw_columns
from tests.support.worker_bench import Bench, described, worker_bench

CITIES = ["Oslo", "Rome", "Bonn"]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with worker_bench(tmp_path) as bench:
        yield bench


def people(rows: int, seed: int = 0) -> tuple[dict[str, Any], Any]:
    """A table in which income, city and words decide, some cells missing; and the labels."""
    random = np.random.default_rng(seed)
    income, city = random.normal(50_000, 20_000, rows), random.integers(0, 3, rows)
    signal = (income - 50_000) / 20_000 + np.array([1.0, 0.0, -1.0])[city] + 0.3 * random.standard_normal(rows)
    y = np.where(signal > 0, "rich", "poor")
    words = np.where(signal > 0.5, "yacht club", "bus stop")
    blank = random.random((rows, 2)) < 0.1
    table: Table = {
        "income": ("numeric", [None if blank[i, 0] else float(income[i]) for i in range(rows)]),
        "city": ("categorical", [None if blank[i, 1] else CITIES[city[i]] for i in range(rows)]),
        "about": ("text", [f"person {i} {words[i]}" for i in range(rows)]),
        "member": ("boolean", random.integers(0, 2, rows).astype(float).tolist()),
    }
    return dict(table), y


def pipeline_of(stored: ModelFile) -> Pipeline:
    assert stored.header.preprocess is not None
    return from_document(stored.header.preprocess, stored.extra)


def test_a_table_of_every_kind_becomes_a_model_that_scores_raw_rows(bench: Bench) -> None:
    table, y = people(120)
    job = bench.run(bench.store_frame(frame_of(table), y), split={"test": 0.25}, tol=1e-6)
    card, stored = bench.model(job)
    pipeline = pipeline_of(stored)
    assert (card["n_features"], stored.header.n_features, stored.header.feature_names) == (4, pipeline.n_features, None)
    features, warnings = pipeline.apply(raw_columns(table), 120)
    assert warnings == []
    scores = features @ stored.coef + stored.intercept
    correct = (scores > 0) == (y == "rich")
    parts = card["metrics"]
    expected = sum(parts[part]["accuracy"] * parts[part]["rows"] for part in ("train", "test")) / 120
    assert correct.mean() == pytest.approx(expected)
    assert parts["test"]["accuracy"] > 0.8
    assert {warning["code"] for warning in job["result"]["warnings"]} == {"scale_chosen", "missing_values"}
    assert card["warnings"] == job["result"]["warnings"]
    kinds = {column["name"]: column["kind"] for column in card["preprocess"]["columns"]}
    assert kinds == {"income": "numeric", "member": "boolean", "city": "categorical", "about": "text"}
    assert card["preprocess"]["settings"]["scale"] == "standard"


def test_the_certificate_is_that_of_the_rows_as_the_solver_saw_them(bench: Bench) -> None:
    table, y = people(80)
    job = bench.run(bench.store_frame(frame_of(table), y), tol=1e-8, loss="hinge", C=0.5)
    card, stored = bench.model(job)
    pipeline = pipeline_of(stored)
    seen = scaled_rows(pipeline, pipeline.apply(raw_columns(table), 80)[0])
    coef, intercept = pipeline.unfold(stored.coef, stored.intercept)
    slack = np.maximum(0, 1 - np.where(y == "rich", 1, -1) * (seen @ coef + intercept))
    assert 0.5 * (coef @ coef + intercept**2) + 0.5 * slack.sum() == pytest.approx(
        card["certificate"]["primal"], rel=1e-9
    )
    verdict = bench.run_on_model(VerifyRequest(type="verify", model=job["model_id"]))
    assert verdict["result"]["matches"], verdict


def leaked(table: dict[str, Any], rows: Any) -> dict[str, Any]:
    """Huge values, new levels and new words in these rows: means, widths and idf would show it if they were used."""
    news = {"income": 1e12, "city": "Atlantis", "about": "unheard of things " * 50}
    chosen = set(rows.tolist())
    return {
        name: (kind, [news[name] if i in chosen and name in news else value for i, value in enumerate(values)])
        for name, (kind, values) in table.items()
    }


def test_what_only_test_rows_have_does_not_change_the_model(bench: Bench) -> None:
    table, y = people(90)
    split = {"test": 0.3, "seed": 3}
    held_out = split_rows(np.unique(y, return_inverse=True)[1], SplitByShare(**split))[1]
    models = []
    for rows in (table, leaked(table, held_out)):
        job = bench.run(bench.store_frame(frame_of(rows), y), split=split, tol=1e-4)
        models.append(bench.model(job)[1])
    one, other = models
    np.testing.assert_array_equal(one.coef, other.coef)
    assert one.intercept == other.intercept
    assert one.header.preprocess == other.header.preprocess
    for name, array in one.extra.items():
        np.testing.assert_array_equal(array, other.extra[name])


def test_what_only_one_fold_has_does_not_change_the_model_that_is_judged_by_it(bench: Bench) -> None:
    table, y = people(90)
    fold = np.arange(90) % 3
    folds = []
    for rows in (table, leaked(table, np.flatnonzero(fold == 2))):
        dataset = bench.store_frame(frame_of(rows), y, group=fold)
        card, _ = bench.model(bench.run(dataset, split={"fold_column": "query"}, tol=1e-4))
        folds.append([one["relative_gap"] for one in card["cross_validation"]["folds"]])
    honest, leaking = folds
    assert honest[2] == leaking[2]  # the gap has every bit of the training in it
    assert honest[0] != leaking[0]
    assert honest[1] != leaking[1]


def test_numbers_are_trained_as_uploaded_with_advice_where_scales_differ(bench: Bench) -> None:
    random = np.random.default_rng(0)
    X = random.standard_normal((60, 2)) * [1.0, 1000.0]
    y = np.where(X[:, 0] + X[:, 1] / 1000 > 0, 1, 0)
    dataset = bench.store(X, y)
    card, plain = bench.model(bench.run(dataset))
    assert plain.header.preprocess is None
    assert card["preprocess"] is None
    assert [warning["code"] for warning in card["warnings"]] == ["scales_differ", "training_figures_only"]
    card, scaled = bench.model(bench.run(dataset, preprocess={}))
    assert [warning["code"] for warning in card["warnings"]] == ["scale_chosen", "training_figures_only"]
    assert scaled.coef[0] / scaled.coef[1] == pytest.approx(1000, rel=0.3)
    even = bench.model(bench.run(bench.store(X / [1.0, 1000.0], y)))[0]
    assert [warning["code"] for warning in even["warnings"]] == ["training_figures_only"]


def test_another_dataset_is_tested_by_the_names_of_its_columns(bench: Bench) -> None:
    table, y = people(80)
    train = bench.store_frame(frame_of(table), y)
    turned = {name: table[name] for name in reversed(table)} | {"extra": ("numeric", [0.0] * 80)}
    job = bench.run(train, split={"test_dataset_id": bench.store_frame(frame_of(turned), y)})
    card, _ = bench.model(job)
    assert card["metrics"]["test"] == card["metrics"]["train"]
    numbers = {name: ("numeric", list(np.arange(80.0) * (j + 1) % 7)) for j, name in enumerate("ab")}
    train_numbers = bench.store_frame(frame_of(numbers), y)
    turned = bench.store_frame(frame_of({"b": numbers["b"], "a": numbers["a"]}), y)
    card, _ = bench.model(bench.run(train_numbers, split={"test_dataset_id": turned}))
    assert card["metrics"]["test"] == card["metrics"]["train"]
    lacking = bench.store_frame(frame_of({name: table[name] for name in ("income", "about", "member")}), y)
    with pytest.raises(Invalid, match="it has no column 'city', which the training dataset has"):
        bench.submit(train, split={"test_dataset_id": lacking})
    gaps = bench.store_frame(frame_of({**numbers, "b": ("numeric", [None] * 80)}), y)
    with pytest.raises(Invalid, match="is not numeric, unlike in the training dataset"):
        bench.submit(train_numbers, split={"test_dataset_id": gaps})
    dated = bench.store_frame(frame_of({**table, "income": ("date", [0.0] * 80)}), y)
    with pytest.raises(Invalid, match="column 'income' is date here and numeric in the model") as refusal:
        bench.submit(train, split={"test_dataset_id": dated})
    assert (refusal.value.code, refusal.value.errors[0].field) == ("kind_mismatch", "split.test_dataset_id")
    unknown = bench.store_frame(frame_of({**table, "income": ("text", [None] * 80)}), y)
    assert bench.run(train, split={"test_dataset_id": unknown})["status"] == "succeeded", "it is of no kind"


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"columns": {"agee": {"ignore": True}}}, "unknown_column"),
        ({"columns": {"city": {"kind": "numeric"}}}, "kind_mismatch"),
        ({"missing": "error"}, "missing_values"),
        ({"columns": {"income": {"missing": "error"}}}, "missing_values"),
        ({"columns": {name: {"ignore": True} for name in ("income", "city", "about", "member")}}, "no_features"),
    ],
)
def test_what_the_columns_do_not_allow_is_refused_at_once(bench: Bench, asked: dict[str, Any], code: str) -> None:
    table, y = people(30)
    with pytest.raises(Invalid) as caught:
        bench.submit(bench.store_frame(frame_of(table), y), preprocess=asked)
    assert caught.value.code == code
    assert (caught.value.errors[0].field or "").startswith("preprocess.")


def test_a_level_that_only_test_rows_have_can_be_refused(bench: Bench) -> None:
    table, y = people(40)
    dataset = bench.store_frame(frame_of(table), y)
    other = bench.store_frame(frame_of({**table, "city": ("categorical", ["Lima"] * 40)}), y)
    job = bench.run(dataset, preprocess={"unknown": "error"}, split={"test_dataset_id": other})
    assert (job["error"]["code"], job["error"]["param"]) == ("unknown_level", "split.test_dataset_id")
    assert "Lima" not in job["error"]["message"]


@pytest.mark.parametrize("task", ["multiclass", "regression", "ordinal"])
def test_every_task_folds_its_weights(bench: Bench, task: str) -> None:
    table, _ = people(60)
    random = np.random.default_rng(1)
    y = {"multiclass": random.integers(0, 3, 60), "regression": random.normal(size=60), "ordinal": np.arange(60) % 3}[
        task
    ]
    data = bench.store_frame(frame_of(table), np.asarray(y, dtype=float))
    card, stored = bench.model(bench.run(data, task=task, tol=1e-3))
    features = pipeline_of(stored).apply(raw_columns(table), 60)[0]
    scores = features @ stored.coef.T + stored.intercept
    if task == "regression":
        assert np.abs(scores - y).mean() == pytest.approx(card["metrics"]["train"]["mae"])
    else:
        rank = scores.argmax(axis=1) if task == "multiclass" else np.searchsorted(stored.thresholds, scores)
        assert np.mean(np.array(card["classes"])[rank] == y) == pytest.approx(card["metrics"]["train"]["accuracy"])


def test_what_training_will_see_is_estimated_before_the_rows_are_read() -> None:
    table, _ = people(200)
    frame = frame_of(table)
    columns = described(frame)
    only_numbers = {"about": {"ignore": True}, "city": {"categorical": "hash"}}
    for asked in ({}, {"text": {"hash": 64}}, {"columns": only_numbers}):
        spec = Preprocess.model_validate(asked)
        pipeline = fit(spec, frame).pipeline
        row = dataset_row(n_rows=200, n_features=4, columns=columns)
        guess = expected(spec, row, {2: len(frame.texts[2].bytes)})
        most = 4 if asked == {} else 1.1  # words can only be guessed
        assert 1 / most < guess.n_features / pipeline.n_features < most
        assert guess.sparse == pipeline.sparse
    numbers = dataset_row(n_rows=3, n_features=2, columns=[])
    assert expected(Preprocess(), numbers) == (2, 6, False, 0, True, numbers.nnz)
    assert expected(Preprocess(scale="standard"), numbers).nonzeros is None, "zeros do not stay zeros"


def test_a_share_stays_a_share_in_both_databases(database_url: str) -> None:
    """1.0 is all texts and 1 is one text; a database that kept numbers as it likes would make one the other."""
    asked = {"text": {"max_df": 1.0, "min_df": 1}, "columns": {"größe": {"text": {"max_df": 1, "min_df": 0.0}}}}
    spec = TrainRequest.model_validate({"dataset_id": "ds", "preprocess": asked}).model_dump(mode="json")
    row = job_row(spec=spec)
    with migrated_database(database_url) as database:
        with database.write() as session:
            session.add(row)
        with database.read() as session:
            read = TrainRequest.model_validate(session.get_one(JobRow, row.id).spec).preprocess
    assert read is not None
    own = read.columns["größe"].text
    assert own is not None
    assert [type(one) for one in (read.text.max_df, read.text.min_df, own.max_df, own.min_df)] == [
        float,
        int,
        int,
        float,
    ]
