"""The output `set`: request, response formats, refusals, exports and imports."""

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from app.errors import Invalid
from app.models.exports import export, export_formats
from app.models.exports.subject import Subject
from app.models.file import ModelFile, read
from app.models.imports import read_model
from app.models.prediction_sets import PredictionSets
from app.models.repository import Location
from app.predictions.mlflow_invocations import invoke_with
from app.predictions.model_cache import ServedModel
from app.predictions.service import predict_with
from tests.support.worker_bench import Bench, noisy, three_words, worker_bench

ROWS = [[0.1, 0.2, 0.3, 0.4], [2.0, -1.0, 0.0, 1.0]]
JSON = "application/json"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with worker_bench(tmp_path_factory.mktemp("sets")) as bench:
        yield bench


def trained(bench: Bench, y: Any, **fields: Any) -> ServedModel:
    X, _ = noisy(120)
    _, stored = bench.model(bench.run(bench.store(X, y), **fields))
    return ServedModel.opened(Location("mdl_x", "m", 1, "blob"), stored)


@pytest.fixture(scope="module")
def words(bench: Bench) -> ServedModel:
    return trained(bench, three_words(noisy(120)[1]), cross_validation=4)


@pytest.fixture(scope="module")
def numbers(bench: Bench) -> ServedModel:
    return trained(bench, noisy(120)[1], cross_validation=4, preprocess={})


def ask(model: ServedModel, accept: str | None = None, **fields: Any) -> Any:
    body = {"instances": ROWS, "return": ["set"], **fields}
    return predict_with(model, json.dumps(body).encode(), JSON, accept)


def test_json_has_a_set_for_each_row_and_one_coverage(words: ServedModel, numbers: ServedModel) -> None:
    answer = json.loads(ask(words, coverage=0.8).content)
    assert [set(one) for one in answer["predictions"]] == [{"set"}, {"set"}]
    assert all(set(one["set"]) <= {"high", "low", "middle"} for one in answer["predictions"])
    assert answer["coverage"] == words.sets.coverage(0.8)
    assert answer["coverage"]["guaranteed"] < answer["coverage"]["requested"] <= answer["coverage"]["nominal"]
    of_numbers = json.loads(ask(numbers).content)
    assert of_numbers["coverage"]["requested"] == 0.9
    wide, narrow = (json.loads(ask(numbers, coverage=level).content)["predictions"] for level in (0.95, 0.5))
    for one, other in zip(wide, narrow, strict=True):
        assert one["set"]["low"] < other["set"]["low"] < other["set"]["high"] < one["set"]["high"]


def test_every_table_has_the_same_sets(words: ServedModel, numbers: ServedModel) -> None:
    for model in (words, numbers):
        expected = [one["set"] for one in json.loads(ask(model).content)["predictions"]]
        told = json.dumps(json.loads(ask(model).content)["coverage"], separators=(",", ":"))
        as_csv = ask(model, "text/csv")
        assert as_csv.headers["X-Coverage"] == told
        read_back = csv.DictReader(io.StringIO(as_csv.content.decode()))
        assert [json.loads(row["set"]) for row in read_back] == expected
        lines = ask(model, "application/x-ndjson").content.splitlines()
        assert [json.loads(line)["set"] for line in lines] == expected
        stream = ask(model, "application/vnd.apache.arrow.stream").content
        table = pa.ipc.open_stream(stream).read_all()
        assert table["set"].to_pylist() == expected
        assert json.loads(table.schema.metadata[b"coverage"]) == json.loads(told)
        with pytest.raises(Invalid, match="numeric output"):
            ask(model, "application/x-npy")


def test_bodies_without_a_place_for_it_use_the_query(numbers: ServedModel) -> None:
    table = "\n".join(",".join(map(str, row)) for row in ROWS).encode()
    reply = predict_with(numbers, table, "text/csv", None, wanted="set", coverage=0.8)
    assert json.loads(reply.content)["predictions"] == json.loads(ask(numbers, coverage=0.8).content)["predictions"]


@pytest.mark.parametrize(
    ("fields", "field", "code"),
    [
        ({"coverage": 1.0}, "coverage", "out_of_range"),
        ({"coverage": 0}, "coverage", "out_of_range"),
        ({"coverage": 0.9, "return": ["label"]}, "coverage", "unexpected"),
        ({"return": ["sets"]}, "return", "unknown_output"),
    ],
)
def test_a_bad_request_names_its_field(numbers: ServedModel, fields: Any, field: str, code: str) -> None:
    with pytest.raises(Invalid) as refusal:
        ask(numbers, **fields)
    assert (refusal.value.errors[0].field, refusal.value.code) == (field, code)


def test_a_model_without_folds_says_how_to_train_one(bench: Bench) -> None:
    model = trained(bench, np.where(noisy(120)[1] > 0, 1, -1))
    with pytest.raises(Invalid, match="cross_validation") as refusal:
        ask(model)
    assert refusal.value.code == "no_sets"


def test_other_protocols_do_not_offer_sets(numbers: ServedModel) -> None:
    body = json.dumps({"instances": ROWS, "params": {"return": ["set"]}}).encode()
    with pytest.raises(Invalid):
        invoke_with(numbers, body, JSON)


def test_ordinary_predictions_do_not_open_fold_models(numbers: ServedModel) -> None:
    fresh = ServedModel.opened(Location("mdl_x", "m", 1, "blob"), numbers.file)
    ask(fresh, **{"return": ["label", "score"]})
    assert "sets" not in vars(fresh)


@pytest.mark.parametrize("format", ["json", "safetensors", "npz"])
def test_exports_keep_the_sets(bench: Bench, words: ServedModel, format: str) -> None:
    subject = Subject("mdl_x", "m", 1, words.file)
    written = export_formats()[format].write(subject, None)
    if format == "npz":
        with np.load(io.BytesIO(written)) as arrays:
            assert {f"sets.{number}" for number in range(4)} | {"sets.scores", "sets.counts"} <= set(arrays)
            assert json.loads(arrays["header"].tobytes())["sets"]["folds"] == 4
        return
    imported = read_model(bench.blobs, "again", format, written)
    again = ServedModel.opened(Location("mdl_y", "again", 1, "blob"), read(bench.blobs.path(imported.model.blob)))
    assert json.loads(ask(again).content)["predictions"] == json.loads(ask(words).content)["predictions"]
    told = again.sets.coverage(0.9)
    assert told["guaranteed"] is None
    assert "imported" in told["reason"]


def test_other_exports_say_that_they_leave_sets_out(words: ServedModel) -> None:
    subject = Subject("mdl_x", "m", 1, words.file)
    assert export(subject, "onnx", None).headers["X-Left-Out"] == "sets"
    assert "X-Left-Out" not in export(subject, "json", None).headers


def test_damaged_sets_are_refused(bench: Bench, words: ServedModel) -> None:
    document = json.loads(export_formats()["json"].write(Subject("mdl_x", "m", 1, words.file), None))
    arrays = document["arrays"]
    for damaged in (
        {name: array for name, array in arrays.items() if name != "sets.2"},
        {**arrays, "sets.1": arrays["sets.scores"]},
        {**arrays, "sets.counts": {**arrays["sets.counts"], "shape": [4, 3]}},
        {**arrays, "sets.0": _reversed(arrays["sets.0"])},
    ):
        body = json.dumps({**document, "arrays": damaged}).encode()
        with pytest.raises(Invalid) as refusal:
            read_model(bench.blobs, "again", "json", body)
        assert refusal.value.errors[0].field == "sets"
    with pytest.raises(Invalid):
        read_model(bench.blobs, "again", "json", json.dumps({**document, "sets": {"folds": 1}}).encode())


def _reversed(packed: Any) -> Any:
    return {**packed, "base64": packed["base64"][::-1].lstrip("=") + "=" * packed["base64"].count("=")}


def test_sets_of_a_file_are_optional(words: ServedModel) -> None:
    plain = ModelFile(words.file.header.model_copy(update={"sets": None}), words.file.coef, 0.0, None, {}, 0)
    assert PredictionSets.of(plain) is None
