"""The generated pages say what the code says."""

import pytest

from docs.scripts.reference import FOLDER, PAGES, render


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_up_to_date(name: str) -> None:
    stored = (FOLDER / name).read_text()
    assert stored == render(name), f"docs/{name} is out of date: run `make reference` and commit it"


@pytest.mark.parametrize("name", ["command-line", "error-codes", "http-api", "settings", "solvers"])
def test_everything_on_a_generated_page_is_described(name: str) -> None:
    lines = (FOLDER / "reference" / f"{name}.md").read_text().splitlines()
    assert [line for line in lines if line.startswith("| ") and line.endswith("|  |")] == []
