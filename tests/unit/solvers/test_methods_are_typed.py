"""Every method keeps its state in a type that mypy checks and gives its kernels a few records, not many positions."""

import ast
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

import solvers.methods
from solvers.engine.registry import registered
from solvers.state import State

FOLDER = Path(solvers.methods.__path__[0])
MAX_ARGUMENTS = 10
"""Arguments of a kernel."""
MAX_LOOSE_VALUES = 4
"""Values that a kernel returns without names."""


def sources() -> list[Path]:
    return sorted(FOLDER.rglob("*.py"))


def kernels(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any("njit" in ast.unparse(mark) for mark in node.decorator_list):
            yield node


def argument_count(function: ast.FunctionDef) -> int:
    arguments = function.args
    return len(arguments.posonlyargs) + len(arguments.args) + len(arguments.kwonlyargs)


def loose_values(function: ast.FunctionDef) -> int:
    """How many values a function returns as a plain tuple, by its annotation."""
    match function.returns:
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=elements)):
            return len(elements)
        case _:
            return 0


def faults_of(source: str) -> list[str]:
    tree = ast.parse(source)
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=ast.Name(id="state" | "earlier" as name), slice=ast.Constant(value=str(key))):
                found.append(f"{name}[{key!r}] in line {node.lineno}")
            case ast.ImportFrom(names=names) if any(alias.asname == "State" for alias in names):
                found.append(f"another type is called State in line {node.lineno}")
            case ast.Subscript(value=ast.Name(id="Method"), slice=ast.Tuple(elts=[_, ast.Name(id="Any")])):
                found.append(f"a method without a type of state in line {node.lineno}")
    for kernel in kernels(tree):
        if argument_count(kernel) > MAX_ARGUMENTS:
            found.append(f"{kernel.name} takes {argument_count(kernel)} arguments")
        if loose_values(kernel) > MAX_LOOSE_VALUES:
            found.append(f"{kernel.name} returns {loose_values(kernel)} values")
    return found


def test_no_method_looks_fields_up_by_name_or_passes_long_lists() -> None:
    faults = {path.relative_to(FOLDER).as_posix(): faults_of(path.read_text()) for path in sources()}
    assert len(faults) > 30
    assert {path: found for path, found in faults.items() if found} == {}


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ('def step(self, state):\n    state["w"] += 1\n', "state['w'] in line 2"),
        ('def _resume(self, state, earlier):\n    return earlier["w"]\n', "earlier['w'] in line 2"),
        ("from solvers.state import StoredState as State\n", "another type is called State in line 1"),
        ("class One(Method[BinaryProblem, Any]):\n    pass\n", "a method without a type of state in line 1"),
        (f"@njit(cache=True)\ndef run({', '.join('abcdefghijk')}):\n    pass\n", "run takes 11 arguments"),
        ("@njit\ndef run(a) -> tuple[int, int, int, int, float]:\n    pass\n", "run returns 5 values"),
    ],
)
def test_what_is_refused(source: str, fault: str) -> None:
    assert faults_of(source) == [fault]


@pytest.mark.parametrize("name", sorted(registered()))
def test_every_method_has_a_type_of_state(name: str) -> None:
    state: Any = registered()[name].state_type
    assert issubclass(state, State)
    assert state is not State
    assert is_dataclass(state)
    assert all("__slots__" in vars(part) for part in state.__mro__[:-1])
    assert len(fields(state)) > 1
