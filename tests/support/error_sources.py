"""Finds the error codes in the source of app/: what the registry of error codes is compared with."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
CODE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
WARNINGS = {"FileWarning", "finding", "about", "warn"}
"""Callables whose `code` is one of a warning or an issue, not of an error."""


class Use(NamedTuple):
    code: str
    by: str
    """The callable that takes the code, or `dict` or `pair`."""
    place: str


def codes_in_source() -> list[Use]:
    """List every literal that is passed as a parameter named `code`, or stands where an error's code stands."""
    trees = {path: ast.parse(path.read_text()) for path in sorted((ROOT / "app").rglob("*.py"))}
    positions = _code_parameters(trees.values())
    return [
        Use(code, by, f"{path.relative_to(ROOT)}:{line}")
        for path, tree in trees.items()
        for code, by, line in _uses(tree, positions)
        if by not in WARNINGS and CODE.fullmatch(code)
    ]


def _code_parameters(trees: Iterable[ast.Module]) -> dict[str, set[int]]:
    """Of each function and class: the positions at which callers pass `code`."""
    found: dict[str, set[int]] = defaultdict(set)
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name != "__init__":
                _note(found, node.name, _parameters(node))
            elif isinstance(node, ast.ClassDef):
                fields = [part.target.id for part in node.body if _is_field(part)]
                _note(found, node.name, fields)
                for part in node.body:
                    if isinstance(part, ast.FunctionDef) and part.name == "__init__":
                        _note(found, node.name, _parameters(part))
    return found


def _is_field(part: ast.stmt) -> bool:
    return isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)


def _parameters(function: ast.FunctionDef) -> list[str]:
    names = [argument.arg for argument in function.args.args]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names


def _note(found: dict[str, set[int]], name: str, parameters: list[str]) -> None:
    if "code" in parameters:
        found[name].add(parameters.index("code"))


def _uses(tree: ast.Module, positions: dict[str, set[int]]) -> Iterator[tuple[str, str, int]]:
    constants = {
        target.id: part.value
        for part in tree.body
        if isinstance(part, ast.Assign | ast.AnnAssign) and part.value is not None
        for target in (part.targets if isinstance(part, ast.Assign) else [part.target])
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            given = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
            given = given or [node.args[place] for place in positions.get(name, ()) if place < len(node.args)]
            yield from ((code, name, node.lineno) for one in given for code in _texts(one, constants))
        elif isinstance(node, ast.Dict):
            # An error has a message, a warning a detail.
            entries = {key.value: value for key, value in zip(node.keys, node.values, strict=True) if _is_text(key)}
            if "code" in entries and "message" in entries:
                yield from ((code, "dict", node.lineno) for code in _texts(entries["code"], constants))
        elif isinstance(node, ast.Tuple) and len(node.elts) == 2 and _is_sentence(node.elts[1]):
            codes = [code for code in _texts(node.elts[0], constants) if "_" in code]
            yield from ((code, "pair", node.lineno) for code in codes)


def _is_text(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _is_sentence(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (_is_text(node) and " " in node.value)


def _texts(node: ast.expr, constants: dict[str, ast.expr]) -> list[str]:
    """The strings that an expression can be: a literal, a constant of the module, either side of a choice."""
    if _is_text(node):
        return [node.value]
    if isinstance(node, ast.IfExp):
        return _texts(node.body, constants) + _texts(node.orelse, constants)
    if isinstance(node, ast.Name) and node.id in constants:
        return _texts(constants[node.id], {})
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
        table = constants.get(node.value.id)
        return [text for value in table.values for text in _texts(value, {})] if isinstance(table, ast.Dict) else []
    return []
