"""A page of docs/benchmarks that is written while it is measured: what goes onto it is printed as it comes."""

import os
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

__all__ = ["FOLDER", "Page", "circumstances", "keep_section"]

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"


def circumstances() -> str:
    """When, and on what, something was measured."""
    when = datetime.now(UTC).strftime("%d %B %Y")
    return f"{when}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end"


class Page:
    """Markdown, line by line."""

    def __init__(self, name: str, title: str, how: str) -> None:
        self.name, self._title, self._how = name, title, how
        self._lines: list[str] = []
        self.say(how)

    def say(self, text: str) -> None:
        self._add(text, "")

    def table(self, *columns: str) -> None:
        self._add("| " + " | ".join(columns) + " |", "|" + "---|" * len(columns))

    def row(self, *cells: object) -> None:
        self._add("| " + " | ".join(str(cell) for cell in cells) + " |")

    def end_table(self) -> None:
        self._add("")

    def text(self) -> str:
        """Return what the page has so far, without its title."""
        return "\n".join(self._lines)

    def write(self) -> None:
        """Over the page that was there."""
        head = [f"# {self._title}", "", f"Written by `make bench ARGS={self.name}` ({circumstances()}).", ""]
        path = FOLDER / f"{self.name}.md"
        path.write_text("\n".join([*head, *self._lines]).rstrip() + "\n")
        print(f"written: {path}", flush=True)

    def _add(self, *lines: str) -> None:
        self._lines += lines
        for line in lines:
            print(line, flush=True)


def keep_section(name: str, head: str, order: Iterable[str], title: str, page: Page) -> None:
    """Write one section of a page that is measured in parts. The other sections stay as they were measured.

    `head`: the page's title and what stands above its sections. `order`: the titles of all sections.
    """
    path = FOLDER / f"{name}.md"
    old = path.read_text() if path.exists() else ""
    kept = dict(re.findall(r"^## (.*)\n\n((?:(?!^## ).*\n)*)", old, re.MULTILINE))
    kept[title] = f"Measured {circumstances()}. {page.text().strip()}\n\n"
    sections = [f"## {one}\n\n{kept[one].rstrip()}\n\n" for one in order if one in kept]
    path.write_text(f"{head}\n\n{''.join(sections)}".rstrip() + "\n")
    print(f"written: {path}, {title}", flush=True)
