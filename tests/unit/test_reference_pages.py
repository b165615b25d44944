"""The generated pages say what the code says."""

import pytest

from docs.scripts.reference import FOLDER, PAGES, render


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_up_to_date(name: str) -> None:
    stored = (FOLDER / name).read_text()
    assert stored == render(name), f"docs/{name} is out of date: run `make reference` and commit it"
