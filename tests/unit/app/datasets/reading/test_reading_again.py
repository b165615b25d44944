"""A file that was acknowledged and could not be read, or not be stored, is read again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.datasets import service
from app.datasets.reading import parse_queue
from app.datasets.reading.parse import Parsed
from app.datasets.reading.parser_pool import ReaderDied
from app.datasets.service import MAX_READER_DEATHS
from app.db.tables import DatasetRow
from app.errors import DatabaseUnavailable
from app.storage import BlobStore
from tests.support.builders import migrated_database, temporary_settings
from tests.support.parsing_house import House, run, settled


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    settings = temporary_settings(tmp_path, lease_seconds=30.0, heartbeat_seconds=0.05)
    with migrated_database(settings.resolved_database_url) as database:
        yield House(settings, database, BlobStore(tmp_path))


def test_a_file_whose_reader_died_is_read_again(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse_queue, "FIRST_PAUSE_SECONDS", 0.01)
    deaths = iter([ReaderDied("killed")] * (MAX_READER_DEATHS - 1))

    def read() -> Parsed:
        for death in deaths:
            raise death
        return house.parsed()

    async def upload() -> DatasetRow:
        await house.processor(read).create(*house.received(), 0.0)
        return await settled(house)

    ended = run(upload())
    assert (ended.status, ended.n_rows) == ("ready", 2)


def test_a_database_that_is_away_when_a_file_has_been_read_does_not_make_it_invalid(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parse_queue, "FIRST_PAUSE_SECONDS", 0.01)
    outages, settle = iter([DatabaseUnavailable("away")]), service.settle_ready

    def settle_ready(*arguments: Any) -> None:
        for outage in outages:
            raise outage
        settle(*arguments)

    monkeypatch.setattr(service, "settle_ready", settle_ready)

    async def upload() -> DatasetRow:
        await house.processor(house.parsed).create(*house.received(), 0.0)
        return await settled(house)

    ended = run(upload())
    assert (ended.status, ended.error) == ("ready", None)
