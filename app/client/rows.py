"""Rows as Python programs have them, made into a body. Imports numpy only for those who use it already."""

import io
from typing import Any

from app.web.media_types import CSV, NPY, NPZ


def body_of(rows: Any) -> dict[str, Any]:
    """Arguments of a request: lists as JSON, arrays as they are, sparse matrices as CSR, data frames as CSV."""
    if hasattr(rows, "to_csv"):
        return _content(rows.to_csv(index=False).encode(), f"{CSV}; header=present")
    if hasattr(rows, "tocsr"):
        import numpy as np

        matrix, file = rows.tocsr(), io.BytesIO()
        np.savez(file, data=matrix.data, indices=matrix.indices, indptr=matrix.indptr, shape=matrix.shape)
        return _content(file.getvalue(), NPZ)
    if hasattr(rows, "__array_interface__"):
        import numpy as np

        file = io.BytesIO()
        np.save(file, rows, allow_pickle=False)
        return _content(file.getvalue(), NPY)
    return {"json": {"instances": rows}}


def _content(content: bytes, media_type: str) -> dict[str, Any]:
    return {"content": content, "headers": {"Content-Type": media_type}}
