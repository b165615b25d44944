"""A real Chromium for the dashboard. Where there is none, these tests are skipped with the reason."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.serving import Service, running_service

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SAMPLE = Path(__file__).resolve().parents[2] / "app" / "examples" / "ionosphere.csv"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The browser that PATH names, driven by Playwright.

    Not for the session: Playwright has an event loop in this thread, so that asyncio.run fails in other tests.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium on this machine")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service of its own with one dataset and two versions of a model: screens show all that is there."""
    with running_service(tmp_path_factory.mktemp("dashboard"), workers=1) as service:
        dataset = service.upload(SAMPLE.read_bytes(), name="radar")
        for C in (1.0, 0.01):
            job = service.submit(dataset["id"], model="radar", C=C, loss="squared_hinge", split={"test": 0.2})
            service.wait(job["id"], 120)
        yield service


@pytest.fixture
def page(browser: Any, service: Service) -> Iterator[Any]:
    """A page of its own, 1440 px wide. The console and the policy must stay silent to the end of the test."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, accept_downloads=True)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.set_default_timeout(20_000)
    yield page
    context.close()
    assert said == []
