"""The documentation page in a real browser, without the internet."""

import subprocess
from pathlib import Path

from tests.support.serving import Service

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


def test_the_documentation_page_renders(  # type: ignore[no-untyped-def]
    sqlite_service: Service, tmp_path: Path, require_command
) -> None:
    page = subprocess.run(
        [
            require_command("chromium"),
            *FLAGS,
            f"--user-data-dir={tmp_path / 'profile'}",
            "--virtual-time-budget=10000",
            "--dump-dom",
            f"{sqlite_service.url}/docs",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    ).stdout
    assert "Create Job" in page
    assert "Unable to render" not in page
