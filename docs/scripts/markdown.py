"""Pieces of Markdown that the generated pages are made of."""

from collections.abc import Iterable

__all__ = ["cell", "sentence", "table"]


def table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table, or nothing if it has no rows."""
    body = ["| " + " | ".join(cell(value) for value in row) + " |" for row in rows]
    if not body:
        return ""
    head = list(columns)
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *body]) + "\n\n"


def cell(value: object) -> str:
    """Text for one cell: on one line, bars escaped."""
    return " ".join(str(value).split()).replace("|", "\\|")


def sentence(text: str) -> str:
    """A description with a capital letter and a full stop, as descriptions in code often have neither."""
    text = " ".join(text.split())
    if not text:
        return ""
    first = text[0].upper() + text[1:] if text[:1].isalpha() else text
    return first if first.endswith((".", "!", "?", ":")) else first + "."
