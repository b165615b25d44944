"""The documentation page of the API, without the internet."""

from typing import Any

from tests.support.serving import Service


def test_the_documentation_page_renders(page: Any, service: Service) -> None:
    page.goto(f"{service.url}/docs")
    page.get_by_text("Create Job").first.wait_for()
    assert "Unable to render" not in page.content()
