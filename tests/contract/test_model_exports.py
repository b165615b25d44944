"""Exports, read by those they are for: onnxruntime, LIBLINEAR, MLflow, SQLite, PostgreSQL, safetensors, NumPy."""

import base64
import io
import json
import shutil
import sqlite3
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import mlflow.pyfunc
import numpy as np
import onnx
import onnxruntime
import pandas
import psycopg
import pytest
import safetensors
from liblinear.liblinear import liblinear
from liblinear.liblinear import model as liblinear_model
from liblinear.liblinearutil import load_model, predict
from safetensors.numpy import load as load_tensors

from app.main import create_app
from app.models.calibration import Calibration
from app.models.exports import Subject, export_formats
from tests.support.builders import InProcess, checked_problem, migrated_database, temporary_settings

WIDTH = 5
# Names that SQL, ONNX and our own expressions could stumble over.
AWKWARD = ['a "quoted" one', "score", "label", "x; DROP TABLE rows --", "größe"]
generator = np.random.default_rng(7)
ROWS = np.vstack([np.zeros(WIDTH), np.eye(WIDTH), generator.normal(size=(40, WIDTH)) * 10.0 ** np.arange(-2, 3)])


def model(task: str, classes: list[Any], scores: int = 0, **fields: Any) -> dict[str, Any]:
    """A document to import: `scores` rows of weights, or one vector."""
    shape = (scores, WIDTH) if scores else (WIDTH,)
    intercept = generator.normal(size=scores).tolist() if scores else float(generator.normal())
    return {
        "task": task,
        "classes": classes,
        "coef": generator.normal(size=shape).tolist(),
        "intercept": intercept,
        **fields,
    }


MODELS = {
    "binary": model("binary", ["it's 'no'", "ja, größer"], feature_names=AWKWARD),
    "binary_numbers": model("binary", [-1, 1]),
    "binary_tuned": model("binary", ["fine", "fraud"], thresholds=[-12.5]),
    "multiclass": model("multiclass", ["a", "b", "c'"], 3, strategy="ovr", feature_names=AWKWARD),
    "crammer_singer": model("multiclass", [3, 1, 2, -7], 4, strategy="crammer_singer"),
    "real_labels": model("multiclass", [0.5, 1, 2.25], 3, strategy="ovr"),
    "ordinal": model("ordinal", [1, 2, 2.5, 7], thresholds=[-1.0, 0.25, 3.0]),
    "order": model("ordinal", []),
    "regression": model("regression", []),
}
SEVERAL = [name for name, document in MODELS.items() if document["task"] == "multiclass"]
WITH_LIBLINEAR = [name for name in MODELS if name != "ordinal"]


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    settings = temporary_settings(tmp_path_factory.mktemp("data"))
    with migrated_database(settings.resolved_database_url):
        client = InProcess(create_app(settings))
        for name, document in MODELS.items():
            response = client.post("/v1/models/import", params={"name": name}, json=document)
            assert response.status_code == 201, response.text
        yield client


def answers(http: InProcess, name: str) -> tuple[np.ndarray, list[Any]]:
    """What predict says of ROWS: its scores (of several classes all), and its labels."""
    several = MODELS[name]["task"] == "multiclass"
    wanted = ["scores" if several else "score"] + ([] if name == "order" else ["label"])
    body = {"instances": ROWS.tolist(), "return": wanted}
    rows = http.post(f"/v1/models/{name}/predict", json=body).json()["predictions"]
    return np.array([row[wanted[0]] for row in rows]), [row.get("label") for row in rows]


def exported(http: InProcess, name: str, kind: str, **query: str) -> httpx.Response:
    response = http.get(f"/v1/models/{name}/export", params={"format": kind, **query})
    assert response.status_code == 200, response.text
    assert 0.0 <= float(response.headers["x-max-score-difference"]) <= 1e-9
    return response


def assert_close(found: Any, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_onnxruntime(http: InProcess, name: str) -> None:
    content = exported(http, name, "onnx").content
    onnx.checker.check_model(onnx.load_from_string(content), full_check=True)
    session = onnxruntime.InferenceSession(content)
    told = dict(zip([output.name for output in session.get_outputs()], session.run(None, {"X": ROWS}), strict=True))
    scores, labels = answers(http, name)
    assert_close(told["scores" if scores.ndim == 2 else "score"], scores)
    if scores.ndim == 2:
        assert_close(told["score"], scores.max(axis=1))
    if name == "order":
        assert "label" not in told
    elif name == "regression":
        assert_close(told["label"], scores)
    else:
        assert told["label"].tolist() == labels


@pytest.mark.parametrize("name", WITH_LIBLINEAR)
def test_liblinear(http: InProcess, name: str, tmp_path: Path) -> None:
    response = exported(http, name, "liblinear")
    path = tmp_path / "model"
    path.write_bytes(response.content)
    loaded = load_model(str(path))
    labels, _, values = predict([], ROWS, loaded, "-q")
    scores, told = answers(http, name)
    if name == "binary_tuned":  # the format has no place for a threshold
        assert response.headers["x-threshold"] == "-12.5; subtracted from the intercept"
        scores = scores + 12.5
    assert_close(np.array(values).reshape(scores.shape) if scores.ndim == 1 else values, scores)
    classes = MODELS[name]["classes"]
    if not classes:
        assert "x-labels" not in response.headers
        return
    by_position = any(isinstance(label, str) or label != int(label) for label in classes)
    assert ("positions" in response.headers["x-labels"]) is by_position
    assert [classes[int(label)] if by_position else label for label in labels] == told


@pytest.mark.skipif(shutil.which("liblinear-predict") is None, reason="LIBLINEAR's own command is not installed")
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("name", WITH_LIBLINEAR)
def test_the_command_of_liblinear(http: InProcess, name: str, intercept: bool, tmp_path: Path) -> None:
    document = MODELS[name]
    if not intercept:
        document = {**document, "intercept": 0.0 if name not in SEVERAL else [0.0] * len(document["coef"])}
    imported = http.post("/v1/models/import", params={"name": f"command_{name}"}, json=document).json()["id"]
    response = exported(http, imported, "liblinear")
    (tmp_path / "model").write_bytes(response.content)
    lines = (" ".join(f"{j}:{value!r}" for j, value in enumerate(row, 1) if value) for row in ROWS.tolist())
    (tmp_path / "rows").write_text("".join(f"0 {line}\n" for line in lines))
    subprocess.run(["liblinear-predict", "-q", "rows", "model", "answers"], cwd=tmp_path, check=True, timeout=60)
    found = [float(word) for word in (tmp_path / "answers").read_text().split()]
    rows = http.post(f"/v1/models/{imported}/predict", json={"instances": ROWS.tolist()}).json()["predictions"]
    classes = document["classes"]
    if not classes:
        assert_close(found, np.array([row["score"] for row in rows]))
    elif "positions" in response.headers["x-labels"]:
        assert [classes[int(place)] for place in found] == [row["label"] for row in rows]
    else:
        assert found == [row["label"] for row in rows]


def test_liblinear_saves_what_it_read(http: InProcess, tmp_path: Path) -> None:
    """The library writes the same numbers again, so it understood all of them."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(exported(http, "crammer_singer", "liblinear").content)
    loaded = load_model(str(first))
    assert isinstance(loaded, liblinear_model)
    assert liblinear.save_model(str(second).encode(), loaded) == 0
    as_numbers = [[float(w) for w in path.read_text().partition("\nw\n")[2].split()] for path in (first, second)]
    assert as_numbers[0] == as_numbers[1]
    assert first.read_text().split("\n")[:3] == second.read_text().split("\n")[:3]


@pytest.mark.parametrize("name", MODELS)
def test_mlflow(http: InProcess, name: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(exported(http, name, "mlflow").content)) as archive:
        archive.extractall(tmp_path)
    loaded = mlflow.pyfunc.load_model(str(tmp_path))
    assert float(loaded.metadata.metadata["max_score_difference"]) <= 1e-9
    scores, labels = answers(http, name)
    names = MODELS[name].get("feature_names")
    if names:  # by name, in whatever order
        shuffled = pandas.DataFrame(ROWS, columns=names)[names[::-1]]
        frame = loaded.predict(shuffled)
        with pytest.raises(Exception, match="missing inputs"):
            loaded.predict(shuffled.drop(columns="score"))
    else:
        frame = loaded.predict(ROWS)
    assert_close(frame["score"], scores if scores.ndim == 1 else scores.max(axis=1))
    if MODELS[name]["classes"]:
        assert list(frame["label"]) == labels
    assert not [path for path in tmp_path.rglob("*") if path.suffix == ".pkl"]


def run_sqlite(columns: list[str], rows: list[list[float | None]], expressions: list[str]) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute(f"CREATE TABLE rows ({', '.join(columns)})")
        connection.executemany(f"INSERT INTO rows VALUES ({', '.join('?' * len(columns))})", rows)
        return connection.execute(f"SELECT {', '.join(expressions)} FROM rows ORDER BY rowid").fetchall()
    finally:
        connection.close()


@pytest.fixture(scope="module")
def run_postgres(postgres_server: str) -> Callable[..., list[tuple[Any, ...]]]:
    def run(columns: list[str], rows: list[list[float | None]], expressions: list[str]) -> list[tuple[Any, ...]]:
        with psycopg.connect(postgres_server.replace("postgresql+psycopg", "postgresql")) as connection:
            named = ", ".join(f"{column} double precision" for column in columns)
            connection.execute(f"CREATE TEMPORARY TABLE rows (number serial, {named})")
            marks = ", ".join(["%s"] * len(columns))
            connection.cursor().executemany(f"INSERT INTO rows ({', '.join(columns)}) VALUES ({marks})", rows)
            # Bytes: psycopg's type for a query would otherwise insist on a literal.
            query = f"SELECT {', '.join(expressions)} FROM rows ORDER BY number".encode()
            return connection.execute(query).fetchall()

    return run


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
@pytest.mark.parametrize("name", MODELS)
def test_sql(http: InProcess, name: str, database: str, request: pytest.FixtureRequest) -> None:
    run = run_sqlite if database == "sqlite" else request.getfixturevalue("run_postgres")
    score, label = (exported(http, name, "sql", output=output).text for output in ("score", "label"))
    names = MODELS[name].get("feature_names") or [f"x{number}" for number in range(WIDTH)]
    columns = ['"' + one.replace('"', '""') + '"' for one in names]
    missing: list[float | None] = [None, *ROWS[1, 1:].tolist()]
    found = run(columns, [*ROWS.tolist(), missing], [f"{score} AS s", label])
    assert found.pop() == (None, None), "a row with a missing value has neither score nor label"
    scores, labels = answers(http, name)
    best = scores if scores.ndim == 1 else scores.max(axis=1)
    assert_close([row[0] for row in found], best)
    if name == "order" or name == "regression":
        assert_close([row[1] for row in found], best)
    else:
        assert [row[1] if isinstance(row[1], str) else float(row[1]) for row in found] == labels


@pytest.mark.parametrize("name", MODELS)
def test_numpy_and_safetensors(http: InProcess, name: str) -> None:
    scores, _ = answers(http, name)
    with np.load(io.BytesIO(exported(http, name, "npz").content), allow_pickle=False) as stored:
        arrays = dict(stored)
    content = exported(http, name, "safetensors").content
    tensors = load_tensors(content)
    said = json.loads(bytes(arrays["header"]))
    for found in (arrays, tensors):
        assert found["coef"].tobytes() == np.array(MODELS[name]["coef"]).tobytes()
        assert_close(ROWS @ found["coef"].T + found["intercept"], scores)
    assert said["classes"] == MODELS[name]["classes"]
    assert said["max_score_difference"] <= 1e-9
    assert json.loads(metadata(content)["hyperplane"]) == said
    thresholds = MODELS[name].get("thresholds")
    assert (thresholds is None) is ("thresholds" not in tensors)
    if thresholds:
        assert tensors["thresholds"].tolist() == thresholds


def test_a_tuned_threshold_leaves_with_the_model(http: InProcess) -> None:
    """Labels by the threshold differ from those by the sign, and every format says what it is."""
    scores, labels = answers(http, "binary_tuned")
    assert labels == ["fraud" if score > -12.5 else "fine" for score in scores]
    assert labels != ["fraud" if score > 0 else "fine" for score in scores]
    for kind in export_formats():
        if kind not in ("liblinear", "verifier"):
            assert exported(http, "binary_tuned", kind).headers["x-threshold"] == "-12.5", kind
    assert "x-threshold" not in exported(http, "binary", "onnx").headers
    assert "a score above -12.5 predicts" in exported(http, "binary_tuned", "sql").text
    again = http.post("/v1/models/import?name=again", json=exported(http, "binary_tuned", "json").json())
    assert again.json()["threshold"]["value"] == -12.5
    refused = http.post("/v1/models/import?name=x", json={**MODELS["regression"], "thresholds": [1.0]})
    assert checked_problem(refused, 422)["errors"][0]["field"] == "thresholds"
    refused = http.post("/v1/models/import?name=x", json={**MODELS["binary"], "thresholds": [1.0, 2.0]})
    assert checked_problem(refused, 422)["errors"][0]["code"] == "wrong_shape"


def metadata(content: bytes) -> dict[str, str]:
    length = int.from_bytes(content[:8], "little")
    found: dict[str, str] = json.loads(content[8 : 8 + length])["__metadata__"]
    assert len(safetensors.deserialize(content)) >= 2  # type: ignore[no-untyped-call]
    return found


def test_what_is_stated_is_the_difference_of_the_written_file(http: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with another weight than the model's says so."""
    sound = export_formats()["liblinear"]

    def write(subject: Subject, difference: float | None) -> bytes:
        return sound.write(subject, difference).replace(b"\nw\n", b"\nw\n1")

    monkeypatch.setitem(export_formats(), "liblinear", replace(sound, write=write))
    response = http.get("/v1/models/regression/export", params={"format": "liblinear"})
    assert float(response.headers["x-max-score-difference"]) > 1e-3


CALIBRATED = {
    "sigmoid": (
        model("binary", [0, 1]),
        {"method": "platt", "argument": "score"},
        {"slope": [1.5], "shift": [-0.25]},
    ),
    "joint": (
        model("multiclass", ["a", "b", "c"], 3, strategy="crammer_singer"),
        {"method": "platt", "argument": "margin"},
        {"slope": [1.5, 0.0, 2.0], "shift": [-0.25, 0.5, 0.0]},
    ),
    "steps": (
        model("multiclass", ["a", "b", "c"], 3, strategy="ovr"),
        {"method": "isotonic", "argument": "score"},
        {"scores": [0.0, -1.0, 0.0, 1.0, -2.0, 2.0], "values": [0.5, 0.1, 0.2, 0.9, 0.1, 0.8], "starts": [0, 1, 4, 6]},
    ),
}


@pytest.mark.parametrize("name", CALIBRATED)
def test_probabilities(http: InProcess, name: str, tmp_path: Path) -> None:
    document, kind, curves = CALIBRATED[name]
    arrays = {f"calibration.{part}": np.array(values) for part, values in curves.items()}
    packed = {part: packed_array(array) for part, array in arrays.items()}
    body = {**document, "calibration": kind, "arrays": packed}
    assert http.post("/v1/models/import", params={"name": name}, json=body).status_code == 201
    session = onnxruntime.InferenceSession(exported(http, name, "onnx").content)
    told = dict(zip([output.name for output in session.get_outputs()], session.run(None, {"X": ROWS}), strict=True))
    calibration = Calibration(kind["method"], kind["argument"], {part: np.array(v) for part, v in curves.items()})
    scores = told.get("scores", told["score"])
    expected = calibration.probabilities(scores)
    assert_close(told["probabilities"], expected)
    body = {"instances": ROWS.tolist(), "return": ["probability", "probabilities"]}
    predicted = http.post(f"/v1/models/{name}/predict", json=body).json()["predictions"]
    for output in body["return"]:
        assert_close(told[output], np.array([row[output] for row in predicted]))
    with zipfile.ZipFile(io.BytesIO(exported(http, name, "mlflow").content)) as archive:
        archive.extractall(tmp_path)
    by_mlflow = mlflow.pyfunc.load_model(str(tmp_path)).predict(ROWS)
    assert_close(by_mlflow["probability"], np.array([row["probability"] for row in predicted]))


def packed_array(array: np.ndarray) -> dict[str, Any]:
    kind = {"f": "<f8", "i": "<i8"}[array.dtype.kind]
    return {"dtype": kind, "shape": list(array.shape), "base64": base64.b64encode(array.tobytes()).decode()}


@pytest.mark.parametrize("kind", [kind for kind in export_formats() if kind != "verifier"])  # of models trained here
def test_the_same_model_is_the_same_file(http: InProcess, kind: str) -> None:
    first, second = (exported(http, "binary", kind) for _ in range(2))
    assert first.content == second.content
    assert first.headers["content-disposition"].startswith('attachment; filename="binary-1.')


@pytest.mark.parametrize(
    ("name", "query", "code"),
    [
        ("ordinal", {"format": "liblinear"}, "not_exportable"),
        ("binary", {"format": "verifier"}, "not_exportable"),
        ("binary", {"format": "onnx", "output": "label"}, "unexpected"),
        ("binary", {"format": "pickle"}, "literal_error"),
        ("binary", {}, "missing"),
    ],
)
def test_what_cannot_be_exported_is_refused(http: InProcess, name: str, query: dict[str, str], code: str) -> None:
    problem = checked_problem(http.get(f"/v1/models/{name}/export", params=query), 422)
    assert code in (problem["code"], problem["errors"][0]["code"] if problem["errors"] else "")


def test_an_unknown_model_is_not_found(http: InProcess) -> None:
    checked_problem(http.get("/v1/models/missing/export", params={"format": "json"}), 404)


def test_sql_of_more_columns_than_a_table_has_is_refused(http: InProcess) -> None:
    wide = {"task": "regression", "coef": [1.0] * 1601}
    assert http.post("/v1/models/import", params={"name": "wide"}, json=wide).status_code == 201
    problem = checked_problem(http.get("/v1/models/wide/export", params={"format": "sql"}), 422)
    assert "1601 columns" in problem["detail"]
    wide["coef"] = [0.0] * 5000 + [1.0] * 1600
    assert http.post("/v1/models/import", params={"name": "wide"}, json=wide).status_code == 201
    assert "x6599" in exported(http, "wide", "sql").text
