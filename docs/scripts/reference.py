"""Writes the generated pages of docs/: `make reference`, or `python -m docs.scripts.reference`.

Each page is made from the registry that the service itself uses, so that a page cannot say something else than the
code. A test compares the stored pages with freshly made ones.
"""

from collections.abc import Callable
from pathlib import Path

from docs.scripts.command_page import command_page
from docs.scripts.decisions_page import decisions_page
from docs.scripts.error_page import error_page
from docs.scripts.http_page import http_page
from docs.scripts.registry_pages import format_page, settings_page, solver_page

__all__ = ["FOLDER", "PAGES", "main"]

FOLDER = Path(__file__).resolve().parents[1]
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


def main() -> None:
    for name in PAGES:
        (FOLDER / name).write_text(render(name))
        print(f"written: docs/{name}")


if __name__ == "__main__":
    main()
