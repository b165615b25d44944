"""The dashboard behind a reverse proxy: with a path prefix, and over a connection that breaks in mid-upload."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.chromium import SAMPLE
from tests.support.reverse_proxy import ReverseProxy
from tests.support.serving import Service, running_service

PREFIX = "/tools/hyperplane"
PART_BYTES = 4 << 20
"""Of the dashboard's uploads (app/ui/static/upload.js)."""
BROKEN = "Failed to load resource"
"""How the browser reports a connection that broke; the page recovers."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running_service(tmp_path_factory.mktemp("proxied"), workers=1, path_prefix=PREFIX) as service:
        yield service


@pytest.mark.parametrize("strips", [True, False])
def test_everything_works_below_a_prefix(page: Any, service: Service, strips: bool) -> None:
    with ReverseProxy(service.port, PREFIX, strips=strips) as proxy:
        page.goto(f"{proxy.url}/")
        page.wait_for_url(f"{proxy.url}/ui/**")
        page.goto(f"{proxy.url}/ui/#/datasets")
        table = SAMPLE.read_bytes() + SAMPLE.read_bytes().splitlines(keepends=True)[-1 - strips]
        file = {"name": f"prefixed-{strips}.csv", "mimeType": "text/csv", "buffer": table}
        page.get_by_label("File to upload").set_input_files(file)
        page.get_by_role("heading", name=f"prefixed-{strips}", exact=True).wait_for()
        page.get_by_role("link", name="Train", exact=True).click()
        page.get_by_text("The job is valid.").wait_for()
        with page.expect_request(lambda request: request.url.startswith(f"{proxy.url}/v1/jobs/job_")):
            page.get_by_role("button", name="Start training").click()
        page.get_by_role("link", name="Open the model").wait_for(
            timeout=120_000
        )  # the end came by the stream of events
        page.get_by_role("link", name="API docs").click()
        page.get_by_text("Upload, inspect, download and delete datasets.").wait_for()
    asked = {request.split(" ")[1] for request in proxy.requests}
    assert f"{PREFIX}/v1/events" in asked
    assert [path for path in asked if not path.startswith(PREFIX)] in ([], ["/favicon.ico"])


def rows(count: int) -> bytes:
    """A table of about `count` MiB with two classes."""
    line = b"0.123456789,0.987654321,0.555555555,%d\n"
    lines = [line % (number % 2) for number in range(count * (1 << 20) // len(line % 0))]
    return b"a,b,c,y\n" + b"".join(lines)


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "large.csv"
    path.write_bytes(rows(10))
    return path


def test_an_upload_goes_on_where_the_connection_broke(
    page: Any, service: Service, large: Path, said: list[str]
) -> None:
    content = large.read_bytes()
    with ReverseProxy(service.port, PREFIX) as proxy:
        page.goto(f"{proxy.url}/ui/#/datasets")
        proxy.cut_after(PART_BYTES + PART_BYTES // 2)  # in the middle of the second part
        page.get_by_label("File to upload").set_input_files(large)
        page.get_by_role("heading", name="large", exact=True).wait_for(timeout=60_000)
        assert proxy.cuts == 1
    assert page.url.rpartition("/")[2].startswith("ds_")
    dataset = service.get(f"/v1/datasets/{page.url.rpartition('/')[2]}")
    assert dataset["sha256"] == hashlib.sha256(content).hexdigest()
    assert proxy.body_bytes < len(content) + PART_BYTES, "it began again"
    assert sum(request.startswith(f"POST {PREFIX}/v1/uploads") for request in proxy.requests) == 1
    page.goto("about:blank")
    said[:] = [text for text in said if BROKEN not in text]
    service.http.delete(f"/v1/datasets/{dataset['id']}")


def test_an_upload_goes_on_after_the_page_was_closed(page: Any, service: Service, large: Path, said: list[str]) -> None:
    with ReverseProxy(service.port, PREFIX) as proxy:
        page.goto(f"{proxy.url}/ui/#/datasets")
        held = page.context.new_page()
        held.route(
            "**/v1/uploads/up_*", lambda route: route.abort() if proxy.body_bytes > PART_BYTES else route.continue_()
        )
        held.goto(f"{proxy.url}/ui/#/datasets")
        held.get_by_label("File to upload").set_input_files(large)
        held.wait_for_function("() => document.querySelector('[role=progressbar]')?.getAttribute('aria-valuenow') > 30")
        held.close()
        page.get_by_label("File to upload").set_input_files(large)
        page.get_by_role("heading", name="large", exact=True).wait_for(timeout=60_000)
    dataset = service.get(f"/v1/datasets/{page.url.rpartition('/')[2]}")
    assert dataset["sha256"] == hashlib.sha256(large.read_bytes()).hexdigest()
    assert sum(request.startswith(f"POST {PREFIX}/v1/uploads") for request in proxy.requests) == 1
    assert proxy.body_bytes < large.stat().st_size + PART_BYTES
    page.goto("about:blank")  # a page that still shows the dataset would ask for what is deleted now
    service.http.delete(f"/v1/datasets/{dataset['id']}")
