"""Describes a field of a response in the API document without checking its values.

Stored documents, such as the result of a job, are shown as they were written. A type that checked them would refuse
the documents of older versions.
"""

from typing import Any

from pydantic import GetPydanticSchema
from pydantic_core import core_schema

__all__ = ["described_as"]


def described_as(shape: Any) -> GetPydanticSchema:
    """Use the JSON Schema of `shape` for a field. Values are neither checked nor changed."""
    unchanged = core_schema.plain_serializer_function_ser_schema(lambda value: value)
    return GetPydanticSchema(
        lambda _source, handler: core_schema.no_info_wrap_validator_function(
            lambda value, _check: value, handler.generate_schema(shape), serialization=unchanged
        )
    )
