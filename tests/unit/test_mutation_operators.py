"""The mutants of a source: each is one change, compiles, and is drawn again from the same seed."""

import ast

from tests.mutation import report, warm_tests
from tests.mutation.equivalent import EQUIVALENT
from tests.mutation.operators import mutants_of
from tests.mutation.runner import ROOT
from tests.mutation.targets import TARGETS

SOURCE = b'''"""A docstring of 3 words."""

__all__ = ["f"]


def f(a: float | None, b: float) -> float:
    """Another, of 2."""
    total = a + 2.0 * b
    if a < b and not b:
        total += above(a)
    return total


def g(x: int) -> int:
    assert x > 0, "narrowed"
    raise ValueError(f"{x} is 1 too many")
'''


def changes(operator=None):
    return {one.change(SOURCE)[1] for one in mutants_of("f.py", SOURCE) if operator in (None, one.operator)}


def test_every_kind_of_change_is_made():
    assert changes("arithmetic") == {"total = a - 2.0 * b", "total = a + 2.0 / b", "total -= above(a)"}
    assert changes("operand dropped") == {"total = (a)", "total = (2.0 * b)", "total = a + (2.0)", "total = a + (b)"}
    assert changes("constant") == {"total = a + 4.0 * b", "total = a + 1.0 * b"}
    assert changes("comparison") == {"if a <= b and not b:", "if a >= b and not b:"}
    assert changes("boolean") == {"if a < b or not b:", "if a < b and b:"}
    assert changes("condition negated") == {"if not (a < b and not b):"}
    assert changes("function") == {"total += below(a)"}
    assert changes("call dropped") == {"total += (a)"}
    assert changes("neighbour") == {"return a"}
    assert changes("statement removed") == {"pass"}


def test_docstrings_annotations_asserts_and_errors_are_left_alone():
    touched = {one.line for one in mutants_of("f.py", SOURCE)}
    assert touched == {8, 9, 10, 11, 16}  # 16: the raise itself is removed
    assert {one.function for one in mutants_of("f.py", SOURCE, ("g",))} == {"g"}


ASYNC = b"""
LIMIT = 3


async def f(a: int) -> int:
    log.warning("%s is 2 much", a)
    await g(a)
    return a + 1


class C:
    def h(self) -> bool:
        return not self.x
"""


def test_coroutines_are_changed_and_lines_of_the_log_are_not() -> None:
    found = {one.change(ASYNC)[1] for one in mutants_of("a.py", ASYNC, ("f",))}
    assert found == {"pass", "await (a)", "return a - 1", "return (a)", "return (1)", "return a + 0", "return a + 2"}


def test_only_functions_that_a_mutant_changes_get_new_code() -> None:
    before = compile(ASYNC, "a.py", "exec")
    for mutant in mutants_of("a.py", ASYNC):
        changed = warm_tests._changed(before, compile(mutant.applied(ASYNC), "a.py", "exec"))
        if mutant.function == "":
            assert changed is None, "a module's own statement ran long ago"
        else:
            assert changed is not None
            assert [old.co_qualname for old, _ in changed] == [mutant.function]


def test_a_sample_is_of_every_file_and_can_be_drawn_again():
    parts = [part for part in TARGETS["certificates"] if "linalg" in part.path or "driver" in part.path]
    sample = report.drawn(parts, 30, 23)
    assert sample == report.drawn(parts, 30, 23)
    assert sample != report.drawn(parts, 30, 24)
    assert {one.path for one in sample} == {part.path for part in parts}
    assert len(sample) >= 30
    for mutant in sample:
        ast.parse(mutant.applied((ROOT / mutant.path).read_bytes()))


def test_targets_and_equivalent_mutants_exist():
    for parts in TARGETS.values():
        for part in parts:
            assert all((ROOT / test.split("::")[0]).exists() for test in part.tests)
    for one in EQUIVALENT:
        lines = " ".join((ROOT / one.path).read_text().split())
        assert one.before in lines, one
