"""A job type is two new files: one from outside is registered, posted, listed and run, and no other file knows it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app.jobs import job_types
from app.worker.executor import WORK_OF_TYPE

pytestmark = pytest.mark.slow

REQUEST = '''
"""The job type `count`: how many rows of a dataset have a label of at least `least`."""

from typing import Literal

from app.errors import AppError, invalid_field
from pydantic import Field

from app.jobs.result_schemas import JobResult
from app.jobs.schemas import JobOptions
from app.jobs.submission import JobType, enqueue, verdict
from app.jobs.validation.named_dataset import ready_dataset


class CountRequest(JobOptions):
    """Count labels."""

    type: Literal["count"]
    dataset_id: str
    least: float = 0.0


class CountResult(JobResult):
    """Labels that were counted."""

    counted: int = Field(description="Number of rows.")


def _dataset(session, request):
    dataset = ready_dataset(session, "dataset_id", request.dataset_id)
    if dataset.label_names is not None:
        raise invalid_field("dataset_id", "labels_are_text", "only numbers can be compared")
    return dataset


def submit(session, request, admission):
    return enqueue(session, request, _dataset(session, request), peak_bytes=0, model_name=None)


def validate(session, request, admission):
    try:
        _dataset(session, request)
    except AppError as refusal:
        return verdict([refusal])
    return verdict([])


JOB_TYPE = JobType(CountRequest, submit, validate, CountResult)
'''

WORK = '''
"""What a worker does for the job type `count`."""

from app.datasets.arrays import open_arrays
from app.db.tables import DatasetRow
from app.jobs import lease, queue
from app.jobs.types.count_request import CountRequest
from app.worker.worker_context import JobWork


def run(context, claim, stop_reason):
    with context.database.read() as session:
        job = lease.load(session, claim)
        rows = open_arrays(context.blobs, session.get_one(DatasetRow, job.dataset_id))
    least = CountRequest.model_validate(job.spec).least
    result = {"rows": len(rows.y), "counted": int((rows.y >= least).sum())}
    with context.database.write() as session:
        queue.succeed(session, claim, None, result)


WORK = JobWork("count", run)
'''

# In an interpreter of its own, because the registries are filled when they are imported.
SCRIPT = """
import json, sys
from pathlib import Path

import app.jobs.types
import app.worker.types

folder = Path(sys.argv[1])
app.jobs.types.__path__.append(str(folder / "requests"))
app.worker.types.__path__.append(str(folder / "work"))

import numpy as np

from app.main import create_app
from app.web.context import context_of
from tests.support.builders import InProcess, temporary_settings
from tests.support.worker_bench import worker_bench

with worker_bench(folder) as bench:
    url = bench.database.url.render_as_string(hide_password=False)
    service = create_app(temporary_settings(folder, database_url=url))
    http = InProcess(service)
    dataset_id = bench.store(np.ones((5, 2)), np.array([1.0, 2.0, 2.0, 3.0, 3.0]))
    texts = bench.store(np.ones((2, 2)), np.array(["no", "yes"]))
    body = {"type": "count", "dataset_id": dataset_id, "least": 2, "labels": {"team": "a"}}
    created = http.post("/v1/jobs", json=body)
    said = {
        "created": [created.status_code, created.json()],
        "listed": http.get("/v1/jobs?type=count").json()["data"],
        "listed_as_train": http.get("/v1/jobs?type=train").json()["data"],
        "valid": http.post("/v1/jobs?validate_only=true", json=body).json(),
        "invalid": http.post("/v1/jobs?validate_only=true", json={**body, "dataset_id": texts}).json(),
        "wrong_field": http.post("/v1/jobs", json={**body, "least": "x"}).json(),
        "unknown_type": http.post("/v1/jobs", json={**body, "type": "dance"}).json(),
        "unknown_filter": http.get("/v1/jobs?type=dance").json(),
        "finished_early": http.post(f"/v1/jobs/{created.json()['id']}/finish").json(),
        "executed": bench.execute(created.json()["id"]),
        "described": http.get("/openapi.json").json()["components"]["schemas"],
    }
    context_of(service).database.close()
print(json.dumps(said, default=str))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the service answered with the two files in place."""
    folder = tmp_path_factory.mktemp("outside")
    for path, content in (("requests/count_request.py", REQUEST), ("work/count_job.py", WORK)):
        (folder / path).parent.mkdir()
        (folder / path).write_text(content)
    return json.loads(_printed(SCRIPT, folder))  # type: ignore[no-any-return]


def _printed(script: str, *arguments: Path) -> str:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_job_of_a_type_from_outside_is_queued_and_found_by_its_type(said: dict[str, Any]) -> None:
    status, job = said["created"]
    assert (status, job["type"], job["status"], job["labels"]) == (201, "count", "queued", {"team": "a"})
    assert [one["id"] for one in said["listed"]] == [job["id"]]
    assert said["listed_as_train"] == []


def test_the_executor_runs_a_job_of_a_type_from_outside(said: dict[str, Any]) -> None:
    executed = said["executed"]
    assert (executed["status"], executed["error"]) == ("succeeded", None)
    assert executed["result"] == {"rows": 5, "counted": 4}


def test_a_type_from_outside_is_validated_and_refused_like_the_others(said: dict[str, Any]) -> None:
    assert said["valid"] == {"valid": True, "estimate": None, "errors": []}
    assert [one["code"] for one in said["invalid"]["errors"]] == ["labels_are_text"]
    assert said["wrong_field"]["errors"][0]["field"] == "least"
    assert said["finished_early"]["code"] == "not_a_training_job"


def test_an_unknown_type_is_refused_with_a_list_that_has_the_type_from_outside(said: dict[str, Any]) -> None:
    assert (
        said["unknown_type"]["detail"]
        == "body: type must be one of train, count, evaluate, leave_one_out, predict, race, tune, "
        "verify"
    )
    assert "'count'" in said["unknown_filter"]["detail"]


def test_the_description_of_the_api_has_the_type_from_outside(said: dict[str, Any]) -> None:
    assert "CountRequest" in said["described"]
    choices = said["described"]["Job"]["properties"]["result"]["anyOf"]
    assert {"$ref": "#/components/schemas/CountResult"} in choices
    assert "counted" in said["described"]["CountResult"]["properties"]


def test_every_type_that_can_be_requested_has_work_and_the_other_way_round() -> None:
    assert (
        set(job_types.TYPES)
        == set(WORK_OF_TYPE)
        == {"train", "evaluate", "predict", "race", "tune", "verify", "leave_one_out"}
    )
