"""Figures of the whole service, and reading a stored file again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.db import Database
from app.main import create_app
from tests.support.builders import InProcess, dataset_row, migrated_database, temporary_settings


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with migrated_database(database_url) as database:
        yield database


def test_the_system_counts_what_is_there(database: Database, database_url: str, tmp_path: Path) -> None:
    with database.write() as session:
        session.add(dataset_row())
    settings = temporary_settings(tmp_path).model_copy(update={"database_url": database_url})
    found = InProcess(create_app(settings)).get("/v1/system").json()
    assert found["datasets"] == 1
    assert found["models"] == 0
    assert found["jobs"] == dict.fromkeys(("queued", "running", "paused", "succeeded", "failed", "cancelled"), 0)
    assert found["database"] == database.engine.dialect.name
    assert 0 < found["storage"]["free_bytes"] <= found["storage"]["total_bytes"]
    assert set(found["readiness"]["checks"]) >= {"database", "migrations", "storage"}
