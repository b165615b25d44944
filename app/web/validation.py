"""Checks that many routes share: unknown query parameters, labels, times, and the media type of the body."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, get_args, get_origin

from fastapi import Query, Request
from fastapi.routing import APIRoute
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetPydanticSchema,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError, core_schema

from app.errors import ErrorItem, Invalid, UnsupportedMediaType, invalid_field
from app.names import check_labels

LABELLED_PATHS = frozenset({"/v1/datasets", "/v1/uploads", "/v1/jobs"})


class Body(BaseModel):
    """Base class of request bodies. An unknown field is an error, so that a misspelt field is not silently ignored."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _numbers_are_no_truth_values(cls, value: Any, info: ValidationInfo) -> Any:
        """Raise for true and false where a number is expected. Python would treat them as 1 and 0."""
        assert info.field_name is not None
        if _holds_truth_value(value) and not _takes_truth_values(cls.model_fields[info.field_name].annotation):
            raise PydanticCustomError("not_a_number", "must be a number, not true or false")
        return value


def _holds_truth_value(value: Any) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
    return any(isinstance(part, bool) for part in parts)


def _takes_truth_values(annotation: Any) -> bool:
    """Return whether a field of this type accepts values other than numbers, texts and collections of them."""
    if isinstance(annotation, int | float | str):  # a value inside a Literal
        return isinstance(annotation, bool)
    if parts := get_args(annotation):
        return any(map(_takes_truth_values, parts[:1] if get_origin(annotation) is Annotated else parts))
    return annotation not in (int, float, str, type(None))


def one_of(names: Iterable[str]) -> GetPydanticSchema:
    """Restrict a text to the names of a registry, like a `Literal` whose values are known only at run time."""
    allowed = list(dict.fromkeys(names))
    return GetPydanticSchema(lambda _source, _handler: core_schema.literal_schema(allowed))


async def known_query_only(request: Request) -> None:
    """Raise Invalid for unknown query parameters, so that a misspelt parameter is not silently ignored.

    Routes with labels accept `label.<key>` with any key.
    """
    if not request.scope["query_string"]:
        return
    route = request.scope["route"]
    known = _query_names(route)
    labelled = route.path in LABELLED_PATHS
    unknown = [
        name[:64] for name in request.query_params if name not in known and not (labelled and name.startswith("label."))
    ]
    if unknown:
        items = [ErrorItem(field=name, code="unknown_parameter", detail="is not a parameter") for name in unknown]
        allowed = ", ".join(sorted(known)) or "none"
        raise Invalid(
            f"Unknown query parameter {unknown[0]!r}; this route takes: {allowed}.",
            code="unknown_parameter",
            errors=items,
        )


def _query_names(route: APIRoute) -> frozenset[str]:
    pending, names = [route.dependant], set(_described_names(route))
    while pending:
        dependant = pending.pop()
        names |= {field.alias for field in dependant.query_params}
        pending += dependant.dependencies
    return frozenset(names)


def _described_names(route: APIRoute) -> Iterator[str]:
    """Yield the query parameters that a route parses itself and declares only in its OpenAPI description."""
    for parameter in (route.openapi_extra or {}).get("parameters", ()):
        if parameter["in"] == "query":
            yield parameter["name"]


def label_parameters(request: Request) -> dict[str, str]:
    """Return the `label.<key>=<value>` pairs of the query. They are labels to attach, or filters of a list."""
    pairs = request.query_params.items()
    labels = {name.removeprefix("label."): value for name, value in pairs if name.startswith("label.")}
    try:
        return check_labels(labels)
    except ValueError as error:
        raise invalid_field("label", "invalid_label", str(error)) from error


def _in_utc(moment: datetime | None) -> datetime | None:
    try:
        if moment is None or moment.tzinfo is None:
            return moment if moment is None else moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("must be a time in the years 1 to 9999 (UTC)") from None


def _written_as_date(value: Any) -> Any:
    """Raise for plain numbers, which pydantic would read as seconds since 1970."""
    if isinstance(value, str) and "-" not in value[1:]:
        raise PydanticCustomError("not_a_date", "must be a date as in RFC 3339, for example 2030-01-31T12:00:00Z")
    return value


CreatedAfter = Annotated[
    datetime | None,
    BeforeValidator(_written_as_date),
    AfterValidator(_in_utc),
    Query(description="Only items created after this time (RFC 3339; without a zone: UTC)."),
]


async def json_only(request: Request) -> None:
    """Raise UnsupportedMediaType for a body that is not JSON, before it is parsed."""
    if request.method not in ("POST", "PUT", "PATCH"):
        return
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    has_body = request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers
    if media_type != "application/json" and (has_body or media_type):
        raise UnsupportedMediaType("This route accepts only JSON; send Content-Type: application/json.")


async def no_body(request: Request) -> None:
    """Raise Invalid for a body on a route without a body, so that a client does not believe that its options have an
    effect."""
    if (await request.body()).strip() not in (b"", b"{}"):
        raise Invalid("body: this route takes no body; send none or {}", code="unexpected_body")
