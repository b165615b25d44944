"""Exports of models that take raw tables: words, truth values and gaps mean everywhere what they mean to predict."""

import io
import json
import sqlite3
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow.pyfunc
import numpy as np
import onnx
import onnxruntime
import pandas
import psycopg
import pytest

from app.main import create_app
from app.models import file
from app.models.exports.subject import Subject
from app.models.exports.writers import json_document, liblinear
from app.preprocess.fit import fit
from app.preprocess.pipeline_document import to_document
from app.preprocess.spec import Preprocess
from app.tabular.frame import Column, Frame, Strings
from tests.support.builders import InProcess, checked_problem, migrated_database, model_header, temporary_settings

generator = np.random.default_rng(11)
COLORS = ["blue", "it's", "grün", "rare"]
N = 60


def frame(*, text: bool = False, date: bool = False, gaps: bool = True) -> Frame:
    """Numbers with gaps, booleans, words (one rare, some missing), numbers as categories, and ignored columns."""
    age = np.where(generator.random(N) < 0.2, np.nan, generator.normal(40, 10, N))
    member = (generator.random(N) < 0.5).astype(float)
    color = generator.integers(0, 3, N).astype(float)
    color[:5], color[5] = np.nan if gaps else 0.0, 3
    code = generator.choice([1.0, 2.5, 7.0], N)
    noise = generator.normal(size=N)
    columns = [
        Column("age"),
        Column("member", "boolean"),
        Column("colour", "categorical", Strings.of(COLORS)),
        Column("code"),
        Column('say "hi"'),
        Column("noise"),
    ]
    values = [age, member, color, code, generator.normal(size=N), noise]
    texts = {}
    if text or date:
        columns.append(Column("words", "text") if text else Column("day", "date"))
        values.append(np.full(N, 5.0) if text else generator.integers(0, 10**9, N).astype(float))
        if text:
            texts = {len(columns) - 1: Strings.of(["hello world"] * N)}
    return Frame(np.column_stack(values), columns, texts)


NUMBERS = Frame(
    np.where(generator.random((N, 4)) < 0.1, np.nan, generator.normal(size=(N, 4))), [Column(c) for c in "abcd"]
)

SPECS: dict[str, tuple[dict[str, Any], Frame]] = {
    "mean": ({"min_count": 3, "columns": {"code": {"kind": "categorical"}, "noise": {"ignore": True}}}, frame()),
    "indicator": ({"missing": "indicator", "columns": {"member": {"kind": "categorical"}}}, frame()),
    "strict": ({"unknown": "error", "missing": "zero", "columns": {"colour": {"missing": "error"}}}, frame(gaps=False)),
    "numbers": ({"missing": "indicator", "columns": {"b": {"ignore": True}}}, NUMBERS),
}


def document(spec: dict[str, Any], rows: Frame, scores: int, folder: Path) -> bytes:
    """A model with random weights over the features of a fitted pipeline, as its export would be."""
    pipeline = fit(Preprocess.model_validate(spec), rows).pipeline
    described, arrays = to_document(pipeline)
    shape = (scores, pipeline.n_features) if scores > 1 else (pipeline.n_features,)
    header = model_header(
        pipeline.n_features,
        task="multiclass" if scores > 1 else "binary",
        classes=["low", "mid", "high"][: max(2, scores)],
        preprocess=described,
        card={},
    )
    weights = {"coef": generator.normal(size=shape), "intercept": generator.normal(size=scores)}
    path = folder / "model"
    path.write_bytes(file.encode(header, {**weights, **arrays}))
    return json_document.write(Subject("mdl_x", "m", 1, file.read(path)), None)


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    folder = tmp_path_factory.mktemp("data")
    settings = temporary_settings(folder)
    with migrated_database(settings.resolved_database_url):
        client = InProcess(create_app(settings))
        for name, (spec, rows) in SPECS.items():
            for scores in (1, 3):
                send(client, f"{name}-{scores}", document(spec, rows, scores, folder))
        for name in ("text", "date"):
            send(client, name, document({}, frame(**{name: True}), 1, folder))
        send(client, "hash", document({"categorical": "hash", "hash_dims": 8}, frame(), 1, folder))
        yield client


def send(client: InProcess, name: str, content: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    response = client.post("/v1/models/import", params={"name": name}, content=content, headers=headers)
    assert response.status_code == 201, response.text


def raw_rows(name: str) -> list[dict[str, Any]]:
    """Also levels that training did not have, where the model allows them."""
    n = 30
    if name.startswith("numbers"):
        return [{c: None if generator.random() < 0.2 else generator.normal() for c in "abcd"} for _ in range(n)]
    strict = name.startswith("strict")
    words = COLORS if strict else [*COLORS, "never seen", "", None]
    return [
        {
            "age": None if row % 4 == 0 else 30.0 + row,
            "member": float(row % 2),
            "colour": words[row % len(words)],
            "code": [1.0, 2.5, 7.0][row % 3] if row % 5 or strict else 3.0,
            'say "hi"': 0.1 * row,
            "noise": float(row),
        }
        for row in range(n)
    ]


def predicted(http: InProcess, name: str, rows: list[dict[str, Any]]) -> tuple[np.ndarray, list[Any]]:
    wanted = "scores" if name.endswith("3") else "score"
    body = {"instances": rows, "return": ["label", wanted]}
    response = http.post(f"/v1/models/{name}/predict", json=body)
    assert response.status_code == 200, response.text
    told = response.json()["predictions"]
    return np.array([row[wanted] for row in told]), [row["label"] for row in told]


def exported(http: InProcess, name: str, kind: str, **query: str) -> bytes:
    response = http.get(f"/v1/models/{name}/export", params={"format": kind, **query})
    assert response.status_code == 200, response.text
    assert 0.0 <= float(response.headers["x-max-score-difference"]) <= 1e-9
    return response.content


MODELS = [f"{name}-{scores}" for name in SPECS for scores in (1, 3)]


def feeds(session: onnxruntime.InferenceSession, rows: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    inputs = {one.name: one.type for one in session.get_inputs()}
    if list(inputs) == ["X"]:
        return {"X": np.array([[np.nan if row[c] is None else row[c] for c in row] for row in rows])}
    return {
        name: np.array([row[name] or "" for row in rows], dtype=object)
        if kind == "tensor(string)"
        else np.array([np.nan if row[name] is None else row[name] for row in rows], dtype=np.float64)
        for name, kind in inputs.items()
    }


@pytest.mark.parametrize("name", MODELS)
def test_onnxruntime(http: InProcess, name: str) -> None:
    content = exported(http, name, "onnx")
    onnx.checker.check_model(onnx.load_from_string(content), full_check=True)
    session = onnxruntime.InferenceSession(content)
    rows = raw_rows(name)
    told = dict(zip([one.name for one in session.get_outputs()], session.run(None, feeds(session, rows)), strict=True))
    scores, labels = predicted(http, name, rows)
    np.testing.assert_allclose(told["scores" if name.endswith("3") else "score"], scores, rtol=1e-9, atol=1e-9)
    assert told["label"].tolist() == labels


@pytest.mark.parametrize("name", MODELS)
def test_mlflow(http: InProcess, name: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(exported(http, name, "mlflow"))) as archive:
        archive.extractall(tmp_path)
    loaded = mlflow.pyfunc.load_model(str(tmp_path))
    rows = raw_rows(name)
    table = pandas.DataFrame(rows)
    told = loaded.predict(table)
    scores, labels = predicted(http, name, rows)
    best = scores if scores.ndim == 1 else scores.max(axis=1)
    np.testing.assert_allclose(told["score"], best, rtol=1e-9, atol=1e-9)
    assert list(told["label"]) == labels


TYPES = {"member": "boolean", "colour": "text"}


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
@pytest.mark.parametrize("name", MODELS)
def test_sql(http: InProcess, name: str, database: str, request: pytest.FixtureRequest) -> None:
    rows = raw_rows(name)
    score, label = (exported(http, name, "sql", output=output).decode() for output in ("score", "label"))
    columns = [f'"{column.replace(chr(34), chr(34) * 2)}"' for column in rows[0]]
    values = [list(row.values()) for row in rows]
    query = f"SELECT {score}, {label} FROM rows ORDER BY number"
    if database == "sqlite":
        connection = sqlite3.connect(":memory:")
        connection.execute(f"CREATE TABLE rows (number INTEGER PRIMARY KEY, {', '.join(columns)})")
        marks = ", ".join("?" * len(columns))
        connection.executemany(f"INSERT INTO rows ({', '.join(columns)}) VALUES ({marks})", values)
        found = connection.execute(query).fetchall()
        connection.close()
    else:
        url = request.getfixturevalue("postgres_server").replace("postgresql+psycopg", "postgresql")
        named = ", ".join(f"{one} {TYPES.get(one.strip(chr(34)), 'double precision')}" for one in columns)
        with psycopg.connect(url) as server:
            server.execute(f"CREATE TEMPORARY TABLE rows (number serial, {named})")
            marks = ", ".join(["%s"] * len(columns))
            given = [
                [bool(v) if column == '"member"' else v for column, v in zip(columns, row, strict=True)]
                for row in values
            ]
            server.cursor().executemany(f"INSERT INTO rows ({', '.join(columns)}) VALUES ({marks})", given)
            found = server.execute(query.encode()).fetchall()
    scores, labels = predicted(http, name, rows)
    best = scores if scores.ndim == 1 else scores.max(axis=1)
    np.testing.assert_allclose(np.array([row[0] for row in found], dtype=float), best, rtol=1e-9, atol=1e-9)
    assert [row[1] for row in found] == labels


def test_what_predict_refuses_has_no_score(http: InProcess) -> None:
    row = {**raw_rows("strict-1")[1], "colour": "never seen"}
    checked_problem(http.post("/v1/models/strict-1/predict", json={"instances": [row]}), 422)
    session = onnxruntime.InferenceSession(exported(http, "strict-1", "onnx"))
    for colour in ("never seen", None):
        told = session.run(["score"], feeds(session, [{**row, "colour": colour}]))
        assert np.isnan(told[0]).all()
        connection = sqlite3.connect(":memory:")
        columns = ", ".join('"' + name.replace('"', '""') + '"' for name in row)
        connection.execute(f"CREATE TABLE rows ({columns})")
        marks = ", ".join("?" * len(row))
        connection.execute(f"INSERT INTO rows VALUES ({marks})", list({**row, "colour": colour}.values()))
        for output in ("score", "label"):
            expression = exported(http, "strict-1", "sql", output=output).decode()
            assert connection.execute(f"SELECT {expression} FROM rows").fetchall() == [(None,)]
        connection.close()


def test_no_output_has_the_name_of_a_column(http: InProcess, tmp_path: Path) -> None:
    names = ["score", "predicted_score"]
    rows = Frame(frame().X[:, [0, 2]], [Column(names[0]), Column(names[1], "categorical", Strings.of(COLORS))])
    send(http, "taken", document({}, rows, 1, tmp_path))
    session = onnxruntime.InferenceSession(exported(http, "taken", "onnx"))
    assert [one.name for one in session.get_outputs()] == ["label", "predicted_predicted_score"]
    given = [{"score": 1.5, "predicted_score": COLORS[0]}]
    (found,) = session.run(["predicted_predicted_score"], feeds(session, given))
    np.testing.assert_allclose(found, predicted(http, "taken", given)[0], rtol=1e-9)


def test_liblinear_takes_columns_that_are_only_scaled(http: InProcess, tmp_path: Path) -> None:
    """Scales are in the weights; that predict would fill a gap is no matter to rows that have none."""
    send(http, "scaled", document({"scale": "standard", "missing": "mean"}, NUMBERS, 1, tmp_path))
    rows = [{c: generator.normal() for c in "abcd"} for _ in range(20)]
    parts = liblinear.read(exported(http, "scaled", "liblinear"))
    found = np.array([list(row.values()) for row in rows]) @ parts.arrays["coef"] + parts.arrays["intercept"]
    np.testing.assert_allclose(found, predicted(http, "scaled", rows)[0], rtol=1e-9, atol=1e-9)
    told = checked_problem(http.get("/v1/models/numbers-1/export", params={"format": "liblinear"}), 422)
    assert (told["code"], "not the raw columns" in told["detail"]) == ("not_exportable", True)


REFUSED = {
    "text": ("words", ["sql", "liblinear"], "json, npz, safetensors, mlflow or onnx"),
    "date": ("day", ["liblinear"], "json, npz, safetensors, mlflow, onnx or sql"),
    "hash": ("colour", ["onnx", "sql", "liblinear"], "json, npz, safetensors or mlflow"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_column_that_a_format_cannot_express_is_named(http: InProcess, name: str) -> None:
    column, kinds, others = REFUSED[name]
    for kind in kinds:
        problem = checked_problem(http.get(f"/v1/models/{name}/export", params={"format": kind}), 422)
        assert problem["code"] == "not_exportable"
        assert f"column {column!r}" in problem["detail"]
        assert f"use {others}." in problem["detail"]


@pytest.mark.parametrize("name", ["mean-1", "indicator-3", "text", "date", "hash"])
@pytest.mark.parametrize("kind", ["json", "safetensors"])
def test_preprocessing_comes_back_with_the_weights(http: InProcess, name: str, kind: str) -> None:
    response = http.get(f"/v1/models/{name}/export", params={"format": kind})
    again = http.post(
        "/v1/models/import",
        params={"name": "again"},
        content=response.content,
        headers={"Content-Type": response.headers["content-type"]},
    )
    assert again.status_code == 201, again.text
    rows = raw_rows(name)
    for row in rows:
        row |= {"words": "hello there world", "day": "2024-05-31"}
    told = [
        http.post(f"/v1/models/{ref}/predict", json={"instances": rows}).json()["predictions"]
        for ref in (name, again.json()["id"])
    ]
    assert told[0] == told[1]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"preprocess": {"version": 1}}, "preprocess"),
        ({"preprocess": {}}, "preprocess"),
        ({"arrays": {}}, "preprocess"),
        ({"coef": [1.0, 2.0]}, "preprocess"),
        ({"coef": [1.0] * 9, "feature_names": list("abcdefghi")}, "feature_names"),
    ],
)
def test_preprocessing_that_does_not_fit_is_refused(http: InProcess, change: dict[str, Any], field: str) -> None:
    sound = json.loads(exported(http, "strict-1", "json"))
    del sound["n_features"]
    response = http.post("/v1/models/import", params={"name": "bad"}, json={**sound, **change})
    assert checked_problem(response, 422)["errors"][0]["field"] == field
