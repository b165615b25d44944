"""A real Chromium for the dashboard. Where there is none, these tests are skipped with the reason."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.chromium import MISSING, SAMPLE, find_chromium, launched
from tests.support.serving import Service, running_service


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser, driven by Playwright.

    Not for the session: Playwright has an event loop in this thread, so that asyncio.run fails in other tests.
    """
    pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    if find_chromium() is None:
        pytest.skip(MISSING)
    with launched() as browser:
        yield browser


def train_versions(service: Service) -> None:
    """One dataset, two versions of a model, a search and a race: screens show all that is there."""
    dataset = service.upload(SAMPLE.read_bytes(), name="radar")
    for C in (1.0, 0.01):
        job = service.submit(dataset["id"], model="radar", C=C, loss="squared_hinge", split={"test": 0.2})
        service.wait(job["id"], 120)
    search = {"type": "tune", "model": "tuned", "loss": "hinge", "C": {"min": 0.01, "max": 1}, "tol": 1e-3}
    service.wait(service.submit(dataset["id"], **search, certify={"epsilon": 0.1})["id"], 120)
    race = {"type": "race", "model": "raced", "loss": "squared_hinge", "solvers": ["dcd", "newton"]}
    service.wait(service.submit(dataset["id"], **race)["id"], 120)


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service of its own, on SQLite."""
    with running_service(tmp_path_factory.mktemp("dashboard"), workers=1) as service:
        train_versions(service)
        yield service


@pytest.fixture
def said() -> list[str]:
    """What the console and the policy said. A test that provokes an error takes it out."""
    return []


@pytest.fixture
def page(browser: Any, service: Service, said: list[str]) -> Iterator[Any]:
    """A page of its own, 1440 px wide. The console and the policy must stay silent to the end of the test."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, accept_downloads=True)
    page = context.new_page()
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.set_default_timeout(20_000)
    yield page
    context.close()
    assert said == []
