"""`POST /v1/jobs?validate_only=true`: what a submission would say, all of it, and nothing is stored."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.db.tables import EventRow, JobRow
from tests.support.builders import (
    checked_problem,
    count_rows,
    migrated_database,
)
from tests.support.job_api import Api, Json


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
