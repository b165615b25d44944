"""Prints a random sample of the texts in the code, for a reader who looks for sentences that need a second reading.

    python -m docs.scripts.sample_words --seed 1

A sample has 40 docstrings, 20 constants with their explanation and 20 error messages from app/ and solvers/.
"""

import argparse
import ast
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["Text", "main", "sample"]

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("app", "solvers")
COUNTS = {"docstring": 40, "constant": 20, "error": 20}
"""Texts of each kind in a sample."""
LEAST_WORDS = 4
"""Least number of words in an error message. Shorter strings of a `raise` are mostly codes and names."""


class Text(NamedTuple):
    kind: str
    place: str
    """File and line."""
    name: str
    """The object that the text explains: its first line of code."""
    text: str


def sample(seed: int) -> list[Text]:
    """Return a sample. The same seed and the same code give the same sample."""
    texts = [text for path in _files() for text in _texts(path)]
    draw = random.Random(seed)
    return [
        text
        for kind, count in COUNTS.items()
        for text in draw.sample([one for one in texts if one.kind == kind], count)
    ]


def _files() -> Iterator[Path]:
    for folder in FOLDERS:
        yield from sorted((ROOT / folder).rglob("*.py"))


def _texts(path: Path) -> Iterator[Text]:
    source = path.read_text()
    lines, place = source.splitlines(), path.relative_to(ROOT).as_posix()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            line = getattr(node, "lineno", 1)
            text = ast.get_docstring(node)
            if text:
                name = place if isinstance(node, ast.Module) else lines[line - 1].strip()
                yield Text("docstring", f"{place}:{line}", name, text)
        if isinstance(node, ast.Module | ast.ClassDef):
            yield from _constants(node, lines, place)
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            for argument in node.exc.args:
                text = _message(argument)
                if len(text.split()) >= LEAST_WORDS:
                    yield Text("error", f"{place}:{node.lineno}", lines[node.lineno - 1].strip(), text)


def _constants(owner: ast.Module | ast.ClassDef, lines: list[str], place: str) -> Iterator[Text]:
    """Return the constants with a docstring below them or a comment behind them."""
    for node, following in zip(owner.body, [*owner.body[1:], None], strict=True):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.end_lineno is None:
            continue
        code = lines[node.lineno - 1]
        if not re.match(r"\s*_?[A-Z][A-Z0-9_]+\b", code):
            continue
        text = lines[node.end_lineno - 1].partition("  # ")[2]
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            text = str(following.value.value)
        if text:
            yield Text("constant", f"{place}:{node.lineno}", code.partition("  # ")[0].strip(), text)


def _message(node: ast.expr) -> str:
    """Return the text of a string or f-string, with `{...}` for the parts that are filled in; else nothing."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"
            for part in node.values
            if isinstance(part, ast.Constant | ast.FormattedValue)
        )
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m docs.scripts.sample_words", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    for number, (kind, place, name, text) in enumerate(sample(parser.parse_args().seed), start=1):
        print(f"--- {number} {kind} {place}\n{name}\n{text}\n")


if __name__ == "__main__":
    main()
