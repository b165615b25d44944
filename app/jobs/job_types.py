"""The registry of job types: it collects what the modules of app/jobs/types declare, and builds the request schema.

A new job type is one new file there and one in app/worker/types.
"""

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from app.errors import UNION_TAG
from app.jobs import types
from app.jobs.response_schemas import JobFields
from app.jobs.result_schemas import JobResult
from app.jobs.schemas import JobOptions
from app.jobs.submission import Asked, JobType
from app.plugins import declared
from app.web.described import described_as


def _default_first(one: JobType[Any]) -> tuple[bool, str]:
    return not one.is_default, one.name


TYPES = {one.name: one for one in sorted(declared(types, JobType).values(), key=_default_first)}
_TYPE_OF_REQUEST = {one.request: one for one in TYPES.values()}


def type_of(request: Asked) -> JobType[Asked]:
    return _TYPE_OF_REQUEST[type(request)]


def has_interim_model(name: str) -> bool:
    """Whether jobs of the type have a model before they end. A stored job can have a type that no longer exists."""
    return name in TYPES and TYPES[name].has_interim_model


def _tag(value: Any) -> str:
    default = next(iter(TYPES))
    found = value.get("type", default) if isinstance(value, dict) else getattr(value, "type", default)
    return f"{UNION_TAG}{found}"


def _required_fields(result: type[JobResult]) -> int:
    return sum(one.is_required() for one in result.model_fields.values())


RESULTS = sorted((one.result for one in TYPES.values()), key=_required_fields, reverse=True)
"""Schemas of results, the most specific first: a generated client takes the first that fits."""

if TYPE_CHECKING:
    JobTypeName = str
    JobRequest = JobOptions
    JobResults = JobResult
else:
    JobTypeName = Literal[tuple(TYPES)]
    JobResults = reduce(or_, RESULTS)
    JobRequest = Annotated[
        reduce(or_, (Annotated[one.request, Tag(f"{UNION_TAG}{name}")] for name, one in TYPES.items())),
        Discriminator(
            _tag,
            custom_error_type="unknown_type",
            custom_error_message=f"type must be one of {', '.join(TYPES)}",
        ),
    ]


class Job(JobFields):
    """A job: what was asked for, its state, its progress and its result."""

    result: Annotated[dict[str, Any] | None, described_as(JobResults | None)] = Field(
        description="Result, by job type: "
        + ", ".join(f"`{one.result.__name__}` of `{name}`" for name, one in TYPES.items())
        + "; null until the job has succeeded."
    )
