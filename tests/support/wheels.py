"""The wheel of the checkout, built and unpacked."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def unpacked_wheel(folder: Path) -> tuple[list[str], Path]:
    """Build the wheel in `folder`; return the names in it and where it is unpacked. Skips without hatchling."""
    pytest.importorskip("hatchling", reason="hatchling, which builds the wheel, is not installed")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    built = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("*.whl")
    installed = folder / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
        return archive.namelist(), installed
