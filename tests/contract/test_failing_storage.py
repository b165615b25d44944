"""A disk that is full or fails is the client's cue to try again, not a fault of the service."""

import errno
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from app.main import create_app
from app.web.context import context_of
from tests.support.builders import InProcess, checked_problem, migrated_database, temporary_settings


@pytest.mark.parametrize(
    ("number", "status"),
    [(errno.ENOSPC, 507), (errno.EDQUOT, 507), (errno.EIO, 503), (errno.EROFS, 503)],
    ids=["full", "over quota", "failing", "read-only"],
)
def test_an_upload_that_cannot_be_stored_may_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, status: int
) -> None:
    settings = temporary_settings(tmp_path)
    with migrated_database(settings.resolved_database_url):
        app = create_app(settings)

        def fail(*_: Any) -> None:
            raise OSError(number, "made up")

        monkeypatch.setattr(context_of(app).blobs, "stage", fail)
        answer = InProcess(app).post("/v1/datasets", content=b"a,y\n1,2\n", headers={"Content-Type": "text/csv"})
        assert checked_problem(answer, status)["retryable"]
        context_of(app).database.close()


def test_a_change_that_a_full_database_cannot_store_may_be_tried_again(tmp_path: Path) -> None:
    """SQLite cannot grow beyond its current pages; reads still work."""
    settings = temporary_settings(tmp_path)
    with migrated_database(settings.resolved_database_url):
        app = create_app(settings)
        database = context_of(app).database
        event.listen(database.engine, "connect", lambda connection, _: connection.execute("PRAGMA max_page_count = 1"))
        http = InProcess(app)
        body = {"url": f"https://example.com/{'x' * 2000}"}
        answers = [http.post("/v1/webhooks", json=body) for _ in range(20)]
        problem = checked_problem(answers[-1], 507)
        assert (problem["code"], problem["retryable"]) == ("storage_full", True)
        stored = sum(answer.status_code == 201 for answer in answers)
        assert len(http.get("/v1/webhooks").json()["data"]) == stored
        database.close()
