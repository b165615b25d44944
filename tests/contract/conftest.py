"""One migrated database of each kind for a module, and a registry of models on it; both are fresh for each test."""

from collections.abc import Iterator

import pytest

from app.db import Database
from app.predictions.shadow import Shadows
from app.web.context import context_of
from tests.support.builders import empty_tables, migrated_database
from tests.support.model_registry import Registry


@pytest.fixture(scope="module")
def module_database(module_database_url: str) -> Iterator[Database]:
    with migrated_database(module_database_url) as database:
        yield database


@pytest.fixture
def database(module_database: Database) -> Database:
    empty_tables(module_database.engine)
    return module_database


@pytest.fixture(scope="module")
def module_registry(module_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    registry = Registry(module_database, tmp_path_factory.mktemp("data"))
    yield registry
    context_of(registry.http.app).database.close()


@pytest.fixture
def registry(module_registry: Registry, database: Database) -> Iterator[Registry]:
    assert module_registry.database is database, "another database was emptied"
    module_registry.begin()
    yield module_registry
    context_of(module_registry.http.app).part(Shadows).stop()
