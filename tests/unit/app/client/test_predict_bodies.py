"""What the client sends for the rows that it is given."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from app.client import _body_of

ROW = {"a": 1.5, "b": -2.0}


class PolarsFrame:
    """As much of a polars DataFrame as the client uses: it has `write_csv` and no `to_csv`."""

    def write_csv(self) -> str:
        return "a,b\n1.5,-2.0\n"


class PolarsSeries:
    """As much of a polars Series: values without an index."""

    def to_frame(self) -> PolarsFrame:
        return PolarsFrame()

    def to_list(self) -> list[Any]:
        return [1.5, None]


@pytest.mark.parametrize("frame", [PolarsFrame(), pd.DataFrame([ROW])])
def test_a_frame_is_csv_with_a_header(frame: Any) -> None:
    sent = _body_of(frame)
    assert sent["content"] == b"a,b\n1.5,-2.0\n"
    assert sent["headers"]["Content-Type"] == "text/csv; header=present"


def test_a_series_is_one_row() -> None:
    assert _body_of(pd.DataFrame([ROW]).iloc[0]) == {"json": {"instances": [ROW]}}
    assert _body_of(pd.Series([1.5, np.nan])) == {"json": {"instances": [[1.5, None]]}}
    mixed = pd.Series([np.float64(1.5), "word", pd.NA, None], index=["a", "b", "c", "d"], dtype=object)
    assert _body_of(mixed) == {"json": {"instances": [{"a": 1.5, "b": "word", "c": None, "d": None}]}}
    assert _body_of(PolarsSeries()) == {"json": {"instances": [[1.5, None]]}}
