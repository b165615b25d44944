"""Clients that other programs generate from the OpenAPI document upload, train and predict.

`make generators` installs the programs. Where one is missing, its tests are skipped.
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import PROJECT_ROOT
from tests.support.serving import Service

pytestmark = pytest.mark.slow

Json = dict[str, Any]
PROGRAMS = PROJECT_ROOT / ".venv-generators"
SOURCES = PROJECT_ROOT / "tests" / "e2e" / "generated"
KNOWN_WARNINGS = (
    "OpenAPI 3.1 support is still in beta",
    "Failed to get the schema name: null",
    "Codegen property is null (e.g. map/dict of undefined type)",
    "Return (reserved word) cannot be used as model name",
)
"""Warnings of openapi-generator that need no change of the document: about version 3.1, values of any type, and a name
that is a keyword of Python."""


def program(path: str) -> str:
    """The path of an installed generator; skips the test where it is absent."""
    found = PROGRAMS / path
    if not found.exists():
        pytest.skip(f"{Path(path).name} is not installed: `make generators` does it")
    return str(found)


def run(*command: str | Path, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


@pytest.fixture
def document(sqlite_service: Service, tmp_path: Path) -> Path:
    path = tmp_path / "openapi.json"
    path.write_text(sqlite_service.http.get("/openapi.json").raise_for_status().text)
    return path


def test_openapi_python_client(document: Path, tmp_path: Path, sqlite_service: Service) -> None:
    generator = program("bin/openapi-python-client")
    config = PROJECT_ROOT / "clients" / "openapi-python-client.yaml"
    options = ("--path", document, "--config", config, "--meta", "none", "--fail-on-warning")
    printed = run(generator, "generate", *options, "--output-path", tmp_path / "hyperplane_api", folder=tmp_path)
    assert "warning" not in printed.lower()
    python = program("bin/python")
    found = json.loads(
        run(python, SOURCES / "session.py", sqlite_service.url, folder=tmp_path, PYTHONPATH=str(tmp_path))
    )
    assert found.pop("gap") <= 1e-3
    assert found == {
        "rows": 80,
        "result": "TrainResult",
        "metrics": "BinaryMetrics",
        "labels": ["good", "bad"],
        "certain": [True, True],
        "refused": ["Problem", 422, "dataset_id"],
    }


def test_openapi_typescript(document: Path, tmp_path: Path, sqlite_service: Service) -> None:
    generator, compiler = program("node_modules/.bin/openapi-typescript"), program("node_modules/.bin/tsc")
    printed = run(generator, document, "-o", tmp_path / "openapi.ts", "--default-non-nullable=false", folder=tmp_path)
    assert "warn" not in printed.lower()
    (tmp_path / "session.ts").write_text((SOURCES / "session.ts").read_text())
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "node_modules").symlink_to(PROGRAMS / "node_modules")
    strict = ("--strict", "--noUncheckedIndexedAccess", "--module", "nodenext", "--target", "es2022")
    run(compiler, *strict, "--types", "node", "session.ts", folder=tmp_path)
    found = json.loads(run("node", "session.js", sqlite_service.url, folder=tmp_path))
    assert found.pop("gap") <= 1e-3
    assert found == {
        "rows": 80,
        "labels": ["good", "bad"],
        "certain": [True, True],
        "refused": [422, "dataset_id"],
    }


def test_openapi_generator(document: Path, tmp_path: Path, require_command: Any) -> None:
    """The program of the OpenAPI Tools, in Java."""
    generator = program("bin/openapi-generator-cli")
    require_command("java")
    printed = run(generator, "generate", "-i", document, "-g", "python", "-o", tmp_path / "made", folder=tmp_path)
    assert (tmp_path / "made" / "openapi_client" / "models" / "train_result.py").exists()
    reports = [line for line in printed.splitlines() if re.search(r"\b(WARN|ERROR)\b", line)]
    assert [line for line in reports if not any(known in line for known in KNOWN_WARNINGS)] == []
