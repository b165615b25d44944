"""Jobs on a model that cannot succeed are refused when they are posted, in the words of predict where it has some."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.db import Database
from app.db.tables import JobRow
from app.main import create_app
from app.models import service as models
from app.preprocess.fit import fit
from app.preprocess.pipeline_document import from_document, read_inputs, to_document
from app.preprocess.spec import Preprocess
from app.storage import BlobStore
from app.web.context import context_of
from tests.support.builders import (
    ANY_BLOBS,
    InProcess,
    checked_problem,
    count_rows,
    dataset_row,
    model_bytes,
    model_row,
    queued_jobs,
    temporary_settings,
)
from tests.support.frames import frame_of

Json = dict[str, Any]

FRAME = frame_of(
    {
        "age": ("numeric", [1.0, 2.0, 3.0]),
        "member": ("boolean", [1.0, 0.0, None]),
        "city": ("categorical", ["Oslo", "Rome", "Oslo"]),
        "joined": ("date", [0.0, 86400.0, 172800.0]),
        "notes": ("text", ["a b", "b c", "c d"]),
    }
)
COLUMNS = [{"name": column.name, "role": "feature", "kind": column.kind} for column in FRAME.columns]


class Api(InProcess):
    def __init__(self, database: Database, folder: Path) -> None:
        url = database.url.render_as_string(hide_password=False)
        super().__init__(create_app(temporary_settings(folder, database_url=url)))
        self._database = database
        self._blobs = BlobStore(folder)

    def add_model(self, name: str, coef: Any, task: str = "binary", **header: Any) -> None:
        (job_id,) = queued_jobs(self._database, [0])
        classes = header.get("classes", ["no", "yes"])
        blob = self._blobs.put(model_bytes(coef, task=task, **{**header, "classes": classes}))
        card = {"classes": classes, "lineage": {"dataset_id": "ds_none"}}
        with self._database.write() as session:
            models.register(session, ANY_BLOBS, model_row(job_id, name=name, blob=blob, task=task, card=card), 1)

    def add_dataset(self, **values: Any) -> str:
        row = dataset_row(**{"columns": [], "n_features": 3, **values})
        with self._database.write() as session:
            session.add(row)
        return row.id

    def refusal(self, **body: Any) -> Json:
        """What a job is refused for, the same when it is only validated; nothing is stored."""
        before = count_rows(self._database, JobRow)
        problem = checked_problem(self.post("/v1/jobs", json=body), 422)
        judged = self.post("/v1/jobs?validate_only=true", json=body).json()
        assert (judged["valid"], judged["errors"]) == (False, problem["errors"])
        assert count_rows(self._database, JobRow) == before
        return problem


@pytest.fixture
def api(database: Database, tmp_path: Path) -> Iterator[Api]:
    api = Api(database, tmp_path)
    yield api
    context_of(api.app).database.close()


def classes_of(*labels: Any) -> list[Json]:
    return [{"label": label, "count": 1} for label in labels]


@pytest.mark.parametrize(
    ("header", "refused"),
    [
        ({}, ["probability", "probabilities", "rank", "scores"]),
        ({"task": "regression", "classes": []}, ["probability", "rank", "scores", "label_certain"]),
        ({"task": "ordinal", "classes": [1, 2], "thresholds": [0.0]}, ["probability", "scores", "label_certain"]),
        ({"task": "ordinal", "classes": []}, ["label", "rank"]),
    ],
    ids=str,
)
def test_an_output_that_the_model_has_not_is_refused_as_predict_refuses_it(
    api: Api, header: Json, refused: list[str]
) -> None:
    api.add_model("m", [1.0, 2.0, 3.0], **header)
    dataset_id = api.add_dataset()
    for output in refused:
        wanted = {"return": ["score", output]}
        online = checked_problem(api.post("/v1/models/m/predict", json={"instances": [[1, 2, 3]], **wanted}), 422)
        batch = api.refusal(type="predict", model="m", dataset_id=dataset_id, **wanted)
        assert [batch[part] for part in ("code", "detail", "errors")] == [
            online[part] for part in ("code", "detail", "errors")
        ]
        assert batch["errors"][0]["field"] == "return"
    fine = {"type": "predict", "model": "m", "dataset_id": dataset_id, "return": ["score", "score_error_bound"]}
    assert api.post("/v1/jobs", json=fine).status_code == 201
    unknown = api.post("/v1/jobs", json={**fine, "return": ["contributions"]})
    assert checked_problem(unknown, 422)["errors"][0]["field"].startswith("return")


@pytest.mark.parametrize("type", ["predict", "evaluate", "verify", "leave_one_out"])
def test_a_dataset_without_the_columns_of_the_model_is_refused(api: Api, type: str) -> None:
    api.add_model("wide", [1.0, 2.0, 3.0])
    api.add_model("named", [1.0, 2.0], feature_names=["a", "b"])
    named = [{"name": name, "role": "feature", "kind": "numeric"} for name in "abc"]
    labels = classes_of("no", "yes")
    for model, fields, words in (
        ("wide", {"n_features": 2}, "the rows have 2 features; the model has 3"),
        ("wide", {"n_features": 4, "storage": "csr"}, "the rows have 4 features; the model has 3"),
        ("named", {"columns": named[:1] + named[2:]}, "the rows have no column 'b'"),
        ("named", {"columns": [named[0], {**named[1], "kind": "text"}]}, "column 'b' is text here"),
    ):
        dataset_id = api.add_dataset(classes=labels, **fields)
        problem = api.refusal(type=type, model=model, dataset_id=dataset_id)
        assert (problem["code"], problem["errors"][0]["field"]) == ("feature_mismatch", "dataset_id")
        assert words in problem["detail"]
    for model, fields in (
        ("wide", {"n_features": 2, "storage": "csr"}),
        ("named", {"columns": named[::-1]}),
        ("named", {"columns": [named[0], {**named[1], "kind": "boolean"}]}),
        ("named", {"n_features": 2}),
    ):
        dataset_id = api.add_dataset(classes=labels, **fields)
        answer = api.post("/v1/jobs", json={"type": type, "model": model, "dataset_id": dataset_id})
        assert answer.status_code == 201, answer.text


def test_a_model_with_preprocessing_refuses_kinds_that_it_cannot_take(api: Api) -> None:
    pipeline = fit(Preprocess(), FRAME).pipeline
    document, arrays = to_document(pipeline)
    assert read_inputs(document, arrays) == from_document(document, arrays).inputs == pipeline.inputs
    api.add_model("m", np.zeros(pipeline.n_features), preprocess=document, arrays=arrays)

    def columns(**kinds: str) -> list[Json]:
        return [{**column, "kind": kinds.get(column["name"], column["kind"])} for column in COLUMNS]

    def body(**fields: Any) -> Json:
        return {"type": "predict", "model": "m", "dataset_id": api.add_dataset(n_features=5, **fields)}

    for fields, words in (
        ({"columns": columns()[1:]}, "no column 'age'"),
        ({"columns": columns(age="text")}, "column 'age' is text here and numeric in the model"),
        ({"columns": columns(joined="categorical")}, "column 'joined' is categorical and cannot be used as date"),
        ({"columns": columns(city="date")}, "column 'city' is date and cannot be used as categorical"),
        ({"columns": columns(member="text")}, "column 'member' is text here and boolean in the model"),
    ):
        assert words in api.refusal(**body(**fields))["detail"]
    empty = [{**column, "missing": 3} for column in columns(age="text", joined="numeric")]
    for fine in (columns()[::-1], columns(city="numeric", member="numeric"), empty):
        assert api.post("/v1/jobs", json=body(columns=fine)).status_code == 201
    last = columns()[:1] + columns()[2:] + [{"name": "member", "role": "target"}]
    assert api.post("/v1/jobs", json=body(columns=last, label_names=["no", "yes"])).status_code == 201
    refused = api.refusal(**body(columns=last, label_names=["maybe", "yes"]))
    assert "column 'member' is categorical here and boolean in the model" in refused["detail"]


def test_what_is_gone_or_not_there_yet_is_refused(api: Api) -> None:
    api.add_model("m", [1.0, 2.0, 3.0])
    reading, broken = api.add_dataset(status="processing"), api.add_dataset(status="invalid")
    ready = api.add_dataset(classes=classes_of("no", "yes"))
    for type in ("predict", "evaluate"):
        body = {"type": type, "model": "m", "dataset_id": ready}
        assert api.refusal(**{**body, "dataset_id": broken})["code"] == "dataset_invalid"
        assert api.refusal(**{**body, "dataset_id": "ds_x"})["code"] == "unknown_dataset"
        waiting = api.post("/v1/jobs", json={**body, "dataset_id": reading})
        assert checked_problem(waiting, 409)["code"] == "dataset_not_ready"
        assert api.refusal(**{**body, "model": "m:2"})["code"] == "unknown_model"
    other = api.add_dataset(classes=classes_of("no", "perhaps"))
    assert api.refusal(type="evaluate", model="m", dataset_id=other)["code"] == "unknown_class"
    api.request("DELETE", "/v1/models/m")
    assert api.refusal(type="predict", model="m:1", dataset_id=ready)["code"] == "unknown_model"
