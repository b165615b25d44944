"""Reads our Markdown pages as tests need them: code blocks with their markers, links, anchors.

Two comments mark a block; each stands on its own line directly above the fence:

    <!-- not run: needs docker -->     the block cannot run here; the reason is one of REASONS
    <!-- output -->                    the block is the output of the block before it; `…` stands for any text
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = {"bash", "python", "json", "text", "diff"}
REASONS = {
    "needs docker",
    "needs a second machine",
    "needs PostgreSQL",
    "needs Airflow 3",
    "needs Prefect 3",
    "blocks the shell",
    "changes the checkout",
    "takes minutes",
}

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\S*)\s*$")
_MARKER = re.compile(r"^ *<!-- (?:(?P<output>output)|not run: (?P<reason>[^>]*?)) -->$")
_LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (?P<title>.+?)\s*$")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str
    is_output: bool
    reason_not_run: str | None

    def __str__(self) -> str:
        return f"{shown(self.page)}:{self.line}"


def shown(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def pages() -> list[Path]:
    """Every page that people read: the top of the checkout and docs/."""
    top = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    return [*top, *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    found, lines = [], page.read_text().splitlines()
    number = 0
    while number < len(lines):
        opening = _FENCE.match(lines[number])
        if opening:
            end = next((later for later in range(number + 1, len(lines)) if lines[later].strip() == "```"), len(lines))
            marker = _MARKER.match(lines[number - 1]) if number else None
            indent = len(opening["indent"])
            found.append(
                Block(
                    page=page,
                    line=number + 1,
                    language=opening["language"],
                    text="\n".join(line[indent:] for line in lines[number + 1 : end]) + "\n",
                    is_output=bool(marker and marker["output"]),
                    reason_not_run=marker["reason"] if marker else None,
                )
            )
            number = end
        number += 1
    return found


def links(page: Path) -> Iterator[str]:
    """Targets of the links and images of a page, outside of code."""
    for line in _prose(page):
        for match in _LINK.finditer(re.sub(r"`[^`]*`", "", line)):
            yield match["target"]


def anchors(page: Path) -> set[str]:
    """The fragments that a page's headings can be linked by, as GitHub and mkdocs both make them."""
    found: set[str] = set()
    for line in _prose(page):
        heading = _HEADING.match(line)
        if heading:
            found.add(_slug(heading["title"]))
        found |= set(re.findall(r'<a id="([^"]+)">', line))
    return found


def dead_links(page: Path) -> list[str]:
    """Relative links of a page that lead nowhere: no such file, or no such heading in it."""
    dead = []
    for target in links(page):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, fragment = target.partition("#")
        goal = (page.parent / unquote(path)).resolve() if path else page
        has_anchor = not fragment or (goal.suffix == ".md" and goal.is_file() and fragment in anchors(goal))
        if not goal.exists() or not has_anchor:
            dead.append(target)
    return dead


def _slug(title: str) -> str:
    plain = re.sub(r"[`*]|\[|\]\([^)]*\)", "", title)
    return re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", plain.lower()).strip())


def _prose(page: Path) -> Iterator[str]:
    in_block = False
    for line in page.read_text().splitlines():
        if line.lstrip().startswith("```"):
            in_block = not in_block
        elif not in_block:
            yield line
