"""A prefix that a reverse proxy keeps is stripped before anything else looks at the path."""

from collections.abc import Iterator

import pytest
from pydantic import ValidationError

from app.config import Settings
from app.main import create_app
from tests.support.builders import InProcess, migrated_database, temporary_settings

PREFIX = "/tools/hyperplane"


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    settings = temporary_settings(tmp_path_factory.mktemp("data"), path_prefix=PREFIX)
    with migrated_database(settings.resolved_database_url):
        yield InProcess(create_app(settings))


@pytest.mark.parametrize("path", ["/ui/", "/v1/jobs", "/docs", "/openapi.json", "/v1/models/a%3A1"])
def test_addresses_answer_with_and_without_the_prefix(http: InProcess, path: str) -> None:
    plain, prefixed = http.get(path), http.get(PREFIX + path)
    assert plain.status_code == prefixed.status_code
    if plain.is_success:
        assert plain.content == prefixed.content


@pytest.mark.parametrize("path", ["/tools/hyperplanes/ui/", "/tools/ui/", f"{PREFIX}{PREFIX}/ui/"])
def test_other_prefixes_lead_nowhere(http: InProcess, path: str) -> None:
    assert http.get(path).status_code == 404


def test_the_documentation_links_relatively(http: InProcess) -> None:
    page = http.get("/docs").text
    assert "'openapi.json'" in page
    assert '"/docs/' not in page


@pytest.mark.parametrize("prefix", ["tools", "/tools/", "/", "/a b", "/a/../b?"])
def test_a_prefix_is_a_path(prefix: str) -> None:
    with pytest.raises(ValidationError):
        Settings(path_prefix=prefix)
