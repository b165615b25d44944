"""The mutants of a source file: one small change each, made in the text so that a diff shows nothing else.

Left alone, because a change there is caught by other means or has no meaning: annotations, decorators, docstrings,
`__all__`, the text of errors, lines of the log, and `assert` statements, which narrow types for mypy.
"""

import ast
import warnings
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

COMPARISONS: dict[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<", ("<=", ">=")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<=")),
    ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: ("is not", ("is",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: ("not in", ("in",)),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Pow: ("**", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.RShift: (">>", "<<"),
    ast.LShift: ("<<", ">>"),
}
OTHER_FUNCTION = {
    "min": "max",
    "max": "min",
    "np.minimum": "np.maximum",
    "np.maximum": "np.minimum",
    "above": "below",
    "below": "above",
    "any": "all",
    "all": "any",
}
CONVERSIONS = {
    "float", "int", "bool", "list", "tuple", "iter", "len", "read_only", "range", "enumerate", "np.asarray",
    "np.ascontiguousarray", "np.atleast_1d", "np.atleast_2d", "isinstance", "replace", "np.errstate", "Condition",
    "np.empty", "np.zeros", "np.ones", "np.empty_like", "np.zeros_like", "np.arange",
}  # fmt: skip
"""Calls that are not replaced by their argument: the result is the same number, or a crash."""

SYMMETRIC = {"min", "max", "np.minimum", "np.maximum", "math.hypot", "np.hypot", "two_sum"}
"""Functions whose two arguments can be swapped without a difference."""


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    path: str
    function: str
    """The qualified name of the function or class around it; empty at the level of the module."""
    line: int
    operator: str
    start: int
    """First byte of the text that is replaced."""
    end: int
    replacement: bytes

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.replacement + source[self.end :]

    def change(self, source: bytes) -> tuple[str, str]:
        """The lines it touches, before and after, without their common indentation."""
        first = source.rfind(b"\n", 0, self.start) + 1
        last = source.find(b"\n", self.end)
        last = len(source) if last < 0 else last
        before = source[first:last].decode()
        after = (source[first : self.start] + self.replacement + source[self.end : last]).decode()
        return _squeezed(before), _squeezed(after)


@cache
def mutants_of(path: str, source: bytes, names: tuple[str, ...] | None = None) -> list[Mutant]:
    """Every mutant that compiles, in the order of the text; only those inside of `names` if they are given."""
    collector = _Collector(path, source)
    collector.visit(ast.parse(source))
    found: dict[tuple[int, int, bytes], Mutant] = {}
    for mutant in sorted(collector.found, key=lambda one: (one.start, one.end, one.replacement)):
        if names is not None and not any(mutant.function == n or mutant.function.startswith(n + ".") for n in names):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of code that looks wrong: it is
                compile(mutant.applied(source), path, "exec")
        except SyntaxError:
            continue
        found.setdefault((mutant.start, mutant.end, mutant.replacement), mutant)
    return list(found.values())


class _Collector(ast.NodeVisitor):
    def __init__(self, path: str, source: bytes) -> None:
        self.path = path
        self.source = source
        self.found: list[Mutant] = []
        self._names: list[str] = []
        self._arguments: list[list[str]] = []
        self._assigned: list[set[str]] = [set()]
        self._line_starts = [0]
        for line in source.splitlines(keepends=True):
            self._line_starts.append(self._line_starts[-1] + len(line))

    # --- where things are ---------------------------------------------------------------------------------------------

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._line_starts[node.lineno - 1] + node.col_offset
        return start, self._line_starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr | ast.stmt) -> bytes:
        start, end = self._span(node)
        return self.source[start:end]

    def _add(self, operator: str, node: ast.expr | ast.stmt, replacement: bytes, span: tuple[int, int] | None = None):
        start, end = span or self._span(node)
        if self.source[start:end] == replacement:
            return
        line = self.source.count(b"\n", 0, start) + 1
        self.found.append(Mutant(self.path, ".".join(self._names), line, operator, start, end, replacement))

    def _swap_between(self, operator: str, left: ast.expr, right: ast.expr, old: str, new: str) -> None:
        start, end = self._span(left)[1], self._span(right)[0]
        at = self.source.find(old.encode(), start, end)
        if at >= 0:
            self._add(operator, left, new.encode(), (at, at + len(old)))

    # --- what is passed over, and names -------------------------------------------------------------------------------

    def _visit_definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        self._names.append(node.name)
        self._assigned.append(set())
        if not isinstance(node, ast.ClassDef):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            self._arguments.append([one.arg for one in arguments if one.arg not in ("self", "cls")])
            self._assigned[-1].update(self._arguments[-1])
            for default in [*node.args.defaults, *node.args.kw_defaults]:
                if default is not None:
                    self.visit(default)
        for statement in node.body:
            self.visit(statement)
        if not isinstance(node, ast.ClassDef):
            self._arguments.pop()
        self._assigned.pop()
        self._names.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name != "_fused_multiply_add":  # generates machine code, which does not run here
            self._visit_definition(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._visit_definition(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_definition(node)

    def visit_Import(self, node: ast.Import) -> None:
        pass

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        pass

    def visit_Assert(self, node: ast.Assert) -> None:
        pass

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    # --- statements ---------------------------------------------------------------------------------------------------

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring
        if isinstance(node.value, ast.Call) and ast.unparse(node.value.func).startswith("log."):
            return
        if not isinstance(node.value, ast.Yield):
            self._add("statement removed", node, b"pass")
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        targets = [name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)]
        if "__all__" in targets:
            return
        # A name that is not bound any more is a crash, which any test sees: only what was there before is left there.
        if self._names and (not targets or set(targets) <= self._assigned[-1]):
            self._add("statement removed", node, b"pass")
        self._assigned[-1].update(targets)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if "__all__" in ast.unparse(node.target):
            return
        self._add("statement removed", node, b"pass")
        if type(node.op) in ARITHMETIC:
            old, new = ARITHMETIC[type(node.op)]
            self._swap_between("arithmetic", node.target, node.value, old + "=", new + "=")
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        if node.exc is not None:
            self._add("statement removed", node, b"pass")

    def visit_Break(self, node: ast.Break) -> None:
        self._add("statement removed", node, b"pass")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._add("statement removed", node, b"pass")

    def visit_If(self, node: ast.If) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        if not isinstance(node.test, ast.Constant):
            self._negate(node.test)
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        value = node.value
        if isinstance(value, ast.Name) and self._arguments:
            for name in self._arguments[-1][:1]:
                self._add("neighbour", value, name.encode())
        if isinstance(value, ast.Tuple):
            self._swap_neighbours(value.elts)
        self.generic_visit(node)

    # --- expressions --------------------------------------------------------------------------------------------------

    def _negate(self, test: ast.expr) -> None:
        self._add("condition negated", test, b"not (" + self._text(test) + b")")

    def _swap_neighbours(self, nodes: list[ast.expr]) -> None:
        for one, other in pairwise(nodes):
            if ast.dump(one) != ast.dump(other) and not isinstance(one, ast.Starred):
                start, past = self._span(one)[0], self._span(other)[1]
                between = self.source[self._span(one)[1] : self._span(other)[0]]
                self._add("neighbour", one, self._text(other) + between + self._text(one), (start, past))

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        left = node.left
        for op, right in zip(node.ops, node.comparators, strict=True):
            old, others = COMPARISONS[type(op)]
            for new in others:
                self._swap_between("comparison", left, right, old, new)
            left = right
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in ARITHMETIC:
            old, new = ARITHMETIC[type(node.op)]
            self._swap_between("arithmetic", node.left, node.right, old, new)
        if isinstance(node.op, ast.Add | ast.Sub | ast.Mult):
            self._add("operand dropped", node, b"(" + self._text(node.left) + b")")
            if not isinstance(node.op, ast.Sub):
                self._add("operand dropped", node, b"(" + self._text(node.right) + b")")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for one, other in pairwise(node.values):
            self._swap_between("boolean", one, other, old, new)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not | ast.USub):
            self._add("boolean" if isinstance(node.op, ast.Not) else "arithmetic", node, self._text(node.operand))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._add("constant", node, str(not value).encode())
        elif isinstance(value, int | float):
            others = {0: [1], 1: [0, 2]}.get(value, [value * 2, value / 2 if isinstance(value, float) else value - 1])
            for other in others:
                self._add("constant", node, repr(type(value)(other)).encode())

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if ast.unparse(node) in ("np.inf", "math.inf"):
            self._add("constant", node, b"(-" + self._text(node) + b")")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = ast.unparse(node.func)
        if name in OTHER_FUNCTION:
            self._add("function", node.func, OTHER_FUNCTION[name].encode())
        elif isinstance(node.func, ast.Attribute) and node.func.attr in ("max", "min", "any", "all", "argmax"):
            other = {**OTHER_FUNCTION, "argmax": "argmin"}[node.func.attr]
            past = self._span(node.func)[1]
            self._add("function", node.func, other.encode(), (past - len(node.func.attr), past))
        is_plain = len(node.args) == 1 and not node.keywords and not isinstance(node.args[0], ast.Starred)
        if is_plain and name not in CONVERSIONS and not isinstance(node.args[0], ast.GeneratorExp):
            self._add("call dropped", node, b"(" + self._text(node.args[0]) + b")")
        if name not in CONVERSIONS | SYMMETRIC:
            self._swap_neighbours(node.args)
        self.generic_visit(node)


def _squeezed(text: str) -> str:
    return " ".join(text.split())
