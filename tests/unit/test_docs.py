"""What the documents say of the tree is true: every file that they name is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "CONTRIBUTING.md", ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NAMED = re.compile(r"`((?:app|solvers|alembic|tests|benchmarks|docker|docs)/[\w./-]*\w/?)`")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_file_that_a_document_names_exists(document: Path) -> None:
    named = set(NAMED.findall(document.read_text()))
    assert {name for name in named if not (ROOT / name).exists()} == set()
