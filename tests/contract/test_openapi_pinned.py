"""The OpenAPI document is pinned in openapi.json: what changes for clients is seen in review, line by line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docs.scripts.reference import DOCUMENT, document_text

CHANGES = Path(__file__).resolve().parents[2] / "docs" / "reference" / "api-changes.md"
MOST_SHOWN = 40


def differences(pinned: Any, found: Any, place: str = "") -> Iterator[str]:
    """List what was removed, added and changed. What is removed or changed can break a client."""
    if isinstance(pinned, dict) and isinstance(found, dict):
        for name in sorted({*pinned, *found}):
            if name not in found:
                yield f"removed  {place}/{name}"
            elif name not in pinned:
                yield f"added    {place}/{name}"
            else:
                yield from differences(pinned[name], found[name], f"{place}/{name}")
    elif pinned != found:
        yield f"changed  {place}: {str(pinned)[:80]!r} to {str(found)[:80]!r}"


def test_the_document_is_the_pinned_one() -> None:
    found = list(differences(json.loads(DOCUMENT.read_text()), json.loads(document_text())))
    assert not found, (
        f"{len(found)} differences from tests/contract/openapi.json. If they are meant, run `make reference`, read its "
        f"diff, and add a line to docs/reference/api-changes.md:\n" + "\n".join(found[:MOST_SHOWN])
    )


def test_differences_are_found_at_every_depth() -> None:
    pinned = {"paths": {"/a": {"get": {"x": 1}}, "/b": {}}, "list": [1, 2]}
    found = {"paths": {"/a": {"get": {"x": 2, "y": 1}}}, "list": [1]}
    assert list(differences(pinned, found)) == [
        "changed  /list: '[1, 2]' to '[1]'",
        "changed  /paths//a/get/x: '1' to '2'",
        "added    /paths//a/get/y",
        "removed  /paths//b",
    ]
    assert list(differences(pinned, pinned)) == []


def test_the_changelog_of_the_contract_has_breaking_changes_apart() -> None:
    text = CHANGES.read_text()
    assert "## Unreleased" in text
    assert "### Breaking" in text
