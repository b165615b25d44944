"""The query parameters that say how a file is to be read; the same for every way to send one."""

from typing import Annotated, Literal

from fastapi import Depends, Query

from app.datasets.formats import ReadOptions
from app.names import Text

MOST_REPEATS = 10_000


async def _read_options(
    target: Annotated[Text | None, Query(description="label column, name or number; default last")] = None,
    weight: Annotated[Text | None, Query(description="column of sample weights")] = None,
    group: Annotated[Text | None, Query(description="column of groups (query ids); libsvm: `qid:`")] = None,
    ignore: Annotated[
        list[Text], Query(max_length=MOST_REPEATS, description="a column to leave out; may be repeated")
    ] = [],  # noqa: B006
    header: Annotated[Literal["auto", "true", "false"], Query(description="CSV, TSV: is there a header?")] = "auto",
    delimiter: Annotated[str | None, Query(max_length=1, description="CSV: default a comma")] = None,
    missing: Annotated[
        list[Text],
        Query(max_length=MOST_REPEATS, description="CSV, TSV: a text that means no value; may be repeated"),
    ] = [],  # noqa: B006
    index_base: Annotated[Literal["auto", "0", "1"], Query(description="libsvm: first index")] = "auto",
    n_features: Annotated[int | None, Query(ge=1, le=2**31 - 2, description="libsvm: width")] = None,
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
