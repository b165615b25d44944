"""One migrated database of each kind for a module; each test finds its tables empty."""

from collections.abc import Iterator

import pytest

from app.db import Database
from tests.builders import empty_tables, migrated_database


@pytest.fixture(scope="module")
def module_database(module_database_url: str) -> Iterator[Database]:
    with migrated_database(module_database_url) as database:
        yield database


@pytest.fixture
def database(module_database: Database) -> Database:
    empty_tables(module_database.engine)
    return module_database
