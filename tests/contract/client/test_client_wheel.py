"""The client's wheel in an environment of its own: small, quick to import, without the service."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LARGEST_BYTES = 20_000_000
"""Size of the client and all that it needs, without pip."""
IMPORT_SECONDS = 0.25
"""CPU time of `import hyperplane`, beyond that of Python itself."""
OLDER = {"exceptiongroup", "sniffio", "typing_extensions"}
"""What anyio needs on older versions of Python."""
VERSIONS = ("3.10", "3.11", "3.12", "3.13")
CPU_TIME = "import time; began = time.process_time(); import {module}; print(time.process_time() - began)"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling", reason="hatchling, which builds the wheel, is not installed")
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT / "clients" / "python", check=True, capture_output=True, timeout=120)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module", params=VERSIONS)
def environment(request: pytest.FixtureRequest, wheel: Path) -> Path:
    """An environment with nothing but the wheel and its dependencies, for each Python that the machine has."""
    folder = wheel.parent / request.param
    subprocess.run([interpreter(request.param), "-m", "venv", "--without-pip", str(folder)], check=True, timeout=60)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "--disable-pip-version-check"]
    done = subprocess.run([*pip, "install", str(wheel)], capture_output=True, text=True, timeout=180, check=False)
    if done.returncode != 0:
        pytest.skip("no package index answers")
    return folder


def interpreter(version: str) -> str:
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    found = shutil.which(f"python{version}")
    if found is None or subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode != 0:
        pytest.skip(f"Python {version} is not on this machine")
    return found


def run(environment: Path, *arguments: str, program: str = "python") -> str:
    command = [str(environment / "bin" / program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=environment, timeout=60).stdout


def test_it_is_small_and_needs_httpx_only(environment: Path) -> None:
    (site,) = environment.glob("lib/python*/site-packages")
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    assert size < LARGEST_BYTES
    found = {path.name.partition("-")[0] for path in site.glob("*.dist-info")}
    assert found <= {"hyperplane_client", "httpx", "httpcore", "h11", "anyio", "certifi", "idna"} | OLDER


def test_it_is_imported_quickly_and_without_the_service(environment: Path) -> None:
    run(environment, "-c", "import hyperplane")  # writes the bytecode
    seconds = min(float(run(environment, "-c", CPU_TIME.format(module="hyperplane"))) for _ in range(3))
    assert seconds < IMPORT_SECONDS
    missing = "import hyperplane, importlib.util as u; print([n for n in ('app', 'numba', 'numpy') if u.find_spec(n)])"
    assert run(environment, "-c", missing) == "[]\n"


def test_its_command_works_alone(environment: Path) -> None:
    assert run(environment, "--version", program="hyperplane-client").startswith("hyperplane-client 0.")
    assert "predict" in run(environment, "--help", program="hyperplane-client")
    rows = "from hyperplane._shared.rows import rows_body; print(rows_body([[1, 2]]).json)"
    assert run(environment, "-c", rows) == "{'instances': [[1, 2]]}\n"
