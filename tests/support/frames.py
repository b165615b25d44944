"""Frames of mixed columns for tests, from Python values (None is missing), and back to the raw values of a client."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from app.tabular.frame import Column, Frame, Kind, Strings

Table = Mapping[str, tuple[Kind, Sequence[Any]]]


def frame_of(table: Table) -> Frame:
    """As a reader stores it: levels sorted and numbered, texts beside the table, dates in seconds (given as such)."""
    n_rows = len(next(iter(table.values()))[1])
    X = np.full((n_rows, len(table)), np.nan)
    columns, texts = [], {}
    for j, (name, (kind, values)) in enumerate(table.items()):
        levels = None
        if kind == "categorical":
            words = sorted({value for value in values if value is not None})
            levels = Strings.of(words)
            values = [None if value is None else words.index(value) for value in values]
        elif kind == "text":
            texts[j] = Strings.of([value or "" for value in values])
            values = [None if value is None else len(value) for value in values]
        X[:, j] = [math.nan if value is None else float(value) for value in values]
        columns.append(Column(name, kind, levels))
    return Frame(X, columns, texts)


def raw_columns(table: Table) -> dict[str, list[Any]]:
    """The same rows as a client sends them: dates as ISO text, truth values as such."""
    write = {
        "date": lambda seconds: datetime.fromtimestamp(seconds, UTC).isoformat(),
        "boolean": bool,
    }
    return {
        name: [None if value is None else write.get(kind, lambda same: same)(value) for value in values]
        for name, (kind, values) in table.items()
    }
