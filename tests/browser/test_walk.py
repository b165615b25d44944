"""The README's walk in the dashboard, on PostgreSQL: upload, look, train, watch, compare, promote, predict."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import train_versions
from tests.support.chromium import SAMPLE
from tests.support.postgres import fresh_database
from tests.support.serving import Service, running_service


@pytest.fixture(scope="module")
def service(postgres_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with (
        fresh_database(postgres_server) as url,
        running_service(tmp_path_factory.mktemp("walk"), url, workers=1) as service,
    ):
        train_versions(service)
        yield service


def test_from_a_file_to_a_certain_prediction(page: Any, service: Service) -> None:
    page.goto(f"{service.url}/ui/#/datasets")
    table = SAMPLE.read_bytes()
    other = table + table.splitlines(keepends=True)[-1]  # equal bytes would be the dataset that the service has already
    page.get_by_label("File to upload").set_input_files({"name": "walk.csv", "mimeType": "text/csv", "buffer": other})
    page.get_by_role("heading", name="walk", exact=True).wait_for()
    page.get_by_text("constant columns").wait_for()
    page.get_by_label("Role of pulse01_im").select_option("ignored")
    page.get_by_role("link", name="Train with them").click()

    page.get_by_text("The job is valid.").wait_for()
    page.get_by_label("Tol", exact=True).fill("0.000001")
    page.get_by_text("The job is valid.").wait_for()
    assert '"ignore":true' in page.locator("pre").inner_text().replace("\n", "")
    page.get_by_role("button", name="Start training").press("Enter")

    page.get_by_role("link", name="Open the model").wait_for(timeout=120_000)  # kernels may have to be compiled
    page.get_by_text("The optimum is inside the band").wait_for()
    page.get_by_role("button", name="Table").first.click()
    page.get_by_role("region", name="Data: The optimum is inside the band").get_by_text("relative_gap").wait_for()
    page.get_by_role("link", name="Open the model").click()
    page.get_by_role("heading", name=re.compile(r"walk:\d+")).wait_for()

    page.goto(f"{service.url}/ui/#/models?name=radar")
    page.get_by_label("Select radar:1").check()
    page.get_by_label("Select radar:2").check()
    page.get_by_role("link", name="Side by side").click()
    page.get_by_role("rowheader", name="relative gap").wait_for()

    page.goto(f"{service.url}/ui/#/models/radar:2?tab=aliases")
    page.get_by_label("Alias").fill("prod")
    page.get_by_role("button", name="Promote version 2").click()
    page.get_by_role("img", name="version 2: 100 %").wait_for()
    page.get_by_label("Canary", exact=True).select_option("1")
    page.get_by_label("Share of the canary").fill("25")
    page.get_by_role("button", name="Apply").click()
    page.get_by_role("img", name="version 2: 75 %, version 1: 25 %").wait_for()
    page.get_by_role("button", name="Roll back").click()
    page.get_by_role("img", name="version 2: 100 %").wait_for()

    page.goto(f"{service.url}/ui/#/try?model=radar:1")
    page.get_by_text("The exact optimum gives the same label.").wait_for()
    page.get_by_role("table", name="Contributions to the score").wait_for()
    before = page.locator(".try dd").nth(1).inner_text()
    page.get_by_label("pulse01_re").fill("-3")
    page.wait_for_function("text => document.querySelectorAll('.try dd')[1].innerText !== text", arg=before)
