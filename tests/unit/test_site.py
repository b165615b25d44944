"""The documentation builds as a site: no broken link, every page has a place, nothing is loaded from elsewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.documents import ROOT

LOADED = re.compile(
    r'<(?:script|img|iframe)[^>]*\ssrc="([^"]+)"|<link[^>]*rel="(?:stylesheet|preconnect)"[^>]*href="([^"]+)"'
)


@pytest.mark.slow
def test_the_site_builds_and_needs_no_other_server(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 60
    loaded = {found for page in pages for match in LOADED.findall(page.read_text()) for found in match if found}
    assert loaded
    assert {address for address in loaded if re.match(r"(https?:)?//", address)} == set()
