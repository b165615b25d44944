"""Prose in the source reads at once: phrases that need a second reading do not come back."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("alembic", "app", "benchmarks", "clients", "docker", "docs", "solvers", "tests")
"""Folders that are checked. Add one when its prose has been rewritten."""
SUFFIXES = {".py", ".md", ".yaml", ".toml", ".mako", ""}

BANNED = {
    r"so many\b(?! \w+ (?:and|as))": "give the number, or say 'this many'",
    r"as many as": "say 'at most N' or 'up to N'",
    r"who(?:ever|soever)\b": "name the process, the client or the caller",
    r"\bnap(?:s|ped|ping)?\b": "shrinking",
    r"\brows awake\b": "active set, active rows",
    r"\bby (?:himself|herself)\b": "by itself, or leave it out",
    r"\b(?:is|are|was|were|be|been|being) told\b": "code is not told: it receives, reads, is notified",
    r"\btells? (?:us|it|them|him|of|that|apart)\b": "returns, reports, contains, distinguishes",
    r"\bfrom which on\b": "from",
    r"\b(?:some|no|any)body\b": "name who: a client, another process, none",
    r"\bin earnest\b": "leave it out",
    r"\bgo(?:es|ne)? on\b": "continue",
    r"\bbegins? anew\b|\banew\b": "again, from the beginning",
    r"\b(?:is|are|be) believed\b": "is used, is valid",
    r"\bfell silent\b|\bfalls silent\b": "its lease expired",
    r"\b(?:of|by) ours\b": "name the owner",
    r"\btaken for\b|\bthought to\b": "is used as, is estimated",
    r"\bmay (?:have|take|hold) [\d{]": "at most, the limit is",
    r"\bwithout a word\b": "silently",
    r"\bis no (?:number|text|row|id)\b": "is not a",
}
"""Patterns, and what to write instead."""

ALLOWED = {"tests/unit/test_wording.py"}


def files() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            hidden = any(part.startswith(".") or part == "__pycache__" for part in path.relative_to(ROOT).parts)
            if path.is_file() and not hidden and path.suffix in SUFFIXES:
                yield path


def prose_of(path: Path) -> Iterator[tuple[int, str]]:
    """Comments and strings of a Python file, by line; every line of other files."""
    text = path.read_text()
    if path.suffix != ".py":
        yield from enumerate(text.splitlines(), start=1)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, " ".join(node.value.split())


def found(text: str) -> list[str]:
    return [
        f"{match[0]!r}: {instead}" for pattern, instead in BANNED.items() if (match := re.search(pattern, text, re.I))
    ]


def test_no_banned_phrase_is_used() -> None:
    places = [
        f"{path.relative_to(ROOT)}:{line} {problem}"
        for path in files()
        if path.relative_to(ROOT).as_posix() not in ALLOWED
        for line, text in prose_of(path)
        for problem in found(text)
    ]
    assert places == []


def test_every_folder_is_there() -> None:
    checked = {path.relative_to(ROOT).parts[0] for path in files()}
    assert checked == set(FOLDERS)


@pytest.mark.parametrize(
    "text",
    [
        "after so many seconds",
        "whoever reads it compares these",
        "epochs that a row naps for",
        "the queue is told",
        "who misses it looks by himself",
        "nobody is there",
        "it goes on from there",
        "The body may have {limit} bytes",
    ],
)
def test_the_check_finds_what_it_is_for(text: str) -> None:
    assert found(text)
