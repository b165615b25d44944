"""A file that a child does not find: the store is away, or the dataset was deleted at this moment. Never a 500."""

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest
from anyio import CapacityLimiter

from app.datasets.inspection.inspector import Inspector
from app.errors import Unavailable
from app.storage import BlobStore
from app.storage.identity import StoreAway
from tests.support.builders import migrated_database, temporary_settings


class Pool:
    """Stands in for the readers."""

    def __init__(self) -> None:
        self.limiter = CapacityLimiter(1)

    def run(self, *_: Any) -> None:
        raise FileNotFoundError(errno.ENOENT, "made up")


@pytest.mark.parametrize("away", [True, False])
def test_it_may_be_tried_again(tmp_path: Path, away: bool) -> None:
    def check(_establish: bool) -> None:
        if away:
            raise StoreAway(errno.ENOTCONN, "made up")

    settings = temporary_settings(tmp_path)
    with migrated_database(settings.resolved_database_url) as database:
        inspector = Inspector(settings, database, BlobStore(tmp_path, check), Pool())  # type: ignore[arg-type]
        with pytest.raises(StoreAway if away else Unavailable):
            asyncio.run(inspector._in_child(lambda: None))
