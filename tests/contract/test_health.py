"""What `/readyz` says of the parts of a service: training may be on its way while all else is ready."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.db import Database
from app.main import create_app
from app.system.readiness import WorkersReady
from app.web.context import context_of
from tests.support.builders import InProcess, temporary_settings


@pytest.fixture
def http(database: Database, tmp_path: Path) -> Iterator[InProcess]:
    url = database.url.render_as_string(hide_password=False)
    app = create_app(temporary_settings(tmp_path, database_url=url))
    context_of(app).readers_warm = lambda: True
    yield InProcess(app)
    context_of(app).database.close()


def test_workers_that_compile_are_told_of_and_hold_up_nothing_else(http: InProcess) -> None:
    answer = http.get("/readyz")
    assert (answer.status_code, answer.json()["status"], answer.json()["training"]) == (200, "ready", "elsewhere")
    sign = context_of(http.app).workers = WorkersReady()
    for ready, said in ((False, "compiling"), (True, "ok"), (False, "compiling")):
        sign.ready = ready
        answer = http.get("/readyz")
        assert (answer.status_code, answer.json()["status"], answer.json()["training"]) == (200, "ready", said)
        assert set(answer.json()["checks"].values()) == {"ok"}
    assert http.get("/v2/health/ready").status_code == 200


def test_what_is_missing_is_named(http: InProcess) -> None:
    context = context_of(http.app)
    context.readers_warm = lambda: False
    answer = http.get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (503, "not_ready")
    assert answer.json()["checks"]["kernels"] == "compiling"
    context.draining = True
    assert "draining" in http.get("/readyz").json()["checks"]
