"""The query parameters of an upload that control how its file is parsed."""

from typing import Annotated, Literal

import msgspec
from fastapi import Depends, Query
from pydantic import AfterValidator, Field

from app.datasets.formats import ReadOptions
from app.datasets.formats.table import COLUMN_CHOICES, DELIMITER, DELIMITERS, Charset
from app.errors import invalid_field
from app.names import Text

MOST_REPEATS = 10_000
"""Maximum number of values of a repeated query parameter. Larger: more work per request. Few requests reach it, because
URLs are at most 64 KiB long."""


def _check_delimiter(text: str) -> str:
    if not DELIMITER.fullmatch(text):
        raise ValueError(f"must be {DELIMITERS}")
    return text


def _column_choices(given: list[str]) -> tuple[tuple[str, str], ...]:
    """Parse the parameter `columns`. Raises Invalid."""
    found: dict[str, str] = {}
    for text in given:
        if text.startswith("{"):
            try:
                pairs = msgspec.json.decode(text, type=dict[str, str])
            except (msgspec.DecodeError, RecursionError) as error:
                detail = f"must be name:choice, or a JSON object of names and choices ({error})"
                raise invalid_field("columns", "invalid_option", detail) from error
        else:
            name, colon, choice = text.rpartition(":")
            if not colon or not name:
                raise invalid_field("columns", "invalid_option", "must be name:choice, such as zip:categorical")
            pairs = {name: choice}
        for choice in pairs.values():
            if choice not in COLUMN_CHOICES:
                detail = f"the choice of a column must be one of {', '.join(COLUMN_CHOICES)}"
                raise invalid_field("columns", "invalid_option", detail)
        found |= pairs
    return tuple(sorted(found.items()))


Delimiter = Annotated[
    str, AfterValidator(_check_delimiter), Field(json_schema_extra={"pattern": f"^({DELIMITER.pattern})$"})
]


async def _read_options(
    target: Annotated[
        Text | None,
        Query(
            description="Label column: its name, or its number counted from 0. `none`: the file has no labels, for "
            "batch prediction. Default: a column named `label`, `target`, `class`, `outcome`, `y` or similar, else the "
            "last column, with the warning `target_guessed`."
        ),
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
        Query(
            description="CSV: field delimiter, one ASCII character, or `tab`. Default: comma, semicolon, tab or "
            "vertical bar, whichever splits the first lines evenly."
        ),
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
    encoding: Annotated[
        Charset | None,
        Query(
            description="CSV, TSV: character encoding. Default: UTF-8, UTF-16 if the bytes show it, and Windows-1252 "
            "for text that is not UTF-8, with the warning `encoding_guessed`."
        ),
    ] = None,
    decimal: Annotated[
        Literal[".", ","] | None,
        Query(description="Decimal sign of numbers in text. Default: recognised for each column."),
    ] = None,
    thousands: Annotated[
        Literal[",", ".", "space", "apostrophe", "none"] | None,
        Query(description="Separator of thousands of numbers in text. Default: recognised for each column."),
    ] = None,
    date_order: Annotated[
        Literal["ymd", "dmy", "mdy"] | None,
        Query(
            description="Order of day and month in dates such as 05/06/2024. `ymd`: such dates are words. Default: "
            "recognised for each column; `date_order_guessed` warns if no cell shows it."
        ),
    ] = None,
    columns: Annotated[
        list[Text],
        Query(
            max_length=MOST_REPEATS,
            description="Kind or role of a column, as `name:choice` or as a JSON object of such pairs. Choices: "
            "`numeric`, `boolean`, `date`, `categorical`, `text`; `feature` keeps a column that would be left out; "
            "`ignored`. Cells that do not have the kind are missing values. Repeat it for several columns.",
        ),
    ] = [],  # noqa: B006
    on_missing_target: Annotated[
        Literal["error", "drop"],
        Query(description="What to do with rows without a label: refuse the file, or leave the rows out."),
    ] = "error",
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
        charset=encoding,
        decimal=decimal,
        thousands=thousands,
        date_order=date_order,
        columns=_column_choices(columns),
        on_missing_target=on_missing_target,
    )


InReadOptions = Annotated[ReadOptions, Depends(_read_options)]
