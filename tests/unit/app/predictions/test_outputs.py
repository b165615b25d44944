"""What can be asked of a prediction beside label and score, and in which formats it comes back."""

import csv
import io
import json
import tracemalloc
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import Invalid, NotAcceptable
from app.models import linear
from app.predictions import response_formats
from app.predictions.model_cache import ServedModel
from app.predictions.response_formats import OFFERED, negotiated
from app.predictions.service import predict_with
from app.web.media_types import CSV
from app.worker.dense_sums import dense_sums
from tests.support.builders import SOAK, served_model

JSON = "application/json"
NUMBERS = st.floats(-1e9, 1e9, allow_subnormal=False)


def ask(model: ServedModel, instances: Any, *wanted: str, accept: str | None = None) -> Any:
    body: dict[str, Any] = {"instances": instances}
    if wanted:
        body["return"] = list(wanted)
    reply = predict_with(model, json.dumps(body).encode(), JSON, accept)
    return json.loads(reply.content) if reply.media_type == JSON else reply.content


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> ServedModel:
    names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"]
    weights = np.random.default_rng(5).normal(scale=3.0, size=9)
    return served_model(tmp_path_factory.mktemp("binary"), weights, 0.1, feature_names=names)


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> ServedModel:
    weights = np.random.default_rng(6).normal(scale=3.0, size=(4, 9))
    intercept = [0.1, -0.2, 0.3, 0.7]
    return served_model(
        tmp_path_factory.mktemp("several"), weights, intercept, task="multiclass", classes=["p", "q", 3, 4.5]
    )


@settings(max_examples=60 * SOAK, deadline=None, derandomize=SOAK == 1)
@given(rows=st.lists(st.lists(NUMBERS, min_size=9, max_size=9), min_size=1, max_size=6))
def test_contributions_and_the_intercept_sum_to_the_very_score(
    binary: ServedModel, several: ServedModel, rows: list[list[float]]
) -> None:
    sparse = [{"indices": list(range(9)), "values": row} for row in rows]
    for model in (binary, several):
        for instances in (rows, sparse):
            for one in ask(model, instances, "score", "contributions")["predictions"]:
                parts = one["contributions"]
                if isinstance(parts, dict):
                    parts = parts["values"] if "values" in parts else list(parts.values())
                assert reduce(add, parts) + one["intercept"] == one["score"]


@settings(max_examples=60 * SOAK, deadline=None, derandomize=SOAK == 1)
@given(rows=st.lists(st.lists(NUMBERS | st.just(0.0), min_size=9, max_size=9), min_size=2, max_size=6))
def test_a_row_has_one_score_alone_or_among_others_dense_or_sparse(
    binary: ServedModel, several: ServedModel, rows: list[list[float]]
) -> None:
    sparse = [{"indices": [j for j in range(9) if row[j]][::-1], "values": [v for v in row if v][::-1]} for row in rows]
    mixed = [sparse[0], *rows[1:]]
    for model in (binary, several):
        wanted = model.outputs[1] if model is binary else "scores"
        together = [one[wanted] for one in ask(model, rows, wanted)["predictions"]]
        alone = [ask(model, [row], wanted)["predictions"][0][wanted] for row in rows]
        assert together == alone
        for other in (sparse, mixed):
            assert [one[wanted] for one in ask(model, other, wanted)["predictions"]] == together


def test_contributions_are_shown_as_the_row_was_sent(binary: ServedModel, several: ServedModel) -> None:
    row = [1.0, 0, 0, 0, 2.0, 0, 0, 0, 0]
    sparse = {"indices": [4, 0], "values": [2.0, 1.0]}
    weights = binary.file.coef
    (one,) = ask(binary, [sparse], "contributions")["predictions"]
    assert one == {"contributions": {"a": weights[0], "e": 2 * weights[4]}, "intercept": 0.1}
    (one,) = ask(binary, [row], "contributions")["predictions"]
    assert list(one["contributions"]) == ["a", "b", "c", "d", "e", "f", "g", "h", "i"]
    (one,) = ask(several, [sparse], "contributions", "label")["predictions"]
    k = several.file.header.classes.index(one["label"])
    winner = several.file.coef[k]
    assert one["contributions"] == {"indices": [0, 4], "values": [winner[0], 2 * winner[4]]}
    assert one["intercept"] == several.file.intercept[k]
    (one,) = ask(several, [row], "contributions")["predictions"]
    np.testing.assert_array_equal(one["contributions"], np.array(row) * winner)


def test_contributions_of_columns_that_have_several_features_are_summed_column_by_column() -> None:
    matrix = np.array([[1.0, 2.0, 3.0, 4.0], [0.0, 0.1, 0.2, 0.3]])
    weights = np.array([0.1, 0.2, 0.3, 0.7])
    column_of = np.array([0, 1, 1, 2])
    parts = linear.contributions(matrix, weights, column_of)
    for row, found in zip(matrix, parts, strict=True):
        p = row * weights
        assert found.tolist() == [p[0], p[1] + p[2], p[3]]
    scores = linear.scores(matrix, weights, 0.5, column_of)
    assert scores.tolist() == [((row[0] + row[1]) + row[2]) + 0.5 for row in parts.tolist()]
    both = linear.scores(matrix, np.stack([weights, -weights]), np.array([0.5, 0.0]), column_of)
    assert both[:, 0].tolist() == scores.tolist()


def test_many_products_are_summed_in_blocks_to_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    matrix, coef = random.normal(size=(40, 7)), random.normal(size=(60, 7))
    whole = linear.scores(matrix, coef, np.zeros(60))
    monkeypatch.setattr(linear, "BLOCK_PRODUCTS", 10)
    np.testing.assert_array_equal(linear.scores(matrix, coef, np.zeros(60)), whole)
    np.testing.assert_array_equal(linear.scores(matrix, coef[0], 0.0), whole[:, 0])


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (2, 0), (7, 54), (3000, 54), (40, 3001)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_compiled_sums_are_the_same_bits(shape: tuple[int, int], dtype: Any) -> None:
    random = np.random.default_rng(0)
    matrix = (1e3 * random.normal(size=shape)).astype(dtype)
    coef, intercept = random.normal(size=(3, shape[1])), random.normal(size=3)
    for rows in (matrix, np.asfortranarray(matrix), -np.abs(matrix[:, ::-1]) * 0):
        for weights, shift in ((coef[0], 0.25), (coef, intercept), (coef[1], -0.0)):
            np.testing.assert_array_equal(
                linear.scores(rows, weights, shift, dense_sums=dense_sums).view(np.int64),
                linear.scores(rows, weights, shift).view(np.int64),
            )


@pytest.mark.parametrize("classes", [1, 5])
def test_a_sparse_row_costs_by_its_entries_and_not_by_the_width(tmp_path: Path, classes: int) -> None:
    width = 1_000_000
    coef = np.zeros((classes, width)) if classes > 1 else np.zeros(width)
    coef[..., -1] = np.arange(classes) if classes > 1 else 1.0
    task: dict[str, Any] = {"task": "multiclass", "classes": list(range(classes))} if classes > 1 else {}
    model = served_model(tmp_path, coef, [0.0] * classes, **task)
    row = {"indices": [width - 1, 5, 70_000], "values": [2.0, 1.0, 1.0]}
    body = json.dumps({"instances": [row] * 3, "return": ["label", "score", "contributions"]}).encode()
    predict_with(model, body, JSON, None)
    tracemalloc.start()
    answered = json.loads(predict_with(model, body, JSON, None).content)["predictions"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < width / 4  # bytes: not even a bit a feature
    assert [one["score"] for one in answered] == [2.0 * max(1, classes - 1)] * 3
    assert answered[0]["contributions"]["indices"] == [5, 70_000, width - 1]


CALIBRATED = {"method": "platt", "argument": "score"}


def test_probabilities_are_offered_by_calibrated_models_only(tmp_path: Path, binary: ServedModel) -> None:
    with pytest.raises(Invalid):
        ask(binary, [[0.0] * 9], "probability")
    model = served_model(
        tmp_path,
        [1.0],
        0.0,
        calibration=CALIBRATED,
        arrays={"calibration.slope": np.array([2.0]), "calibration.shift": np.array([0.5])},
    )
    answer = ask(model, [[1.0], [-3.0]], "label", "probability", "probabilities")
    assert answer["classes"] == ["no", "yes"]
    for one, score in zip(answer["predictions"], (1.0, -3.0), strict=True):
        expected = 1 / (1 + np.exp(-(2.0 * score + 0.5)))
        assert one["probability"] == pytest.approx(expected, rel=1e-12)
        assert one["probabilities"] == pytest.approx([1 - expected, expected], rel=1e-12)


def test_the_probability_of_several_classes_is_that_of_the_label(tmp_path: Path) -> None:
    arrays = {"calibration.slope": np.array([1.0, 2.0, 0.5]), "calibration.shift": np.array([0.0, 0.1, -0.1])}
    model = served_model(
        tmp_path,
        [[1.0], [0.0], [-1.0]],
        [0.0, 0.0, 0.0],
        task="multiclass",
        classes=["a", "b", "c"],
        calibration=CALIBRATED,
        arrays=arrays,
    )
    for one in ask(model, [[2.0], [-2.0]], "label", "probability", "probabilities")["predictions"]:
        assert one["probability"] == one["probabilities"][["a", "b", "c"].index(one["label"])]
        assert sum(one["probabilities"]) == pytest.approx(1.0, abs=1e-15)


def test_nothing_is_certain_without_a_certificate(binary: ServedModel) -> None:
    (one,) = ask(binary, [[1.0] * 9], "score_error_bound", "label_certain")["predictions"]
    assert one == {"score_error_bound": None, "label_certain": None}


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        (None, JSON),
        ("*/*", JSON),
        ("application/*", JSON),
        ("text/*", "text/csv"),
        ("text/csv", "text/csv"),
        ("Text/CSV; header=present", "text/csv"),
        ("text/csv;q=0.5, application/json;q=0.4", "text/csv"),
        ("text/csv;q=0.5, application/json", JSON),
        ("application/json;q=0, */*", "text/csv"),
        ("application/json; q=0.2, */*;q=0.1", JSON),
        ("text/html, application/x-ndjson;q=0.9, */*;q=0.1", "application/x-ndjson"),
        ("application/x-npy, application/vnd.apache.arrow.stream", "application/vnd.apache.arrow.stream"),
        ("text/csv;q=nonsense, application/x-npy;q=0.001", "application/x-npy"),
    ],
)
def test_the_best_accepted_format_is_chosen(accept: str | None, chosen: str) -> None:
    assert negotiated(accept) == chosen


@pytest.mark.parametrize("accept", ["image/png", "", "application/json;q=0", "text/html, application/xml", "*", ";;,"])
def test_where_nothing_is_accepted_it_is_said_what_there_is(accept: str) -> None:
    with pytest.raises(NotAcceptable) as caught:
        negotiated(accept)
    assert all(name in caught.value.detail for name in OFFERED)


def test_every_format_has_the_same_data(several: ServedModel) -> None:
    rows = np.random.default_rng(1).normal(size=(7, 9)).tolist()
    wanted = ("label", "score", "scores", "label_certain")
    records = ask(several, rows, *wanted)["predictions"]
    lines = ask(several, rows, *wanted, accept="application/x-ndjson").splitlines()
    assert [json.loads(line) for line in lines] == records
    table = list(csv.DictReader(io.StringIO(ask(several, rows, *wanted, accept="text/csv").decode())))
    for found, record in zip(table, records, strict=True):
        assert found["label"] == str(record["label"])
        assert float(found["score"]) == record["score"]
        assert json.loads(found["scores"]) == record["scores"]
        assert found["label_certain"] == ""
    with pa.ipc.open_stream(ask(several, rows, *wanted, accept="application/vnd.apache.arrow.stream")) as stream:
        arrow = stream.read_all()
    assert arrow["label"].to_pylist() == [str(record["label"]) for record in records]
    assert arrow["score"].to_pylist() == [record["score"] for record in records]
    assert arrow["scores"].to_pylist() == [record["scores"] for record in records]
    assert arrow["label_certain"].null_count == 7
    assert json.loads(arrow.schema.metadata[b"classes"]) == ["p", "q", 3, 4.5]
    array = np.load(io.BytesIO(ask(several, rows, accept="application/x-npy")))
    np.testing.assert_array_equal(array, [record["scores"] for record in records])


def test_an_array_holds_one_output_of_numbers(binary: ServedModel) -> None:
    rows = [[1.0] * 9, [2.0] * 9]
    scores = [one["score"] for one in ask(binary, rows)["predictions"]]
    assert np.load(io.BytesIO(ask(binary, rows, accept="application/x-npy"))).tolist() == scores
    for wanted in (("label",), ("label", "score"), ("contributions",), ("score_error_bound",)):
        with pytest.raises(Invalid) as caught:
            ask(binary, rows, *wanted, accept="application/x-npy")
        assert caught.value.errors[0].field == "return"


def test_every_cell_of_a_csv_answer_is_what_json_says() -> None:
    random = np.random.default_rng(0)
    numbers = np.concatenate([random.standard_normal(50) * 10.0 ** random.integers(-30, 30, 50), [0.0, 1e-5, 5e-324]])
    columns = {
        "row": np.arange(53),
        'a "score", or so': numbers,
        "label": ["plain", "a,b", 'say "x"', "two\nlines", "", "null", "1"] * 7 + ["\r", " ", "ü", "-"],
        "mixed": [1, 2.5, None, True, "word"] * 10 + [False, None, 0],
        "parts": [[1.5, None], {"a": [1]}, None] * 17 + [[], "x"],
        "nothing": [None] * 53,
    }
    heading, *lines = csv.reader(io.StringIO(response_formats.encode(CSV, {}, columns).decode(), newline=""))
    assert heading == list(columns)
    shown = [
        ["" if value is None else value if isinstance(value, str) else json.loads(json.dumps(value)) for value in row]
        for row in zip(*(response_formats.plain(column) for column in columns.values()), strict=True)
    ]
    read = [
        [cell if isinstance(value, str) else json.loads(cell) for cell, value in zip(line, row, strict=True)]
        for line, row in zip(lines, shown, strict=True)
    ]
    assert read == shown


def test_a_row_of_nothing_is_still_a_line_of_csv() -> None:
    assert response_formats.encode(CSV, {}, {"rank": [None, 2, None]}) == b'rank\n""\n2\n""\n'
    assert response_formats.encode(CSV, {}, {"rank": []}) == b"rank\n"


def test_labels_that_need_quotes_and_columns_with_names_survive_a_csv(tmp_path: Path) -> None:
    model = served_model(tmp_path, [1.0], 0.0, classes=['say "no",\nor', "yes=1"], feature_names=["x"])
    text = ask(model, [[1], [-1]], "label", "contributions", accept="text/csv").decode()
    found = list(csv.DictReader(io.StringIO(text)))
    assert [one["label"] for one in found] == ["yes=1", 'say "no",\nor']
    assert [json.loads(one["contributions"]) for one in found] == [{"x": 1.0}, {"x": -1.0}]


@pytest.mark.parametrize("label", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\tx", "\rx"])
def test_a_label_that_looks_like_a_formula_is_text_in_csv(label: str) -> None:
    columns = {"label": [label, "-1", "+2.5e3", "plain", "a=b"], "score": [-1.0, 2.0, 3.0, 4.0, 5.0]}
    rows = list(csv.DictReader(io.StringIO(response_formats.encode(CSV, {}, columns).decode(), newline="")))
    assert [row["label"] for row in rows] == ["'" + label, "-1", "+2.5e3", "plain", "a=b"]
    assert rows[0]["score"] == "-1.0"
