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
SMALLEST = {
    "openapi": "3.0.3",
    "info": {"title": "Smallest", "version": "1"},
    "paths": {"/a": {"get": {"operationId": "get_a", "responses": {"204": {"description": "Nothing."}}}}},
    "components": {"schemas": {"A": {"type": "object", "properties": {"a": {"type": "string"}}}}},
}
"""A document with one schema of one property. What openapi-generator reports about it (it cannot name a schema, in
every version from 7.17 to 7.26) is not about our document."""
KEYWORD = "Return (reserved word) cannot be used as model name"
"""The field and parameter `return` is a keyword of Python. The generated name differs; requests do not."""


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


def test_openapi_generator(tmp_path: Path, sqlite_service: Service, require_command: Any) -> None:
    """The program of the OpenAPI Tools, in Java. It warns of version 3.1, not of version 3.0."""
    generator = program("bin/openapi-generator-cli")
    require_command("java")
    smallest = tmp_path / "smallest.json"
    smallest.write_text(json.dumps(SMALLEST))
    older = tmp_path / "openapi-3.0.json"
    older.write_text(sqlite_service.http.get("/openapi-3.0.json").raise_for_status().text)

    def reports(source: Path, made: str) -> set[str]:
        printed = run(generator, "generate", "-i", source, "-g", "python", "-o", tmp_path / made, folder=tmp_path)
        lines = printed.splitlines()
        return {line for line in lines if re.search(r"\b(WARN|ERROR)\b", line) and KEYWORD not in line}

    assert reports(older, "made") - reports(smallest, "smallest") == set()
    assert (tmp_path / "made" / "openapi_client" / "models" / "train_result.py").exists()
