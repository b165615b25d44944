"""What a predict body may look like, what comes back, and that every refusal says where the mistake is."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import AppError, Invalid, Unparsable
from app.predictions.model_cache import ServedModel
from app.predictions.service import predict_with
from tests.support.builders import NOBODY, SOAK, served_model

COEF = [0.5, -2.0, 1e-3, 7.0]
INTERCEPT = -0.75
NAMES = ["age", "height", "indices", "values"]
SCORE_TOLERANCE = 1e-12

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.sampled_from([*NAMES, "a"]) | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> ServedModel:
    """A model whose features have no names."""
    return served_model(tmp_path_factory.mktemp("plain"), COEF, INTERCEPT)


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> ServedModel:
    return served_model(tmp_path_factory.mktemp("named"), COEF, INTERCEPT, feature_names=["a", "b", "c", "d"])


def predict(model: ServedModel, body: bytes) -> bytes:
    return predict_with(model, body, "application/json", None).content


def answer(model: ServedModel, instances: Any, **fields: Any) -> list[dict[str, Any]]:
    body = json.loads(predict(model, json.dumps({"instances": instances, **fields}).encode()))
    assert (body["model"], body["name"], body["version"]) == (f"mdl_{NOBODY}", "m", 1)
    predictions: list[dict[str, Any]] = body["predictions"]
    return predictions


def refusal(model: ServedModel, body: Any) -> Invalid:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(Invalid) as caught:
        predict(model, raw)
    return caught.value


def score(row: Any) -> float:
    return float(np.array(row, dtype=np.float64) @ np.array(COEF) + INTERCEPT)


def test_lists_are_scored_in_order(plain: ServedModel) -> None:
    rows = np.random.default_rng(1).normal(scale=10, size=(50, 4)).tolist()
    predictions = answer(plain, rows)
    scores = [one["score"] for one in predictions]
    np.testing.assert_allclose(scores, [score(row) for row in rows], rtol=SCORE_TOLERANCE, atol=SCORE_TOLERANCE)
    assert [one["label"] for one in predictions] == ["yes" if value > 0 else "no" for value in scores]
    assert {one["label"] for one in predictions} == {"yes", "no"}


def test_the_three_shapes_of_one_row_agree_also_when_mixed(named: ServedModel) -> None:
    row = [1.5, 0.0, -3.0, 2.0]
    by_name = {"d": 2.0, "b": 0.0, "a": 1.5, "c": -3.0}
    sparse = {"indices": [3, 0, 2], "values": [2.0, 1.5, -3.0]}
    predictions = answer(named, [row, by_name, sparse, {"indices": [], "values": []}, row])
    expected = [score(row)] * 3 + [INTERCEPT, score(row)]
    np.testing.assert_allclose([one["score"] for one in predictions], expected, rtol=0, atol=SCORE_TOLERANCE)


def test_integers_are_numbers(plain: ServedModel) -> None:
    (one,) = answer(plain, [[1, 2, -3, 2**70]])
    assert one["score"] == pytest.approx(score([1, 2, -3, 2.0**70]), rel=SCORE_TOLERANCE)


def test_features_may_be_called_indices_and_values(tmp_path: Path) -> None:
    model = served_model(tmp_path, [1.0, 10.0], 0.0, feature_names=["indices", "values"])
    assert answer(model, [{"values": 2, "indices": 3}])[0]["score"] == 23.0


def test_a_score_of_zero_is_the_first_class(tmp_path: Path) -> None:
    model = served_model(tmp_path, [1.0], 0.0, classes=[0, 1])
    assert [one["label"] for one in answer(model, [[0], [5e-324], [-1]])] == [0, 1, 0]


@pytest.mark.parametrize(
    ("wanted", "keys"), [(["label"], {"label"}), (["score"], {"score"}), (["score", "label"], {"label", "score"})]
)
def test_only_what_is_asked_for_is_returned(plain: ServedModel, wanted: list[str], keys: set[str]) -> None:
    assert [set(one) for one in answer(plain, [[1, 2, 3, 4]] * 2, **{"return": wanted})] == [keys, keys]


@pytest.mark.parametrize("wanted", [["probability"], ["label", "x"], [], [""]])
def test_an_output_that_there_is_not_is_refused(plain: ServedModel, wanted: list[str]) -> None:
    error = refusal(plain, {"instances": [[1, 2, 3, 4]], "return": wanted})
    assert (error.code, error.errors[0].field) == ("unknown_output", "return")


THREE = [[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]]


def test_of_several_classes_the_largest_score_wins_and_the_first_of_equal_ones(tmp_path: Path) -> None:
    model = served_model(
        tmp_path, THREE, [0.0, 0.0, 0.5], task="multiclass", classes=["a", 2, 2.5], feature_names=["x", "y"]
    )
    rows = [[3, 1], {"x": 1, "y": 3}, {"indices": [1], "values": [-4]}, [2, 2]]
    assert answer(model, rows) == [
        {"label": "a", "score": 3.0},
        {"label": 2, "score": 3.0},
        {"label": 2.5, "score": 4.5},
        {"label": "a", "score": 2.0},
    ]
    assert answer(model, rows[:2], **{"return": ["scores"]}) == [
        {"scores": [3.0, 1.0, -3.5]},
        {"scores": [1.0, 3.0, -3.5]},
    ]
    body = json.loads(predict(model, json.dumps({"instances": [[0, 0]], "return": ["scores"]}).encode()))
    assert body["classes"] == ["a", 2, 2.5]
    error = refusal(model, {"instances": [[0, 0], [1e308, 1e308], [-1e308, -1.7e308]]})
    assert (error.code, error.errors[0].field) == ("overflow", "instances[1]")


def test_a_score_above_a_threshold_has_the_next_rank(tmp_path: Path) -> None:
    model = served_model(tmp_path, [1.0], 0.0, thresholds=[-1.0, 2.0], task="ordinal", classes=[1, 3, 5])
    predictions = answer(model, [[-2], [-1], [0], [2], [2.5]], **{"return": ["score", "rank", "label"]})
    assert [one["label"] for one in predictions] == [1, 1, 3, 3, 5]
    assert [one["rank"] for one in predictions] == [1, 1, 3, 3, 5]
    assert [one["score"] for one in predictions] == [-2.0, -1.0, 0.0, 2.0, 2.5]
    assert set(answer(model, [[0]])[0]) == {"label", "score"}


def test_an_order_without_ranks_has_scores_only(tmp_path: Path) -> None:
    model = served_model(tmp_path, [1.0], 0.0, task="ordinal", classes=[])
    assert answer(model, [[4]]) == [{"score": 4.0}]
    error = refusal(model, {"instances": [[4]], "return": ["label"]})
    assert (error.code, error.errors[0].field) == ("unknown_output", "return")


def test_a_predicted_number_is_label_and_score(tmp_path: Path) -> None:
    model = served_model(tmp_path, [2.0], 0.5, task="regression", classes=[])
    assert answer(model, [[4], {"indices": [], "values": []}]) == [
        {"label": 8.5, "score": 8.5},
        {"label": 0.5, "score": 0.5},
    ]


@pytest.mark.parametrize(("task", "output"), [("binary", "scores"), ("binary", "rank"), ("regression", "rank")])
def test_an_output_of_another_task_is_refused(tmp_path: Path, task: str, output: str) -> None:
    model = served_model(tmp_path, [2.0], 0.5, task=task, classes=[0, 1] if task == "binary" else [])
    assert refusal(model, {"instances": [[1]], "return": [output]}).code == "unknown_output"


# A row that is wrong, as JSON text; the code; the place behind `instances[1]`.
BAD_ROWS = [
    ("[1, 2, 3]", "wrong_width", ""),
    ("[1, 2, 3, 4, 5]", "wrong_width", ""),
    ("[]", "wrong_width", ""),
    ("[1, 2, null, 4]", "missing_value", "[2]"),
    ('[1, 2, 3, "4"]', "not_a_number", "[3]"),
    ("[true, 2, 3, 4]", "not_a_number", "[0]"),
    ("[1, [2], 3, 4]", "not_a_number", "[1]"),
    ("[1, {}, 3, 4]", "not_a_number", "[1]"),
    ("[1, 2, 3, 1" + "0" * 400 + "]", "not_a_number", "[3]"),
    ("[1, 2, 3, -1" + "0" * 400 + "]", "not_a_number", "[3]"),
    ("[1, 2, 1e999, 4]", "invalid_body", "[2]"),
    ("[1, 2, -1e999, 4]", "invalid_body", "[2]"),
    ("[1e308, -1e308, 1e308, 1e308]", "overflow", ""),
    ("3", "wrong_type", ""),
    ("null", "wrong_type", ""),
    ('"1,2,3,4"', "wrong_type", ""),
    ('{"a": 1, "b": 2, "c": 3}', "missing_feature", ""),
    ('{"a": 1, "b": 2, "c": 3, "D": 4}', "unknown_feature", ""),
    ('{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}', "unknown_feature", ""),
    ('{"a": 1, "b": null, "c": 3, "d": 4}', "missing_value", ".b"),
    ('{"a": 1, "b": 2, "c": "x", "d": 4}', "not_a_number", ".c"),
    ("{}", "missing_feature", ""),
    ('{"indices": [0, 4], "values": [1, 2]}', "unknown_feature", ""),
    ('{"indices": [-1], "values": [1]}', "unknown_feature", ""),
    ('{"indices": [9223372036854775807], "values": [1]}', "unknown_feature", ""),
    ('{"indices": [9223372036854775808], "values": [1]}', "wrong_type", ""),
    ('{"indices": [1, 1], "values": [1, 2]}', "duplicate_feature", ""),
    ('{"indices": [1, 2], "values": [1]}', "wrong_width", ""),
    ('{"indices": [0.5], "values": [1]}', "wrong_type", ""),
    ('{"indices": ["0"], "values": [1]}', "wrong_type", ""),
    ('{"indices": [true], "values": [1]}', "wrong_type", ""),
    ('{"indices": [0], "values": [null]}', "missing_value", ".a"),
    ('{"indices": [0], "values": [true]}', "wrong_type", ""),
    ('{"indices": 0, "values": 1}', "wrong_type", ""),
    ('{"indices": [0], "values": [1' + "0" * 400 + "]}", "wrong_type", ""),
]


@pytest.mark.parametrize(("row", "code", "place"), BAD_ROWS, ids=[f"{row[:40]}" for row, _, _ in BAD_ROWS])
@pytest.mark.parametrize("good", ["[1, 2, 3, 4]", '{"a": 1, "b": 2, "c": 3, "d": 4}'], ids=["list", "named"])
def test_a_bad_row_is_refused_by_its_place(named: ServedModel, good: str, row: str, code: str, place: str) -> None:
    error = refusal(named, f'{{"instances": [{good}, {row}, {good}]}}'.encode())
    assert (error.code, error.errors[0].code) == (code, code)
    assert error.errors[0].field == f"instances[1]{place}"
    assert f"instances[1]{place}" in error.detail


def test_names_mean_nothing_to_a_model_without_names(plain: ServedModel) -> None:
    error = refusal(plain, {"instances": [{"a": 1}]})
    assert (error.code, error.errors[0].field) == ("unnamed_features", "instances[0]")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"{}", "body"),
        (b"[]", "body"),
        (b"null", "body"),
        (b'{"instances": null}', "instances"),
        (b'{"instances": {}}', "instances"),
        (b'{"instances": []}', "instances"),
        (b'{"instances": [[1,2,3,4]], "return": "label"}', "return"),
        (b'{"instances": [[1,2,3,4]], "return": [1]}', "return[0]"),
        (b'{"instances": [[1,2,3,4]], "inputs": 1}', "body"),
        (b'{"instance": [[1,2,3,4]]}', "body"),
    ],
)
def test_a_body_of_another_shape_is_refused_by_field(plain: ServedModel, body: bytes, field: str) -> None:
    assert refusal(plain, body).errors[0].field == field


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"\xff", b"\x00", b'{"instances": [[NaN,2,3,4]]}', b'{"instances": [[Infinity,2,3,4]]}'),
        *(b'{"instances": [[1,2,3,4]]} x', b"{'instances': [[1]]}", b'{"instances": [[1,2,3,4],]}'),
        *(b'{"instances": ["\xff"]}', b'{"instances": [{"\\ud800": 1}]}', b'{"instances": [[01,2,3,4]]}'),
        *(b'{"instances": ' + b"[" * 100_000, b'{"instances": ' + b"[" * 5000 + b"]" * 5000 + b"}"),
    ],
    ids=lambda body: body[:30].decode("latin-1"),
)
def test_what_is_not_json_is_unparsable(plain: ServedModel, body: bytes) -> None:
    with pytest.raises(Unparsable):
        predict(plain, body)


@settings(max_examples=150 * SOAK, deadline=None, derandomize=SOAK == 1)
@given(
    body=st.fixed_dictionaries(
        {"instances": st.lists(JSON_VALUES, max_size=4) | JSON_VALUES},
        optional={"return": JSON_VALUES | st.lists(st.sampled_from(["label", "score", "x"])), "x": JSON_VALUES},
    )
    | JSON_VALUES
)
def test_any_json_is_answered_or_refused(named: ServedModel, plain: ServedModel, body: Any) -> None:
    for model in (named, plain):
        try:
            answered = json.loads(predict(model, json.dumps(body).encode()))
        except (Invalid, Unparsable):
            continue
        assert len(answered["predictions"]) == len(body["instances"])


@settings(max_examples=200 * SOAK, deadline=None, derandomize=SOAK == 1)
@given(raw=st.binary(max_size=60))
def test_any_bytes_are_refused(named: ServedModel, raw: bytes) -> None:
    with pytest.raises(AppError):
        predict(named, b'{"instances": ' + raw)


@settings(max_examples=100 * SOAK, deadline=None, derandomize=SOAK == 1)
@given(rows=st.lists(st.lists(st.floats(-1e6, 1e6), min_size=4, max_size=4), min_size=1, max_size=5))
def test_scores_are_the_dot_products(named: ServedModel, rows: list[list[float]]) -> None:
    sparse = [{"indices": [3, 1, 0, 2], "values": [row[3], row[1], row[0], row[2]]} for row in rows]
    expected = np.array(rows) @ np.array(COEF) + INTERCEPT
    size = np.abs(np.array(rows)) @ np.abs(COEF) + abs(INTERCEPT)
    for instances in (rows, sparse):
        scores = np.array([one["score"] for one in answer(named, instances)])
        assert (np.abs(scores - expected) <= SCORE_TOLERANCE * size).all()
