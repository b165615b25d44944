"""`POST /v1/jobs?validate_only=true`: what a submission would say, all of it, and nothing is stored."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.db.tables import EventRow, JobRow
from app.main import create_app
from app.storage import ownership
from app.web.context import context_of
from tests.support.builders import (
    ANY_BLOBS,
    InProcess,
    checked_problem,
    count_rows,
    dataset_row,
    migrated_database,
    temporary_settings,
)

Json = dict[str, Any]


class Api:
    def __init__(self, folder: Path, database_url: str) -> None:
        settings = temporary_settings(folder, database_url=database_url, memory_budget_bytes=1 << 30)
        self.app = create_app(settings)
        self.http = InProcess(self.app)
        context = context_of(self.app)
        random = np.random.default_rng(0)
        self.database = context.database
        X, y = random.standard_normal((400, 3)).astype(np.float32), np.repeat([-1.0, 1.0], 200)
        arrays = {"X": context.blobs.put_array(X), "y": context.blobs.put_array(y)}
        classes = [{"label": -1, "count": 200}, {"label": 1, "count": 200}]
        row = dataset_row(n_rows=400, n_features=3, nnz=1200, arrays=arrays, classes=classes, columns=[])
        reading = dataset_row(status="processing")
        with self.database.write() as session:
            session.add_all([row, reading])
            ownership.own(
                session, ANY_BLOBS, row.id, {sha256: context.blobs.size(sha256) for sha256 in arrays.values()}
            )
        self.dataset, self.reading = row.id, reading.id

    def ask(self, **fields: Any) -> Json:
        body = {"dataset_id": self.dataset, **fields}
        answer = self.http.post("/v1/jobs", params={"validate_only": "true"}, json=body)
        assert answer.status_code == 200, answer.text
        judged: Json = answer.json()
        assert set(judged) == {"valid", "estimate", "errors"}
        return judged

    def refusal(self, **fields: Any) -> Json:
        answer = self.http.post("/v1/jobs", json={"dataset_id": self.dataset, **fields})
        return checked_problem(answer, answer.status_code)


@pytest.fixture
def api(database_url: str, tmp_path: Path) -> Iterator[Api]:
    with migrated_database(database_url):
        api = Api(tmp_path, database_url)
        yield api
        api.database.close()


def test_a_good_job_gets_an_estimate_and_leaves_nothing(api: Api) -> None:
    judged = api.ask(C=2.0, split={"test": 0.25})
    assert judged["valid"]
    assert judged["errors"] == []
    assert judged["estimate"]["seconds"] > 0
    assert judged["estimate"]["peak_bytes"] > 1 << 20
    assert api.ask(cross_validation=5)["estimate"]["seconds"] > api.ask()["estimate"]["seconds"]
    assert (count_rows(api.database, JobRow), count_rows(api.database, EventRow)) == (0, 0)
    queued = api.http.post("/v1/jobs", json={"dataset_id": api.dataset, "C": 2.0, "split": {"test": 0.25}}).json()
    with api.database.read() as session:
        stored = session.get(JobRow, queued["id"])
    assert stored is not None
    assert stored.peak_bytes == judged["estimate"]["peak_bytes"]


REFUSED = [
    {"solver": "nothing"},
    {"loss": "pair_hinge"},
    {"class_weight": {"7": 1.0}},
    {"split": {"test_dataset_id": "ds_01m7h944fsex4m8e47tq1ns5tn"}},
    {"split": {"test": 0.2, "group": True}},
    {"dataset_id": "ds_01m7h944fsex4m8e47tq1ns5tn"},
]


@pytest.mark.parametrize("fields", REFUSED, ids=lambda fields: ",".join(fields))
def test_a_bad_job_is_told_what_a_submission_would_be_refused_for(api: Api, fields: Json) -> None:
    judged, refused = api.ask(**fields), api.refusal(**fields)
    assert not judged["valid"]
    assert judged["errors"] == refused["errors"]
    assert judged["estimate"] is None


def test_everything_that_is_wrong_is_told_at_once(api: Api) -> None:
    judged = api.ask(solver="nothing", class_weight={"7": 1.0}, split={"test": 0.2, "group": True})
    assert [item["field"] for item in judged["errors"]] == ["solver", "class_weight", "split.group"]


def test_a_conflict_is_an_item_too(api: Api) -> None:
    (item,) = api.ask(dataset_id=api.reading)["errors"]
    assert item["code"] == api.refusal(dataset_id=api.reading)["code"] == "dataset_not_ready"


def test_a_body_that_is_no_job_is_refused_as_ever(api: Api) -> None:
    for content, status in ((b"{", 400), (b'{"dataset_id": 5}', 422), (b'{"C": "x", "dataset_id": "d"}', 422)):
        answer = api.http.post(
            "/v1/jobs?validate_only=true", content=content, headers={"Content-Type": "application/json"}
        )
        checked_problem(answer, status)
    checked_problem(api.http.post("/v1/jobs?validate_only=perhaps", json={"dataset_id": api.dataset}), 422)


def test_a_model_that_is_not_there_cannot_be_verified(api: Api) -> None:
    judged = api.ask(type="verify", model="missing")
    assert [item["field"] for item in judged["errors"]] == ["model"]
