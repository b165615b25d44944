"""The Chromium that tests, screenshots and measurements of the dashboard use, driven by Playwright.

It is the one of this machine. Where PATH has none, it is the headless one that `make browser` unpacks into `.browser`.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["MISSING", "SAMPLE", "SETTLED", "find_chromium", "launched"]

NAMES = ("chromium", "chromium-browser", "google-chrome")
PROJECT = Path(__file__).resolve().parents[2]
UNPACKED = PROJECT / ".browser"
"""Where `make browser` puts the program, its libraries (`lib`) and its font."""
SYSTEM_FONTS = Path("/etc/fonts/fonts.conf")
MISSING = f"no Chromium: PATH has none of {', '.join(NAMES)}, and `make browser` has installed none"
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
SAMPLE = PROJECT / "app" / "examples" / "ionosphere.csv"
SETTLED = "() => document.querySelector('h1') && !document.querySelector('.skeleton')"
"""JavaScript: the screen has its title, and nothing of it is still being loaded."""


def chromium_on_path() -> str | None:
    """The browser of this machine, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def find_chromium() -> str | None:
    """The path of the browser, or None if there is none."""
    is_unpacked = (UNPACKED / ".installed").exists()
    return chromium_on_path() or (str(UNPACKED / "chromium") if is_unpacked else None)


def _environment() -> dict[str, str]:
    """The environment of the browser. The unpacked one gets its libraries, a locale that names a language (of the
    locale C it makes a language that pages refuse), and its font if the machine has none."""
    if chromium_on_path():
        return dict(os.environ)
    fonts = {} if SYSTEM_FONTS.exists() else {"FONTCONFIG_FILE": str(UNPACKED / "fonts.conf")}
    return {**os.environ, "LD_LIBRARY_PATH": str(UNPACKED / "lib"), "LC_ALL": "en_US.UTF-8", **fonts}


@contextmanager
def launched() -> Iterator[Any]:
    """A running browser. Playwright keeps an event loop in this thread, so that asyncio.run fails meanwhile."""
    from playwright.sync_api import sync_playwright

    found = find_chromium()
    assert found is not None, MISSING
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=FLAGS, env=_environment())
        yield browser
        browser.close()


if __name__ == "__main__":  # `make browser` asks whether there is a browser
    sys.exit(chromium_on_path() is None)
