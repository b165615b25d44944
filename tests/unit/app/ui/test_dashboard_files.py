"""The dashboard's files: vendored ones as they were published, small, with relative links and a strict policy."""

import gzip
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.main import create_app
from app.ui.assets import STATIC
from tests.support.builders import InProcess, checked_problem, migrated_database, temporary_settings

PUBLISHED = {
    # htm 3.1.1, preact/standalone.module.js (Preact and htm in one file)
    "vendor/preact-htm.module.js": "72284e8e9079c87817145df1110f74e8a2aa040b2fc384922e18dfcb46fc1fd7",
    # uPlot 1.6.32, dist/
    "vendor/uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "vendor/uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "vendor/LICENSE.htm.txt": "740725f7252e750af735d0028cc534970772f513331e9f68150fede8fb3ce00f",
    "vendor/LICENSE.preact.txt": "1fe6958409c8c257a70c587a18b6f7f412b179b456630790d30b2ec9a8e4b7d4",
    "vendor/LICENSE.uPlot.txt": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}
MAX_COMPRESSED_BYTES = 150_000
MAX_LINES = 400


def own_files() -> list[Path]:
    return [path for path in STATIC.rglob("*") if path.is_file() and "vendor" not in path.parts]


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    settings = temporary_settings(tmp_path_factory.mktemp("data"))
    with migrated_database(settings.resolved_database_url):
        yield InProcess(create_app(settings))


def test_vendored_files_are_the_published_ones() -> None:
    found = {
        path.relative_to(STATIC).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (STATIC / "vendor").iterdir()
    }
    assert found == PUBLISHED


def test_all_that_a_browser_loads_is_small() -> None:
    sizes = [len(gzip.compress(path.read_bytes(), 9)) for path in STATIC.rglob("*") if path.is_file()]
    assert sum(sizes) < MAX_COMPRESSED_BYTES


def test_own_files_are_short_and_name_no_other_machine() -> None:
    for path in own_files():
        text = path.read_text()
        assert len(text.splitlines()) <= MAX_LINES, path
        addresses = set(re.findall(r"https?://[\w.]+", text)) - {"http://www.w3.org", "https://example.org"}
        assert addresses == set(), path
        assert "innerHTML" not in text, path
        assert "eval(" not in text, path


def test_the_page_links_relatively_and_every_link_is_there(http: InProcess) -> None:
    page = http.get("/ui/").text
    links = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert len(links) >= 10
    assert [link for link in links if link.startswith(("/", "http"))] == []
    for link in links:
        if link != "../docs":
            answer = http.get(f"/ui/{link}")
            assert answer.status_code == 200, link
            assert "immutable" in answer.headers["cache-control"]


def test_the_policy_allows_no_inline_script_or_style(http: InProcess) -> None:
    answer = http.get("/ui/")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert re.findall(r"<script>|<style|\sstyle=|\son\w+=", answer.text) == []
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_browser_is_led_to_the_dashboard_and_others_to_the_documentation(http: InProcess) -> None:
    assert http.get("/", headers={"Accept": "text/html,*/*"}).headers["location"] == "ui/"
    assert http.get("/", headers={"Accept": "application/json"}).headers["location"] == "docs"
    assert http.get("/ui").headers["location"] == "ui/"


def test_files_are_compressed_and_not_sent_twice(http: InProcess) -> None:
    first = http.get("/ui/", headers={"Accept-Encoding": "gzip"})
    assert first.headers["content-encoding"] == "gzip"
    again = http.get("/ui/", headers={"If-None-Match": first.headers["etag"]})
    assert again.status_code == 304


@pytest.mark.parametrize("name", ["nothing.js", "%2e%2e/endpoints.py", "vendor", "screens/"])
def test_nothing_else_is_served(http: InProcess, name: str) -> None:
    checked_problem(http.get(f"/ui/x/{name}"), 404)


def test_a_stale_version_still_gets_the_files(http: InProcess) -> None:
    answer = http.get("/ui/000000000000/app.js")
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-cache"


def test_the_sample_is_a_table(http: InProcess) -> None:
    assert http.get("/ui/sample.csv").text.startswith("pulse01_re,")
