"""Imported models: bit-identical after a round trip, with claims marked as claims, and strict checks of hostile files.

References are ids, because the lookup of a name is cached for a moment, even across tests.
"""

import base64
import json
import struct
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from liblinear.liblinearutil import predict, save_model, train
from safetensors.numpy import save

from app.db import Database
from app.db.tables import BlobOwnerRow, ModelRow
from app.errors import Invalid, Unparsable
from app.main import create_app
from app.models import imports
from tests.support.builders import SOAK, InProcess, checked_problem, count_rows, migrated_database, temporary_settings
from tests.support.serving import checked

SMALL: dict[str, Any] = {"task": "binary", "classes": ["no", "yes"], "coef": [1.5, -0.0, 5e-324], "intercept": 0.1}
CERTIFICATE = {"primal": 3.0, "dual_bound": 2.5, "gap": 0.5, "relative_gap": 0.2, "method": "dual"}
JSON, TENSORS, LIBLINEAR = "application/json", "application/x-safetensors", "text/x-liblinear-model"


@pytest.fixture(scope="module")
def served(module_database: Database, tmp_path_factory: pytest.TempPathFactory) -> InProcess:
    url = module_database.engine.url.render_as_string(hide_password=False)
    return InProcess(create_app(temporary_settings(tmp_path_factory.mktemp("data"), database_url=url)))


@pytest.fixture
def http(served: InProcess, database: Database) -> InProcess:
    """On both databases, the tables empty."""
    return served


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    """On one database, for what must be refused; afterwards nothing was stored."""
    settings = temporary_settings(tmp_path_factory.mktemp("data"))
    with migrated_database(settings.resolved_database_url) as database:
        yield InProcess(create_app(settings))
        assert count_rows(database, ModelRow) == 0


def send(http: InProcess, body: Any, media_type: str = JSON, **query: str) -> Any:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return http.post(
        "/v1/models/import", params={"name": "m", **query}, content=content, headers={"Content-Type": media_type}
    )


def refused(http: InProcess, body: Any, media_type: str = JSON, status: int = 422) -> dict[str, Any]:
    return checked_problem(send(http, body, media_type), status)


def tensors(arrays: dict[str, Any], **said: Any) -> bytes:
    described = {"task": "binary", "classes": [0, 1], **said}
    return save({name: np.asarray(one) for name, one in arrays.items()}, {"hyperplane": json.dumps(described)})


def test_an_imported_model_is_a_version_like_any_other(http: InProcess, database: Database) -> None:
    response = send(http, {**SMALL, "feature_names": ["a", "b", "ü"]})
    made = checked(response)
    assert (made["name"], made["version"], made["solver"], made["converged"]) == ("m", 1, "imported", False)
    assert made["certificate"] is None
    assert (made["lineage"]["source"], made["lineage"]["format"]) == ("imported", "json")
    assert http.get(response.headers["location"]).json() == made
    assert http.get("/v1/models").json()["data"][0]["id"] == made["id"]
    weights = http.get(f"/v1/models/{made['id']}/weights").json()
    assert (weights["coef"], weights["intercept"]) == (SMALL["coef"], SMALL["intercept"])
    row = {"a": 2.0, "b": 1.0, "ü": 0.0}
    told = http.post(f"/v1/models/{made['id']}/predict", json={"instances": [row]}).json()["predictions"]
    assert told == [{"label": "yes", "score": 1.5 * 2.0 + 0.1}]
    assert send(http, SMALL).json()["version"] == 2
    assert count_rows(database, BlobOwnerRow) == 2


@pytest.mark.parametrize("kind", ["json", "safetensors"])
@pytest.mark.parametrize(
    "document",
    [
        SMALL,
        {
            "task": "multiclass",
            "classes": ["z", 1, 2.5],
            "coef": [[1e-300, 2], [0.1, 1 / 3], [-7, 1e17]],
            "intercept": [1, 2, 3],
        },
        {"task": "ordinal", "classes": [1, 2, 3.5], "coef": [0.1, 0.2], "thresholds": [-1.0, -1.0]},
        {"task": "ordinal", "classes": [], "coef": [0.1, 0.2]},
        {"task": "regression", "coef": [0.1], "feature_names": ["größe"]},
    ],
)
def test_what_was_exported_comes_back_bit_for_bit(http: InProcess, kind: str, document: dict[str, Any]) -> None:
    carded = {**document, "card": {"certificate": CERTIFICATE, "metrics": {"train": {"error": 0.1}}}}
    made = checked(send(http, carded))
    file = http.get(f"/v1/models/{made['id']}/export", params={"format": kind})
    again = checked(send(http, file.content, file.headers["content-type"]))
    refs = (made["id"], again["id"])
    first, second = (http.get(f"/v1/models/{ref}/weights").json() for ref in refs)
    assert first.pop("model") != second.pop("model")
    assert json.dumps(first) == json.dumps(second), "json tells -0.0 from 0.0"
    rows = np.random.default_rng(3).normal(size=(20, np.shape(document["coef"])[-1])).tolist()
    wanted = "scores" if document["task"] == "multiclass" else "score"
    body = {"instances": rows, "return": [wanted]}
    scores = [http.post(f"/v1/models/{ref}/predict", json=body).json()["predictions"] for ref in refs]
    assert scores[0] == scores[1]


def test_a_certificate_that_comes_along_is_only_claimed(http: InProcess) -> None:
    card = {"certificate": CERTIFICATE, "metrics": {"test": {"error": 0.1}}, "training": {"seconds": 3}, "other": 1}
    made = send(http, {**SMALL, "card": card}).json()
    assert made["certificate"] == {**CERTIFICATE, "per_class": None, "claimed": True}
    assert made["metrics"] == {}
    assert made["lineage"]["claims"] == {"metrics": {"test": {"error": 0.1}}, "training": {"seconds": 3}}
    exported = http.get(f"/v1/models/{made['id']}/export", params={"format": "json"}).json()
    assert exported["card"]["certificate"]["claimed"] is True


@pytest.mark.parametrize(
    "options", ["-s 1 -B 1", "-s 2 -B -1", "-s 3 -B 0.5", "-s 4 -B 1", "-s 0", "-s 11 -B 2", "-s 13"]
)
@pytest.mark.parametrize("labels", [[1, -1], [-1, 1], [3, 1, 2]])
def test_a_model_of_liblinear(http: InProcess, tmp_path: Path, options: str, labels: list[int]) -> None:
    """As LIBLINEAR itself wrote it, in whatever order it met the labels."""
    generator = np.random.default_rng(len(labels))
    y = np.array([*labels, *generator.choice(labels, 60)])
    X = generator.normal(size=(len(y), 4)) + 0.5 * y[:, None]
    trained = train(y, X, f"{options} -q")
    path = tmp_path / "liblinear.model"
    save_model(str(path), trained)
    made = checked(send(http, path.read_bytes(), LIBLINEAR))
    X = generator.normal(size=(40, 4))  # not the training rows: at the optimum two classes may tie on those
    told = http.post(f"/v1/models/{made['id']}/predict", json={"instances": X.tolist()}).json()["predictions"]
    expected, _, values = predict([], X, trained, "-q")
    found = np.array([row["score"] for row in told])
    values = np.array(values)
    if made["task"] == "multiclass":
        np.testing.assert_allclose(found, values.max(axis=1), rtol=1e-12, atol=1e-12)
    else:
        np.testing.assert_allclose(found, values[:, 0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose([row["label"] for row in told], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"task": "ranking"}, "task"),
        ({"task": None}, "task"),
        ({"coef": []}, "coef"),
        ({"coef": [[1.0]]}, "coef[0]"),
        ({"coef": [1.0, None]}, "coef[1]"),
        ({"coef": "1"}, "coef"),
        ({"coef": [True]}, "coef[0]"),
        ({"coef": [1e308, 1e308, 1e308]}, "coef"),
        ({"classes": ["yes"]}, "classes"),
        ({"classes": ["yes", "yes"]}, "classes"),
        ({"classes": [1, 1.0]}, "classes"),
        ({"classes": [True, False]}, "classes[0]"),
        ({"classes": ["a\x00", "b"]}, "classes[0]"),
        ({"classes": ["b", "a" * 5000]}, "classes[1]"),
        ({"classes": [1, 2**70]}, "classes[1]"),
        ({"classes": list(range(70_000))}, "classes"),
        ({"intercept": [1.0, 2.0]}, "intercept"),
        ({"thresholds": [1.0, 2.0]}, "thresholds"),
        ({"n_features": 4}, "n_features"),
        ({"n_features": 10**18}, "n_features"),
        ({"feature_names": ["a", "b"]}, "feature_names"),
        ({"feature_names": ["a", "a", "b"]}, "feature_names"),
        ({"feature_names": ["a", "b", "\x00"]}, "feature_names[2]"),
        ({"strategy": "x" * 100}, "strategy"),
        ({"surprise": 1}, "body"),
        ({"version": 2}, "version"),
        ({"card": {"certificate": {"primal": 1}}}, "card.certificate.dual_bound"),
        ({"card": {"certificate": []}}, "card.certificate"),
        ({"card": {"params": []}}, "card.params"),
        ({"card": {"metrics": "\x00"}}, "card"),
        ({"card": {"metrics": 10**400}}, "card"),
        ({"card": {"metrics": ["x" * 100] * 20_000}}, "card"),
        ({"arrays": {"../../etc/passwd": {"dtype": "<f8", "shape": [0], "base64": ""}}}, "arrays.../../etc/passwd"),
        ({"arrays": {"coef": {"dtype": "<f8", "shape": [3], "base64": "AAAA" * 8}}}, "arrays.coef"),
        ({"arrays": {"preprocess.a": {"dtype": "<f8", "shape": [0, 2**62], "base64": ""}}}, "arrays.preprocess.a"),
        ({"arrays": {"preprocess.a": {"dtype": "<f8", "shape": [0] * 99, "base64": ""}}}, "arrays.preprocess.a"),
        ({"arrays": {"preprocess.a": {"dtype": "|O", "shape": [0], "base64": ""}}}, "arrays[...].dtype"),
        ({"arrays": {"preprocess.a": {"dtype": "<f8", "shape": [2**40], "base64": ""}}}, "arrays.preprocess.a"),
        ({"arrays": {"preprocess.a": {"dtype": "<f8", "shape": [-1], "base64": ""}}}, "arrays.preprocess.a"),
        ({"arrays": {"preprocess.a": {"dtype": "<f8", "shape": [2**32, 2**32], "base64": ""}}}, "arrays.preprocess.a"),
        ({"calibration": {"method": "platt", "argument": "score"}}, "calibration"),
        ({"calibration": {"method": "magic"}}, "calibration"),
    ],
)
def test_a_document_that_is_no_model_is_refused_by_field(
    strict: InProcess, changes: dict[str, Any], field: str
) -> None:
    problem = refused(strict, {**SMALL, **changes})
    assert problem["errors"][0]["field"] == field
    assert len(json.dumps(problem)) < 2000, "the input comes back at length"


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"null", b"[]", b"NaN", b"\xff", b"[" * 100_000, b'{"a":' * 50_000),
        *(b'{"task": "regression", "coef": [NaN]}', b'{"task": "regression", "coef": [1e999]}'),
        *(b'{"task": "regression", "coef": [' + b"9" * 5000 + b"]}", b'{"task": "regression", "coef": [1], "card": 1}'),
        *(b'{"task": "regression", "coef": [1], "classes": ["\\ud800"]}', b"[]," * 300_000),
        b'{"task": "regression", "coef": [1], "card": {"a": ' + b"[" * 60_000 + b"]" * 60_000 + b"}}",
        b'{"task": "regression", "coef": [1], "card": {"metrics": ' + b"[" * 500 + b"]" * 500 + b"}}",
    ],
)
def test_a_hostile_document_is_refused(strict: InProcess, body: bytes) -> None:
    assert send(strict, body).status_code in (400, 422)


def forged(header: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header + data


@pytest.mark.parametrize(
    "body",
    [
        *(
            b"",
            b"\xff" * 8,
            struct.pack("<Q", 2**63),
            struct.pack("<Q", 100) + b"{}",
            forged(b"{}"),
            forged(b"[" * 9999),
        ),
        forged(b'{"coef":{"dtype":"F64","shape":[1000000000000],"data_offsets":[0,8000000000000]}}'),
        forged(b'{"coef":{"dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,0]}}'),
        forged(b'{"coef":{"dtype":"F64","shape":[0,4611686018427387904],"data_offsets":[0,0]}}'),
        forged(b'{"coef":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}}', bytes(8)),
        forged(
            b'{"__metadata__":{"hyperplane":"{"},"coef":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}}', bytes(8)
        ),
        tensors({"coef": np.array([np.nan])}),
        tensors({"coef": np.array([1.0]), "intercept": np.array([np.inf])}),
        tensors({"coef": np.array([1.0])}),
        tensors({"coef": np.array(1.0), "intercept": np.array([0.0])}),
        tensors({"coef": np.array([1, 2]), "intercept": np.array([0.0])}),
        tensors({"coef": np.array([True]), "intercept": np.array([0.0])}),
        tensors({"coef": np.zeros((0,)), "intercept": np.array([0.0])}),
        tensors({"coef": np.zeros((2, 0)), "intercept": np.zeros(2)}, task="multiclass"),
        tensors({"coef": np.array([1.0]), "intercept": np.array([0.0]), "../x": np.array([0.0])}),
        tensors({"coef": np.array([1.0]), "intercept": np.array([0.0])}, task="magic"),
        tensors({"coef": np.array([1.0]), "intercept": np.array([0.0])}, classes=[1]),
    ],
)
def test_hostile_tensors_are_refused(strict: InProcess, body: bytes) -> None:
    assert send(strict, body, TENSORS).status_code in (400, 422)


def test_narrow_floats_are_taken_as_they_are(http: InProcess) -> None:
    body = tensors({"coef": np.array([0.1, 2.0], dtype=np.float32), "intercept": np.array([0.5], dtype=np.float16)})
    made = checked(send(http, body, TENSORS))
    weights = http.get(f"/v1/models/{made['id']}/weights").json()
    assert (weights["coef"], weights["intercept"]) == ([float(np.float32(0.1)), 2.0], 0.5)


HEAD = "solver_type L2R_L2LOSS_SVC\nnr_class 2\nlabel 1 -1\nnr_feature 2\nbias -1\nw\n"


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("L2R_L2LOSS_SVC", "ONECLASS_SVM", "solver_type"),
        ("nr_class 2", "nr_class 0", "nr_class"),
        ("nr_class 2", "nr_class 3", "w"),
        ("nr_class 2", "nr_class " + "9" * 5000, "nr_class"),
        ("nr_feature 2", "nr_feature 000000000001" + "9" * 5000, "nr_feature"),
        ("nr_feature 2", "nr_feature 1000000000", "w"),
        ("nr_feature 2", "nr_feature -2", "nr_feature"),
        ("nr_feature 2", "nr_feature ²", None),
        ("bias -1", "bias nan", "bias"),
        ("bias -1", "bias 1", "w"),
        ("label 1 -1", "label 1 2 3", "label"),
        ("label 1 -1", "label 1 1", "classes"),
        ("label 1 -1", "label 1 x", "label"),
        ("label 1 -1\n", "", "label"),
        ("w\n", "w\n1_0 ", "w"),
        ("w\n", "w\nnan ", "w"),
        ("\nw\n", "\nw\n1e999 2 3", None),
        ("w\n", "w\n1e ", None),
        ("\nw\n", "\n", "solver_type"),
    ],
)
def test_a_wrong_model_of_liblinear_is_refused(strict: InProcess, old: str, new: str, field: str | None) -> None:
    body = (HEAD + "0.5 \n0.25 \n").replace(old, new)
    response = send(strict, body.encode(), LIBLINEAR)
    assert response.status_code in (400, 422), response.text
    if field:
        assert response.json()["errors"][0]["field"] == field


@settings(max_examples=60 * SOAK, deadline=None, derandomize=SOAK == 1)
@given(
    kind=st.sampled_from(sorted(imports.READERS)),
    place=st.floats(0, 1),
    removed=st.integers(0, 9),
    added=st.binary(max_size=9),
)
def test_any_damage_is_refused_or_a_sound_model(kind: str, place: float, removed: int, added: bytes) -> None:
    sound = {
        "json": json.dumps({**SMALL, "feature_names": ["a", "b", "c"], "card": {"certificate": CERTIFICATE}}).encode(),
        "safetensors": tensors({"coef": np.array([1.0, 2.0]), "intercept": np.array([0.5])}),
        "liblinear": (HEAD + "0.5 \n0.25 \n").encode(),
    }[kind]
    start = round(place * len(sound))
    with suppress(Unparsable, Invalid):
        parts = imports.READERS[kind](sound[:start] + added + sound[start + removed :])
        assert all(np.isfinite(array).all() for array in parts.arrays.values())


def test_memory_is_bounded_by_the_body(strict: InProcess) -> None:
    """Nested nothings would take fifty times their bytes as Python lists."""
    body = b'{"task": "multiclass", "coef": [' + b"[]," * 3_000_000 + b"[]]}"
    tracemalloc.start()
    refused(strict, body)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 6 * len(body)


def test_the_format_is_by_type_or_by_word(http: InProcess) -> None:
    for media_type in ("text/plain", "application/octet-stream", ""):
        checked_problem(send(http, SMALL, media_type), 415)
        assert send(http, SMALL, media_type, format="json").status_code == 201
    checked_problem(send(http, SMALL, format="pickle"), 422)


@pytest.mark.parametrize("name", ["../m", "a/b", "", "mdl_01m7h944fsex4m8e47tq1ns5tn", "a\x00", "x" * 200, "ü"])
def test_a_name_that_is_none_is_refused(strict: InProcess, name: str) -> None:
    problem = checked_problem(send(strict, SMALL, name=name), 422)
    assert problem["errors"][0]["field"] == "name"


def test_an_array_of_preprocessing_is_kept_exactly(http: InProcess) -> None:
    """Bytes in, bytes out: no list of numbers in between."""
    curve = {"slope": np.array([0.1]), "shift": np.array([-0.0])}
    packed = {
        f"calibration.{part}": {"dtype": "<f8", "shape": [1], "base64": base64.b64encode(one.tobytes()).decode()}
        for part, one in curve.items()
    }
    body = {**SMALL, "calibration": {"method": "platt", "argument": "score"}, "arrays": packed}
    made = checked(send(http, body))
    assert http.get(f"/v1/models/{made['id']}/export", params={"format": "json"}).json()["arrays"] == packed
