"""The Chromium of this machine, driven by Playwright: for tests, screenshots and measurements of the dashboard."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["SAMPLE", "SETTLED", "find_chromium", "launched"]

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
SAMPLE = Path(__file__).resolve().parents[2] / "app" / "examples" / "ionosphere.csv"
SETTLED = "() => document.querySelector('h1') && !document.querySelector('.skeleton')"
"""JavaScript: the screen has its title, and nothing of it is still being loaded."""


def find_chromium() -> str | None:
    """The path of the browser, or None if PATH has none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def launched() -> Iterator[Any]:
    """A running browser. Playwright keeps an event loop in this thread, so that asyncio.run fails meanwhile."""
    from playwright.sync_api import sync_playwright

    found = find_chromium()
    assert found is not None, f"no Chromium on this machine: looked for {', '.join(NAMES)}"
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=FLAGS)
        yield browser
        browser.close()
