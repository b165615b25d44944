"""Writes the generated pages of docs/ and the pinned OpenAPI document: `make reference`.

Each page is made from the registry that the service itself uses, so that a page cannot say something else than the
code. A test compares the stored pages with freshly made ones.
"""

import json
from collections.abc import Callable
from pathlib import Path

from docs.scripts.command_page import command_page
from docs.scripts.decisions_page import decisions_page
from docs.scripts.error_page import error_page
from docs.scripts.http_page import api_document, http_page
from docs.scripts.registry_pages import format_page, settings_page, solver_page

__all__ = ["DOCUMENT", "FOLDER", "PAGES", "document_text", "main"]

FOLDER = Path(__file__).resolve().parents[1]
DOCUMENT = FOLDER.parent / "tests" / "contract" / "openapi.json"
"""The pinned OpenAPI document. A change of it is a change of the contract, and is seen in review."""
NOTICE = "<!-- Written by `make reference` from the code. Do not edit this page; edit the code. -->"

PAGES: dict[str, Callable[[], str]] = {
    "adr/index.md": decisions_page,
    "reference/command-line.md": command_page,
    "reference/error-codes.md": error_page,
    "reference/file-formats.md": format_page,
    "reference/http-api.md": http_page,
    "reference/settings.md": settings_page,
    "reference/solvers.md": solver_page,
}


def render(name: str) -> str:
    """The text of a generated page, as it should be stored."""
    title, _, rest = PAGES[name]().partition("\n")
    return f"{title}\n\n{NOTICE}\n{rest.rstrip()}\n"


def document_text() -> str:
    """The OpenAPI document, as it should be stored."""
    return json.dumps(api_document(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def main() -> None:
    DOCUMENT.write_text(document_text())
    print(f"written: {DOCUMENT.relative_to(FOLDER.parent)}")
    for name in PAGES:
        (FOLDER / name).write_text(render(name))
        print(f"written: docs/{name}")


if __name__ == "__main__":
    main()
