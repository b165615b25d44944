"""Everything that a user can set or read has a description: the API document, the settings and the solver options."""

from collections.abc import Iterator
from typing import Any

import pytest

import solvers
from app.config import Settings
from app.main import create_app
from tests.support.builders import migrated_database, temporary_settings

SENTENCE_ENDS = (".", ")")


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    settings = temporary_settings(tmp_path_factory.mktemp("data"))
    with migrated_database(settings.resolved_database_url):
        return create_app(settings).openapi()


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in (*document["paths"].items(), *document["webhooks"].items()):
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def undescribed(schema: Any, place: str) -> Iterator[str]:
    """Every property without a description, in schemas that are written out at any depth."""
    if isinstance(schema, list):
        for number, part in enumerate(schema):
            yield from undescribed(part, f"{place}[{number}]")
    elif isinstance(schema, dict):
        for name, inner in schema.items():
            if name == "properties":
                yield from (f"{place}.{key}" for key, one in inner.items() if not one.get("description"))
                for key, one in inner.items():
                    yield from undescribed(one, f"{place}.{key}")
            elif name not in ("examples", "default"):
                yield from undescribed(inner, f"{place}/{name}")


def test_every_property_is_described(document: dict[str, Any]) -> None:
    assert sum(len(schema.get("properties", ())) for schema in document["components"]["schemas"].values()) > 400
    assert list(undescribed(document, "")) == []


def test_every_schema_is_described(document: dict[str, Any]) -> None:
    generated = {"HTTPValidationError", "ValidationError"}
    schemas = document["components"]["schemas"]
    assert [name for name, one in schemas.items() if not one.get("description") and name not in generated] == []


def test_every_parameter_is_described(document: dict[str, Any]) -> None:
    found = [
        (route, parameter["name"])
        for route, operation in operations(document)
        for parameter in operation.get("parameters", ())
        if not parameter.get("description", "").endswith(SENTENCE_ENDS)
    ]
    assert found == []


def test_every_operation_response_and_header_is_described(document: dict[str, Any]) -> None:
    for route, operation in operations(document):
        assert operation["description"].endswith(SENTENCE_ENDS), route
        assert operation["summary"], route
        for status, response in operation["responses"].items():
            assert response["description"], (route, status)
            for name, header in response.get("headers", {}).items():
                assert header["description"], (route, name)


def test_every_tag_is_described_and_used(document: dict[str, Any]) -> None:
    described = {tag["name"]: tag["description"] for tag in document["tags"]}
    used = {tag for _, operation in operations(document) for tag in operation["tags"]}
    assert set(described) == used
    assert all(described.values())


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_is_described(name: str) -> None:
    assert (Settings.model_fields[name].description or "").endswith(SENTENCE_ENDS)


def test_every_solver_option_is_described() -> None:
    for name, info in solvers.available().items():
        assert info["notes"], name
        for option, facts in info["options"].items():
            assert facts.get("description"), (name, option)


@pytest.mark.parametrize("name", solvers.PARAMETERS)
def test_every_parameter_of_a_problem_is_described(name: str) -> None:
    assert solvers.PARAMETERS[name].description
