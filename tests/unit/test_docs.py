"""The documents are true about the tree: files they name exist, links lead somewhere, blocks are of a known kind."""

import json
import re
from pathlib import Path

import pytest

from tests.support.documents import LANGUAGES, REASONS, ROOT, blocks, dead_links, pages, shown

NAMED = re.compile(r"`((?:app|solvers|alembic|tests|benchmarks|docker|docs)/[\w./-]*\w/?)`")
MOST_NOT_RUN = 16
"""Blocks that may be left out of the run. A new one needs a better reason than those that are there."""
LONGEST_ENTRY = 180
RECORDS = ("docs/adr/", "docs/benchmarks/", "CHANGELOG.md")
"""Records of their day: files that they name may have moved since."""


@pytest.mark.parametrize("page", [page for page in pages() if not shown(page).startswith(RECORDS)], ids=shown)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    named = set(NAMED.findall(page.read_text()))
    assert {name for name in named if not (ROOT / name).exists()} == set()


@pytest.mark.parametrize("page", pages(), ids=shown)
def test_no_link_is_dead(page: Path) -> None:
    assert dead_links(page) == []


@pytest.mark.parametrize("page", pages(), ids=shown)
def test_every_block_has_a_language_and_a_known_reason_if_it_does_not_run(page: Path) -> None:
    for block in blocks(page):
        assert block.language in LANGUAGES, str(block)
        assert block.reason_not_run in {None, *REASONS}, str(block)


@pytest.mark.parametrize("page", pages(), ids=shown)
def test_json_blocks_are_json(page: Path) -> None:
    for block in blocks(page):
        if block.language == "json" and "…" not in block.text:
            json.loads(block.text)


def test_few_blocks_are_left_out_of_the_run() -> None:
    left_out = [str(block) for page in pages() for block in blocks(page) if block.reason_not_run]
    assert len(left_out) <= MOST_NOT_RUN, left_out


def test_the_readme_fits_on_150_lines_and_contributing_on_60() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
    assert len((ROOT / "CONTRIBUTING.md").read_text().splitlines()) <= 60


def test_the_changelog_has_the_usual_sections_and_one_line_an_entry() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    sections = {line.removeprefix("### ") for line in lines if line.startswith("### ")}
    assert sections <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security", "Performance"}
    assert any(line == "## [Unreleased]" for line in lines)
    first_section = next(number for number, line in enumerate(lines) if line.startswith("### "))
    assert [line for line in lines[:first_section] if line.startswith("- ")] == []  # an entry outside of a section
    assert [line for line in lines if line.startswith(" ")] == []  # an entry that continues on a second line
    assert [line for line in lines if len(line) > LONGEST_ENTRY] == []
