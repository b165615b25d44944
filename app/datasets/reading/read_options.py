"""The query parameters of an upload that control how its file is parsed."""

from typing import Annotated, Literal

from fastapi import Depends, Query
from pydantic import AfterValidator, Field

from app.datasets.formats import ReadOptions
from app.datasets.formats.table import DELIMITER, DELIMITERS
from app.names import Text

MOST_REPEATS = 10_000
"""Maximum number of values of a repeated query parameter. Larger: more work per request. Few requests reach it, because
URLs are at most 64 KiB long."""


def _check_delimiter(text: str) -> str:
    if not DELIMITER.fullmatch(text):
        raise ValueError(f"must be {DELIMITERS}")
    return text


Delimiter = Annotated[
    str, AfterValidator(_check_delimiter), Field(json_schema_extra={"pattern": f"^({DELIMITER.pattern})$"})
]


async def _read_options(
    target: Annotated[
        Text | None,
        Query(description="Label column: its name, or its number counted from 0. Default: the last column."),
    ] = None,
    weight: Annotated[
        Text | None, Query(description="Column of sample weights: its name, or its number counted from 0.")
    ] = None,
    group: Annotated[
        Text | None, Query(description="Column of groups (query ids): its name or number. In libsvm files, `qid:`.")
    ] = None,
    ignore: Annotated[
        list[Text], Query(max_length=MOST_REPEATS, description="Column to leave out. Repeat it for several columns.")
    ] = [],  # noqa: B006
    header: Annotated[
        Literal["auto", "true", "false"], Query(description="CSV, TSV: whether the first line is a header.")
    ] = "auto",
    delimiter: Annotated[
        Delimiter | None,
        Query(description="CSV: field delimiter, one ASCII character, or `tab`. Default: comma."),
    ] = None,
    missing: Annotated[
        list[Text],
        Query(
            max_length=MOST_REPEATS,
            description="CSV, TSV: text that means a missing value. Repeat it for several texts.",
        ),
    ] = [],  # noqa: B006
    index_base: Annotated[
        Literal["auto", "0", "1"], Query(description="libsvm: number of the first feature.")
    ] = "auto",
    n_features: Annotated[
        int | None, Query(ge=1, le=2**31 - 2, description="libsvm: number of features. Default: the largest index.")
    ] = None,
) -> ReadOptions:
    return ReadOptions(
        target=target,
        weight=weight,
        group=group,
        ignore=tuple(ignore),
        header=header,
        delimiter=delimiter,
        missing=tuple(missing),
        index_base=index_base,
        n_features=n_features,
    )


InReadOptions = Annotated[ReadOptions, Depends(_read_options)]
