"""Every code block of README and docs/ works when it is pasted in order, against a running service."""

from pathlib import Path

import pytest

from tests.support.documents import blocks, pages, shown
from tests.support.page_session import PageSession
from tests.support.serving import Service

WITH_CODE = [page for page in pages() if any(block.language in ("bash", "python") for block in blocks(page))]


@pytest.mark.parametrize("page", WITH_CODE, ids=shown)
def test_the_blocks_of_a_page_work_when_pasted_in_order(
    page: Path,
    sqlite_service: Service,
    tmp_path: Path,
    require_command,  # type: ignore[no-untyped-def]
) -> None:
    require_command("curl")
    address = sqlite_service.url.removeprefix("http://")
    with PageSession(tmp_path, address, sqlite_service.data_dir) as session:
        for block in blocks(page):
            session.run(block)
