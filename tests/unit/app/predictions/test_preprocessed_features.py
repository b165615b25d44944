"""Predict of models with preprocessing: raw rows in any format, missing values, warnings, and exact contributions."""

import csv
import io
import json
from datetime import date
from decimal import Decimal
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from app.errors import Invalid, Unparsable
from app.models import linear
from app.predictions.model_cache import ServedModel
from app.predictions.service import predict_with
from app.preprocess.fit import fit, transform
from app.preprocess.pipeline import Pipeline
from app.preprocess.pipeline_document import to_document
from app.preprocess.spec import Preprocess
from app.tabular.frame import Column, Frame, Strings
from app.web.media_types import ARROW, CSV, JSON, NDJSON, NPY, NPZ
from tests.support.builders import served_model

JOBS = ["baker", "nurse", "smith"]
NOTES = ["free money now", "see you at lunch", "free lunch", "money money money", "", "now or never"]
SPEC = {"missing": "indicator"}


def frame() -> Frame:
    random = np.random.default_rng(3)
    codes = random.integers(0, 3, 30).astype(float)
    texts = [NOTES[k] for k in random.integers(0, len(NOTES), 30)]
    age = np.where(random.random(30) < 0.2, np.nan, random.normal(40, 12, 30))
    X = np.column_stack([age, codes, [float(len(text)) for text in texts], np.arange(30) * 86400.0 * 11, codes == 1])
    columns = [
        Column("age"),
        Column("job", "categorical", Strings.of(JOBS)),
        Column("note", "text"),
        Column("since", "date"),
        Column("owner", "boolean"),
    ]
    return Frame(X, columns, {2: Strings.of(texts)})


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    return fit(Preprocess.model_validate(SPEC), frame()).pipeline


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, pipeline: Pipeline) -> ServedModel:
    document, arrays = to_document(pipeline)
    coef = np.random.default_rng(4).normal(size=pipeline.n_features)
    return served_model(tmp_path_factory.mktemp("model"), coef, 0.3, preprocess=document, arrays=arrays)


ROWS: list[dict[str, Any]] = [
    {"age": 33.5, "job": "nurse", "note": "free money for you", "since": "1970-02-03", "owner": True},
    {"age": None, "job": "pilot", "note": "Lunch, now!", "since": "1971-01-01", "owner": False},
    {"age": 61, "job": None, "note": None, "since": "1970-05-31", "owner": None},
]


def ask(model: ServedModel, body: bytes, content_type: str, wanted: str = "score") -> Any:
    return json.loads(predict_with(model, body, content_type, None, wanted=wanted).content)


def in_json(rows: Any) -> bytes:
    return json.dumps({"instances": rows}).encode()


def refusal(model: ServedModel, body: bytes, content_type: str = JSON) -> Invalid:
    with pytest.raises(Invalid) as caught:
        predict_with(model, body, content_type, None)
    return caught.value


def in_csv() -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(ROWS[0]))
    writer.writeheader()
    writer.writerows(ROWS)
    return text.getvalue().encode()


def in_arrow(number: type[float] | type[Decimal] = float) -> bytes:
    columns = {name: [row[name] for row in ROWS] for name in ROWS[0]}
    columns["age"] = [None if age is None else number(age) for age in columns["age"]]
    columns["since"] = [date.fromisoformat(row["since"]) for row in ROWS]
    table, stream = pa.table(columns), io.BytesIO()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    return stream.getvalue()


def test_a_raw_row_has_the_same_score_in_every_format(model: ServedModel, pipeline: Pipeline) -> None:
    expected = ask(model, in_json(ROWS), JSON)["predictions"]
    features, _ = pipeline.apply({name: [row[name] for row in ROWS] for name in ROWS[0]}, 3)
    dense = features if isinstance(features, np.ndarray) else features.toarray()
    by_hand = dense @ model.file.coef + 0.3
    np.testing.assert_allclose([one["score"] for one in expected], by_hand, rtol=1e-12)
    assert ask(model, in_json([list(row.values()) for row in ROWS]), JSON)["predictions"] == expected
    mixed = [ROWS[0], list(ROWS[1].values()), ROWS[2]]
    assert ask(model, in_json(mixed), JSON)["predictions"] == expected
    lines = "\n".join(map(json.dumps, ROWS)).encode()
    assert ask(model, lines, NDJSON)["predictions"] == expected
    assert ask(model, in_csv(), CSV)["predictions"] == expected
    assert ask(model, in_csv().partition(b"\n")[2], "text/csv; header=absent")["predictions"] == expected
    assert ask(model, in_arrow(), ARROW)["predictions"] == expected
    assert ask(model, in_arrow(Decimal), ARROW)["predictions"] == expected
    assert [ask(model, in_json([row]), JSON)["predictions"][0] for row in ROWS] == expected


def test_stored_rows_and_served_rows_have_the_same_scores(model: ServedModel, pipeline: Pipeline) -> None:
    table = frame()
    features = transform(pipeline, table)
    scores = linear.scores(features, model.file.coef, 0.3, model.features.column_of)
    texts = table.texts[2].to_list()
    rows = [
        [None if np.isnan(age) else age, JOBS[int(job)], text, str(date.fromordinal(719163 + 11 * n)), bool(owner)]
        for n, ((age, job, _, _, owner), text) in enumerate(zip(table.X.tolist(), texts, strict=True))
    ]
    assert [one["score"] for one in ask(model, in_json(rows), JSON)["predictions"]] == scores.tolist()


def test_contributions_are_by_column_and_sum_to_the_very_score(model: ServedModel) -> None:
    for one in ask(model, in_json(ROWS), JSON, "score,contributions")["predictions"]:
        assert list(one["contributions"]) == ["age", "job", "note", "since", "owner"]
        assert reduce(add, one["contributions"].values()) + one["intercept"] == one["score"]


def test_unknown_columns_are_ignored_and_absent_ones_missing_with_a_warning(model: ServedModel) -> None:
    answer = ask(model, in_json([{**ROWS[0], "shoe": 44}]), JSON)
    assert [one["code"] for one in answer["warnings"]] == ["unknown_columns"]
    assert answer["predictions"] == ask(model, in_json(ROWS[:1]), JSON)["predictions"]
    answer = ask(model, in_json([{"job": "nurse"}]), JSON)
    assert [one["code"] for one in answer["warnings"]] == ["missing_columns"]
    missing = {"age": None, "job": "nurse", "note": None, "since": None, "owner": None}
    assert answer["predictions"] == ask(model, in_json([missing]), JSON)["predictions"]
    reply = predict_with(model, b"age,shoe\n3,4\n", CSV, "text/csv")
    assert reply.headers["X-Warnings"] == "unknown_columns, missing_columns"
    assert "warnings" not in ask(model, in_json(ROWS), JSON)


def test_a_value_that_does_not_fit_its_column_is_named(model: ServedModel) -> None:
    error = refusal(model, in_json([ROWS[0], {**ROWS[1], "age": "old"}]))
    assert error.errors[0].field == "instances[1].age"
    assert "old" not in error.detail
    error = refusal(model, in_json([ROWS[0], {**ROWS[1], "since": "yesterday"}, ROWS[2]]))
    assert error.errors[0].field == "instances[1].since"
    error = refusal(model, in_csv().replace(b"33.5", b"x"), CSV)
    assert (error.code, error.errors[0].line, error.errors[0].column) == ("not_a_number", 2, 1)
    error = refusal(model, in_csv().replace(b"1971-01-01", b"soon"), CSV)
    assert (error.errors[0].line, error.errors[0].field) == (3, "since")
    error = refusal(model, in_json([[1, 2, 3]]))
    assert (error.code, error.errors[0].field) == ("wrong_width", "instances[0]")


def test_missing_values_are_refused_where_the_model_says_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    table = Frame(np.array([[1.0, 10.0], [2.0, -500.0], [3.0, 7.0]]), [Column("a"), Column("b")])
    fitted = fit(Preprocess.model_validate({"missing": "error", "scale": "standard"}), table).pipeline
    document, arrays = to_document(fitted)
    model = served_model(tmp_path_factory.mktemp("strict"), [1.0, 2.0], 0.0, preprocess=document, arrays=arrays)
    assert ask(model, in_json([[1, 2]]), JSON)["predictions"] == [{"score": 5.0}]
    sparse = in_json([{"indices": [1], "values": [2]}])
    assert ask(model, sparse, JSON)["predictions"] == [{"score": 4.0}]
    stream = io.BytesIO()
    np.save(stream, np.array([[1.0, 2.0], [np.nan, 1.0]]))
    error = refusal(model, stream.getvalue(), NPY)
    assert (error.code, error.errors[0].field) == ("missing_value", "rows[1].a")
    error = refusal(model, in_json([[1, 2], [None, 1]]))
    assert (error.code, error.errors[0].field) == ("missing_value", "instances[1].a")
    np.testing.assert_allclose(
        model.features.norms(np.array([[2.0, 0.0]])), [np.hypot(0.0, table.X[:, 1].mean() / table.X[:, 1].std())]
    )


def test_vectors_are_scaled_by_the_weights_alone(tmp_path_factory: pytest.TempPathFactory) -> None:
    table = Frame(np.array([[1.0, 10.0], [2.0, -500.0], [3.0, 7.0]]))
    fitted = fit(Preprocess.model_validate({"missing": "mean", "scale": "standard"}), table).pipeline
    document, arrays = to_document(fitted)
    model = served_model(tmp_path_factory.mktemp("vectors"), [1.0, 2.0], 0.0, preprocess=document, arrays=arrays)
    assert ask(model, in_json([[1, 2], {"indices": [0], "values": [4]}]), JSON)["predictions"] == [
        {"score": 5.0},
        {"score": 4.0},
    ]
    stream = io.BytesIO()
    np.save(stream, np.array([[np.nan, 1.0]]))
    assert ask(model, stream.getvalue(), NPY)["predictions"] == [{"score": 4.0}]
    assert refusal(model, in_json([{"a": 1}])).code == "unnamed_features"


@pytest.mark.parametrize("missing", ["mean", "zero", "indicator"])
def test_a_sparse_row_with_a_gap_is_the_dense_one(tmp_path_factory: pytest.TempPathFactory, missing: str) -> None:
    table = Frame(np.array([[1.0, 10.0, 2.0], [2.0, np.nan, np.nan], [np.nan, 7.0, 1.0]]), list(map(Column, "abc")))
    fitted = fit(Preprocess.model_validate({"missing": missing}), table).pipeline
    document, arrays = to_document(fitted)
    coef = np.random.default_rng(4).normal(size=fitted.n_features)
    model = served_model(tmp_path_factory.mktemp("gaps"), coef, 0.3, preprocess=document, arrays=arrays)
    dense: list[list[Any]] = [[1.5, 0, 4], [None, 0, 4], [0, None, None], [0, 0, 0]]
    expected = ask(model, in_json(dense), JSON)["predictions"]
    sparse = [
        {"indices": [2, 0], "values": [4, 1.5]},
        {"indices": [0, 2], "values": [None, 4]},
        {"indices": [1, 2], "values": [None, None]},
        {"indices": [], "values": []},
    ]
    assert ask(model, in_json(sparse), JSON)["predictions"] == expected
    assert [ask(model, in_json([row]), JSON)["predictions"][0] for row in sparse] == expected
    mixed = [dense[0], sparse[1], dict(zip("abc", dense[2], strict=True)), sparse[3]]
    assert ask(model, in_json(mixed), JSON)["predictions"] == expected
    stream = io.BytesIO()
    sp.save_npz(stream, sp.csr_array(np.array(dense, dtype=np.float64)))
    assert ask(model, stream.getvalue(), NPZ)["predictions"] == expected
    stored = transform(fitted, Frame(sp.csr_array(np.array(dense, dtype=np.float64)), []))
    scores = linear.scores(stored, coef, 0.3, model.features.column_of)
    assert scores.tolist() == [one["score"] for one in expected]


def test_a_gap_of_a_sparse_row_is_refused_where_the_model_says_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    table = Frame(np.array([[1.0, 10.0], [2.0, -500.0], [3.0, 7.0]]), [Column("a"), Column("b")])
    fitted = fit(Preprocess.model_validate({"missing": "error"}), table).pipeline
    document, arrays = to_document(fitted)
    model = served_model(tmp_path_factory.mktemp("strict"), [1.0, 2.0], 0.0, preprocess=document, arrays=arrays)
    error = refusal(model, in_json([[1, 2], {"indices": [1], "values": [None]}]))
    assert (error.code, error.errors[0].field) == ("missing_value", "instances[1].b")


def test_truth_values_are_judged_alike_in_every_format(tmp_path_factory: pytest.TempPathFactory) -> None:
    table = Frame(np.array([[1.0, 1.0], [2.0, 0.0], [30.0, 1.0]]), [Column("a"), Column("owner", "boolean")])
    document, arrays = to_document(fit(Preprocess.model_validate({}), table).pipeline)
    model = served_model(tmp_path_factory.mktemp("truths"), [1.0, 2.0], 0.0, preprocess=document, arrays=arrays)
    for row in ([3, 1], [3, True], [3, "yes"], {"a": 3, "owner": True}, {"indices": [0, 1], "values": [3, 1]}):
        assert ask(model, in_json([row]), JSON)["predictions"] == [{"score": 5.0}]
    for row in ([3, 0.5], [3, "maybe"], {"a": 3, "owner": 2}, {"indices": [0, 1], "values": [3, 0.5]}):
        error = refusal(model, in_json([[1, 0], row]))
        assert (error.errors[0].field, error.errors[0].detail) == ("instances[1].owner", "must be true or false")


def test_a_quote_that_is_never_closed_swallows_no_row(model: ServedModel) -> None:
    head = b"age,job,since,owner,note\n33,nurse,1970-02-03,1,"
    rest = b"\n34,nurse,1970-02-03,1,lunch\n"
    for cell in (b'free "money"', b'5" disk', b'"a ""quoted"" lunch"', b'"two\nlines"', b'""'):
        assert len(ask(model, head + cell + rest, CSV)["predictions"]) == 2, cell
    for cell in (b'"free money', b'"', b'"free ""money'):
        with pytest.raises(Unparsable, match="ends inside a quoted cell"):
            predict_with(model, head + cell + rest, CSV, None)


def test_a_cell_may_be_long(model: ServedModel) -> None:
    """The csv module takes 131,072 characters by itself; the header is looked for in the first million."""
    for words in (30_000, 300_000):
        text = "lunch " * words
        expected = ask(model, in_json([{**ROWS[0], "note": text}]), JSON)["predictions"]
        line = f'33.5,nurse,"{text}",1970-02-03,true\n'.encode()
        assert ask(model, line, CSV)["predictions"] == expected
        error = refusal(model, line + b"x,nurse,lunch,1970-02-03,true\n", CSV)
        assert (error.code, error.errors[0].line, error.errors[0].column) == ("not_a_number", 2, 1)
