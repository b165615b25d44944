"""Exports of models with dates and texts, read by those they are for: onnxruntime and MLflow."""

import io
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import mlflow.pyfunc
import numpy as np
import onnx
import onnxruntime
import pandas
import pytest
from onnx import TensorProto, helper

from app.main import create_app
from app.models.exports.onnx_graph import texts
from app.models.exports.onnx_graph.graph import Graph
from app.preprocess.spec import TextSettings
from app.preprocess.terms import _terms
from app.tabular.date_text import read_date
from app.tabular.frame import Column, Frame, Strings
from tests.support.builders import InProcess, checked_problem, migrated_database, temporary_settings
from tests.support.exported_models import exported, model_document, predicted, send_model

generator = np.random.default_rng(23)
N = 80
VOCABULARY = ["Größe", "STRASSE", "naïve", "x_1", "ħbar", "don't", "日本語", "100", "MİLAN", "ǅungla", "a", "\u041a"]
TEXTS = [
    " ".join(VOCABULARY[k] for k in generator.integers(0, len(VOCABULARY), generator.integers(0, 9))) for _ in range(N)
]


def frame(*, gaps: bool = False) -> Frame:
    """A number, a date with a time of day, a category and a text; some cells are missing."""
    moments = generator.integers(-(10**10), 10**10, N).astype(float)
    places = np.zeros(N)
    if gaps:
        moments[::5], places[::7] = np.nan, np.nan
    columns = [Column("size"), Column("day", "date"), Column("kind", "categorical", Strings.of(["a", "b"]))]
    columns.append(Column("words", "text"))
    values = [generator.normal(size=N), moments, generator.integers(0, 2, N).astype(float), places]
    return Frame(np.column_stack(values), columns, {3: Strings.of(TEXTS)})


SPECS: dict[str, tuple[dict[str, Any], Frame]] = {
    "usual": ({}, frame()),
    "ngrams": ({"missing": "indicator", "text": {"ngrams": [1, 3], "min_df": 2}}, frame(gaps=True)),
    "counts": ({"text": {"norm": "none", "sublinear": False, "ngrams": [2, 2]}, "dates": ["month"]}, frame()),
    "cased": ({"text": {"lowercase": False, "idf": False}, "dates": ["hour", "days"]}, frame()),
    "strict": ({"missing": "error"}, frame()),
    "no terms": ({"missing": "indicator", "text": {"min_df": N}}, frame(gaps=True)),
}
NAMES = [f"{name}-{scores}" for name in SPECS for scores in (1, 3)]
ALLOWS_GAPS = [name for name in NAMES if not name.startswith("strict")]


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    folder = tmp_path_factory.mktemp("data")
    settings = temporary_settings(folder)
    with migrated_database(settings.resolved_database_url):
        client = InProcess(create_app(settings))
        for name, (spec, rows) in SPECS.items():
            for scores in (1, 3):
                send_model(client, f"{name.replace(' ', '_')}-{scores}", model_document(spec, rows, scores, folder))
        yield client


SENTENCES = [
    "größe GRÖSSE Größe, strasse-STRASSE",
    "naïve NAÏVE! x_1x_1 x_1 x_1 日本語日本語 日本語",
    "Milan MİLAN milan İlan aİ aİb xİİy 100 1 100.100",
    "\u1e9e ǅungla ǆUNGLA ħBAR Ħbar K \u041a\u043a к",
    "don't DON'T " + "w" * 70 + " a\u0301b café\u0301 \u2160\u2170 ⅷ ²³",
    "\U00010400\U00010428 \U00010428\U00010428 \ufb01\ufb01 x_1\u200dx_1 _ __",
    "tabs\tand\nlines\r\nstrasse\x00naïve " * 3,
    "...",
]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def raw_rows(name: str) -> list[dict[str, Any]]:
    moments = ["1970-01-01", "1969-12-31T23:59:59Z", "2024-02-29T23:00:00+02:00", "0001-01-01", "9999-12-31T23:59:59Z"]
    moments += [
        (EPOCH + timedelta(seconds=int(s))).isoformat() for s in generator.integers(-6 * 10**10, 2 * 10**11, 40)
    ]
    rows = [
        {"size": float(generator.normal()), "day": moment, "kind": "ab"[row % 2], "words": SENTENCES[row % 8]}
        for row, moment in enumerate(moments)
    ]
    for row, text in enumerate(TEXTS):
        rows[row % len(rows)]["words"] += " " + text.swapcase()
    if name in ALLOWS_GAPS:
        for row in rows[::6]:
            row |= {"day": None}
        for row in rows[::8]:
            row |= {"words": None}
    return rows


def feeds(session: onnxruntime.InferenceSession, rows: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """The rows as the inputs of a session: dates as seconds since 1970, missing texts as empty ones."""
    fed = {}
    for one in session.get_inputs():
        values = [row[one.name] for row in rows]
        if one.name == "day":
            values = [np.nan if value is None else read_date(value) for value in values]
        if one.type == "tensor(string)":
            fed[one.name] = np.array(["" if value is None else value for value in values], dtype=object)
        else:
            fed[one.name] = np.array(values, dtype=np.float64)
    return fed


@pytest.mark.parametrize("name", NAMES)
def test_onnxruntime(http: InProcess, name: str) -> None:
    content = exported(http, name, "onnx")
    onnx.checker.check_model(onnx.load_from_string(content))
    session = onnxruntime.InferenceSession(content)
    rows = raw_rows(name)
    told = dict(zip([one.name for one in session.get_outputs()], session.run(None, feeds(session, rows)), strict=True))
    scores, labels = predicted(http, name, rows)
    np.testing.assert_allclose(told["scores" if name.endswith("3") else "score"], scores, rtol=1e-9, atol=1e-9)
    assert told["label"].tolist() == labels
    none = {key: value[:0] for key, value in feeds(session, rows).items()}
    assert session.run(["score"], none)[0].shape == (0,)
    silent = [{**rows[1], "words": "! ?"}]
    np.testing.assert_allclose(
        session.run(["scores" if name.endswith("3") else "score"], feeds(session, silent))[0],
        predicted(http, name, silent)[0],
        rtol=1e-9,
        atol=1e-9,
    )


def test_every_word_character_and_capital_is_the_one_of_predict(http: InProcess) -> None:
    """Each code point between two letters, as it is: it joins them to a word or separates them."""
    codes = [code for code in range(1, 0x110000) if not 0xD800 <= code < 0xE000]
    joined = " ".join(f"q{chr(code)}q" for code in codes)
    expected = [word for word in _terms(joined, TextSettings()) if texts.SIGMAS.isdisjoint(word)]
    assert len(expected) > 100_000
    session = onnxruntime.InferenceSession(lowered_words())
    found = session.run(None, {"text": np.array([joined], dtype=object)})[0][0]
    assert [word for word in found.tolist() if texts.SIGMAS.isdisjoint(word)] == expected


def lowered_words() -> bytes:
    """A graph that returns the words of a text."""
    graph = Graph()
    words = graph.add(
        "Tokenizer",
        graph.input("text", TensorProto.STRING),
        domain=texts.CONTRIB,
        mark=0,
        mincharnum=1,
        pad_value="",
        tokenexp=texts._pattern(True),
    )
    lowered = texts._add_lower_case(graph, words, 8)
    output = helper.make_tensor_value_info(lowered, TensorProto.STRING, None)
    versions = {"": 20, "ai.onnx.ml": 3, texts.CONTRIB: 1}
    model = helper.make_model(
        helper.make_graph(graph.nodes, "words", list(graph.inputs.values()), [output], graph.constants),
        ir_version=9,
        opset_imports=[helper.make_opsetid(domain, version) for domain, version in versions.items()],
    )
    content: bytes = model.SerializeToString()
    return content


@pytest.mark.parametrize("column", ["day", "words"])
def test_a_missing_value_that_predict_refuses_has_no_score(http: InProcess, column: str) -> None:
    row = {**raw_rows("strict-1")[1], column: None}
    checked_problem(http.post("/v1/models/strict-1/predict", json={"instances": [row]}), 422)
    session = onnxruntime.InferenceSession(exported(http, "strict-1", "onnx"))
    assert np.isnan(session.run(["score"], feeds(session, [row]))[0]).all()


def test_greek_terms_are_refused_with_the_reason(http: InProcess, tmp_path: Path) -> None:
    rows = Frame(np.zeros((2, 1)), [Column("words", "text")], {0: Strings.of(["ὀδυσσεύς", "λόγος"])})
    send_model(http, "greek", model_document({}, rows, 1, tmp_path))
    problem = checked_problem(http.get("/v1/models/greek/export", params={"format": "onnx"}), 422)
    assert problem["code"] == "not_exportable"
    for part in ("sigma", "'words'", "lowercase: false"):
        assert part in problem["detail"]
    send_model(http, "cased_greek", model_document({"text": {"lowercase": False}}, rows, 1, tmp_path))
    session = onnxruntime.InferenceSession(exported(http, "cased_greek", "onnx"))
    given = [{"words": "ὀδυσσεύς ΛΌΓΟΣ λόγος"}]
    np.testing.assert_allclose(
        session.run(["score"], feeds(session, given))[0], predicted(http, "cased_greek", given)[0]
    )


def loaded(content: bytes, folder: Path) -> Any:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        archive.extractall(folder)
    assert not [path for path in folder.rglob("*") if path.suffix == ".pkl"]
    return mlflow.pyfunc.load_model(str(folder))


@pytest.mark.parametrize("name", NAMES)
def test_mlflow(http: InProcess, name: str, tmp_path: Path) -> None:
    rows = raw_rows(name)
    told = loaded(exported(http, name, "mlflow"), tmp_path).predict(pandas.DataFrame(rows))
    scores, labels = predicted(http, name, rows)
    best = scores if scores.ndim == 1 else scores.max(axis=1)
    np.testing.assert_allclose(told["score"], best, rtol=1e-9, atol=1e-9)
    assert list(told["label"]) == labels


FRAMES: dict[str, dict[str, Any]] = {
    "pandas_3": {"words": "str", "kind": "str"},
    "objects": {"words": object, "kind": object, "size": object},
    "categories": {"kind": "category", "words": "category"},
    "integers": {"size": "int64"},
    "small_integers": {"size": "int8"},
    "nullable": {"size": "Int64", "words": "string"},
    "datetimes": {"day": "datetime64[us]"},
    "nanoseconds": {"day": "datetime64[ns]"},
    "zoned": {"day": "datetime64[us, UTC]"},
}


@pytest.mark.parametrize("types", FRAMES.values(), ids=FRAMES)
def test_mlflow_takes_columns_of_any_type(http: InProcess, types: dict[str, Any], tmp_path: Path) -> None:
    days = ["2024-02-29T23:00:00", "1969-12-31T22:59:59", "2020-07-01T00:00:00", "1999-12-31T01:00:00"]
    rows = [
        {"size": size, "day": day, "kind": kind, "words": words}
        for size, day, kind, words in zip([2, -7, 0, 11], days, "abba", SENTENCES, strict=False)
    ]
    for column in [] if types.get("day") else ["words"]:
        rows[2] |= {column: None}
    frame = pandas.DataFrame(rows, index=[5, 3, 8, 1])
    for column, kind in types.items():
        moments = pandas.to_datetime(frame[column], utc="UTC" in kind) if column == "day" else frame[column]
        frame[column] = moments.astype(kind)
    told = loaded(exported(http, "ngrams-1", "mlflow"), tmp_path).predict(frame[::-1].T[::-1].T.astype(frame.dtypes))
    assert list(told.index) == [1, 8, 3, 5]
    scores, labels = predicted(http, "ngrams-1", rows[::-1])
    np.testing.assert_allclose(told["score"], scores, rtol=1e-9, atol=1e-9)
    assert list(told["label"]) == labels


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"day": "yesterday"}, "row 0, column 'day': must be a datetime"),
        ({"day": None}, "row 0, column 'day': the value is missing"),
        ({"words": None}, "row 0, column 'words': the value is missing"),
        ({"size": "much"}, "row 0, column 'size': must be a finite number"),
        ({"size": float("inf")}, "row 0, column 'size': must be finite"),
    ],
)
def test_mlflow_names_the_cell_that_it_cannot_read(
    http: InProcess, change: dict[str, Any], said: str, tmp_path: Path
) -> None:
    model = loaded(exported(http, "strict-1", "mlflow"), tmp_path)
    with pytest.raises(ValueError, match=said):
        model.predict(pandas.DataFrame([{**raw_rows("strict-1")[0], **change}]))
    with pytest.raises(Exception, match=r"missing inputs.*words"):
        model.predict(pandas.DataFrame([raw_rows("strict-1")[0]]).drop(columns="words"))


HASHED = {"categorical": "hash", "hash_dims": 8, "text": {"hash": 64, "ngrams": [1, 2]}}


def test_mlflow_takes_hashed_columns_and_onnx_names_the_first(http: InProcess, tmp_path: Path) -> None:
    send_model(http, "hashed", model_document(HASHED, frame(gaps=True), 3, tmp_path))
    rows = raw_rows("hashed-3")
    told = loaded(exported(http, "hashed", "mlflow"), tmp_path / "folder").predict(pandas.DataFrame(rows))
    response = http.post("/v1/models/hashed/predict", json={"instances": rows, "return": ["scores"]})
    best = np.array([row["scores"] for row in response.json()["predictions"]]).max(axis=1)
    np.testing.assert_allclose(told["score"], best, rtol=1e-9, atol=1e-9)
    problem = checked_problem(http.get("/v1/models/hashed/export", params={"format": "onnx"}), 422)
    assert "column 'kind' has hashed categories; use json, npz, safetensors or mlflow." in problem["detail"]


def test_numbers_as_texts_are_for_mlflow(http: InProcess, tmp_path: Path) -> None:
    spec = {"columns": {"size": {"kind": "text"}}, "text": {"min_df": 1}}
    table = Frame(np.array([[70.0], [12.0], [70.0]]), [Column("size")])
    send_model(http, "written", model_document(spec, table, 1, tmp_path))
    rows = [{"size": 70}, {"size": 12.0}, {"size": 3}]
    told = loaded(exported(http, "written", "mlflow"), tmp_path / "folder").predict(pandas.DataFrame(rows))
    np.testing.assert_allclose(told["score"], predicted(http, "written", rows)[0], rtol=1e-9, atol=1e-9)
    problem = checked_problem(http.get("/v1/models/written/export", params={"format": "onnx"}), 422)
    assert "column 'size' is numeric and used as text" in problem["detail"]
