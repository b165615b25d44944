"""One migrated database of each kind for a module; each test finds its tables empty."""

from collections.abc import Iterator

import pytest

from app.db import Database
from tests.builders import empty_tables, migrated_database
from tests.postgres import fresh_database


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def module_database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('database') / 'test.sqlite3'}"
        with migrated_database(url) as database:
            yield database
    else:
        with (
            fresh_database(request.getfixturevalue("postgres_server")) as url,
            migrated_database(url) as database,
        ):
            yield database


@pytest.fixture
def database(module_database: Database) -> Database:
    empty_tables(module_database.engine)
    return module_database
