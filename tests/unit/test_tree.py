"""The tree keeps its shape: few files at the top, short files, one place a name, routers where their name says."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAX_LINES = 400
LONG_ON_PURPOSE = {"app/models/exports/verifier/verify_model.py": 450}
"""Shipped to users as one file."""
MAX_TOP_FILES = {"solvers": 10, "app": 8}
FEATURE_FILES = {"endpoints", "schemas", "service", "repository"}
SMALL = 60
"""Lines below which a file with one caller belongs into its caller."""

PLUG_INS = (
    "solvers/methods/",
    "solvers/problem/losses/",
    "app/datasets/formats/",
    "app/models/exports/",
    "app/models/metrics/",
    "app/jobs/types/",
    "app/worker/types/",
)
"""Found by their registry: no module imports them by name, except the package that lists them."""
SMALL_ON_PURPOSE = {
    "app/db/write_queue.py": "a lock of its own, tested by itself",
    "app/datasets/reading/parser_preload.py": "imported by name by the forkserver",
    "app/worker/preload.py": "imported by name by the forkserver",
    "app/runtime/warm_up.py": "run as a module",
}


def modules(package: str) -> Iterator[Path]:
    return (path for path in (ROOT / package).rglob("*.py") if "__pycache__" not in path.parts)


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imported_by(path: Path) -> Iterator[str]:
    """The dotted names that a module imports: `from a import b` may be a module or a name of one."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{shown(path)} imports relatively"
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("package", MAX_TOP_FILES)
def test_few_files_lie_at_the_top(package: str) -> None:
    assert len(list((ROOT / package).glob("*.py"))) <= MAX_TOP_FILES[package]


@pytest.mark.parametrize("package", ["solvers", "app", "alembic", "benchmarks", "clients", "tests"])
def test_no_file_is_long(package: str) -> None:
    lengths = {shown(path): len(path.read_text().splitlines()) for path in modules(package)}
    assert {name: n for name, n in lengths.items() if n > LONG_ON_PURPOSE.get(name, MAX_LINES)} == {}


@pytest.mark.parametrize("package", MAX_TOP_FILES)
def test_no_basename_occurs_twice(package: str) -> None:
    stems = Counter(path.stem for path in modules(package) if path.stem not in {*FEATURE_FILES, "__init__"})
    assert [stem for stem, count in stems.items() if count > 1] == []


@pytest.mark.parametrize("package", MAX_TOP_FILES)
def test_a_small_file_has_several_callers(package: str) -> None:
    callers = defaultdict(set)
    for path in modules(package):
        for name in imported_by(path):
            callers[name].add(path)
    lonely = []
    for path in modules(package):
        name, dotted = shown(path), ".".join(path.relative_to(ROOT).with_suffix("").parts)
        is_exempt = name.startswith(PLUG_INS) or name in SMALL_ON_PURPOSE or path.stem in {*FEATURE_FILES, "__init__"}
        is_small = len(path.read_text().splitlines()) < SMALL
        if is_small and not is_exempt and not path.stem.endswith("_endpoints") and len(callers[dotted]) < 2:
            lonely.append(name)
    assert lonely == []


def test_routers_are_in_modules_called_endpoints() -> None:
    with_router = [path for path in modules("app") if re.search(r"\bAPIRouter\(", path.read_text())]
    assert with_router
    assert [shown(path) for path in with_router if not re.fullmatch(r"(\w+_)?endpoints", path.stem)] == []


def test_the_contract_of_the_worker_names_every_module_with_endpoints() -> None:
    """import-linter has no wildcard for a part of a name, so those that end in `_endpoints` are listed by hand."""
    named = set(re.findall(r"^    (app\.[\w.]+_endpoints)$", (ROOT / ".importlinter").read_text(), re.MULTILINE))
    there = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in modules("app")}
    assert named == {name for name in there if name.endswith("_endpoints")}


def test_the_state_of_the_application_is_the_context_alone() -> None:
    users = [shown(path) for path in modules("app") if re.search(r"\b_?app(lication)?\.state\b", path.read_text())]
    assert users == ["app/web/context.py"]


def test_tests_import_no_other_tests() -> None:
    imports = {(shown(path), name) for path in modules("tests") for name in imported_by(path)}
    assert {(path, name) for path, name in imports if ".test_" in name and name.startswith("tests.")} == set()
