"""A disk that is full or fails is the client's cue to try again, not a fault of the service."""

import errno
from pathlib import Path
from typing import Any

import pytest

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
