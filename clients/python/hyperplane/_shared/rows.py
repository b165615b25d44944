"""Rows of a predict request, and predictions in the shape in which the rows came."""

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hyperplane._shared.media_types import ARROW, CSV, JSON, NPY, NPZ
from hyperplane._shared.payloads import frame_content, is_frame, npz_of

__all__ = ["RowsBody", "predicted_frame", "rows_body"]


@dataclass
class RowsBody:
    """The body of a predict request and the format of the answer."""

    json: Any = None
    content: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)


def rows_body(rows: Any) -> RowsBody:
    """Build the body: lists as JSON, arrays as npy, sparse matrices as CSR, tables as Arrow (CSV without pyarrow).

    A Series and a dict are one row. Predictions for a table are returned as a table, so the response is requested as
    Arrow as well.
    """
    if isinstance(rows, Mapping) or (hasattr(rows, "to_frame") and hasattr(rows, "to_list")):
        return RowsBody(json={"instances": [_row_of(rows)]})
    if table := frame_content(rows):
        content, media_type = table
        if media_type == CSV:
            return RowsBody(content=content, headers={"Content-Type": f"{CSV}; header=present", "Accept": JSON})
        return RowsBody(content=content, headers={"Content-Type": ARROW, "Accept": ARROW})
    if hasattr(rows, "tocsr"):
        return RowsBody(content=npz_of(rows), headers={"Content-Type": NPZ})
    if hasattr(rows, "__array_interface__"):
        import numpy as np

        array = np.atleast_2d(rows)
        if array.dtype.kind not in "fiub":  # words or mixed values
            return RowsBody(json={"instances": [_row_of(row) for row in array.tolist()]})
        file = io.BytesIO()
        np.save(file, array, allow_pickle=False)
        return RowsBody(content=file.getvalue(), headers={"Content-Type": NPY})
    return RowsBody(json={"instances": [_row_of(row) for row in rows]})


def predicted_frame(rows: Any, content: bytes, media_type: str) -> Any:
    """Read the answer as a table of the library that the rows came from, with the index that they had."""
    if not is_frame(rows):
        raise TypeError("only tables come back as tables")
    if hasattr(rows, "write_ipc_stream"):
        import polars

        return polars.read_ipc_stream(content)
    if media_type == ARROW:
        import pyarrow as pa

        table = pa.ipc.open_stream(content).read_all()
        if hasattr(rows, "to_struct_array"):
            return table
        frame = table.to_pandas()
        frame.index = rows.index
        return frame
    import json

    import pandas as pd

    return pd.DataFrame(json.loads(content)["predictions"], index=rows.index)


def _row_of(row: Any) -> Any:
    """Convert a dict, a sequence or a Series to a row of JSON. A Series has the names of its index (pandas), if they
    are text."""
    if isinstance(row, Mapping):
        return {name: _plain(value) for name, value in row.items()}
    if isinstance(row, list | tuple):
        return [_plain(value) for value in row]
    if not hasattr(row, "to_list"):
        return row.tolist() if hasattr(row, "tolist") else row
    values = [_plain(value) for value in row.to_list()]
    names = list(getattr(row, "index", ()))
    return dict(zip(names, values, strict=True)) if names and all(isinstance(name, str) for name in names) else values


def _plain(value: Any) -> Any:
    """Convert a value to JSON: numpy's numbers and arrays to Python's, missing values to None, times to text."""
    if type(value) in (int, str, bool):
        return value
    value = value.tolist() if hasattr(value, "tolist") else value
    if hasattr(value, "isoformat"):
        return value.isoformat() if value == value else None  # NaT is not equal to itself
    try:
        return value if value == value else None  # NaN is not equal to itself
    except TypeError:  # pandas.NA
        return None
