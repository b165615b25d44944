"""The documentation page in a real browser, without the internet."""

import subprocess
from pathlib import Path

from tests.serving import running_service

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


def test_the_documentation_page_renders(tmp_path: Path, require_command) -> None:  # type: ignore[no-untyped-def]
    chromium = require_command("chromium")
    with running_service(tmp_path, workers=0) as service:
        page = subprocess.run(
            [
                chromium,
                *FLAGS,
                f"--user-data-dir={tmp_path / 'profile'}",
                "--virtual-time-budget=10000",
                "--dump-dom",
                f"{service.url}/docs",
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        ).stdout
    assert "Create Job" in page
    assert "Unable to render" not in page
