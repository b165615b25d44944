"""Converts data to a file that the service reads: from paths, bytes, files, data frames, arrays and Arrow tables.

A library is imported only for its own objects, so none is a dependency. Objects are recognised by their methods, which
works with any version of their library.
"""

import io
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from hyperplane._shared.media_types import ARROW, CSV, NPZ, PARQUET, SUFFIXES, file_headers

__all__ = ["Payload", "arrow_of", "is_frame", "npz_of", "payload_of"]

MEMORY_BYTES = 64 << 20
"""Maximum bytes of a copied stream in memory; a longer stream is copied to a temporary file. Larger: more memory. Set
by hand; no measurement is recorded."""
MAGIC = {b"PAR1": PARQUET, b"PK\x03\x04": NPZ, b"\xff\xff\xff\xff": ARROW}


@dataclass
class Payload:
    """A file to upload: how to open it, its size, its headers, and the read options that it implies.

    It is opened again for each attempt to send it.
    """

    open: Callable[[], AbstractContextManager[BinaryIO]]
    size: int
    headers: dict[str, str]
    options: dict[str, Any] = field(default_factory=dict)


def payload_of(data: Any, content_type: str | None = None, **arrays: Any) -> Payload:
    """Make a file of the data. `content_type` is a media type or a short name such as `csv`.

    `arrays` are the `weight` and the `group` of each row, for a pair (X, y) of arrays.
    """
    if arrays and not (isinstance(data, tuple) and len(data) == 2 and not is_frame(data[0])):
        raise TypeError(f"{' and '.join(arrays)}: name a column; arrays go with a pair (X, y) of arrays only")
    headers = {"Content-Type": SUFFIXES.get(f".{content_type}", content_type)} if content_type else {}
    if isinstance(data, str | os.PathLike):
        file = Path(data)
        return Payload(lambda: file.open("rb"), file.stat().st_size, headers or file_headers(file.name))
    if isinstance(data, bytes | bytearray | memoryview):
        content = bytes(data)
        guessed = next((kind for magic, kind in MAGIC.items() if content.startswith(magic)), CSV)
        return _in_memory(content, headers or {"Content-Type": guessed})
    if hasattr(data, "read"):
        return _of_stream(data, headers)
    if isinstance(data, tuple) and len(data) == 2:
        return _of_pair(*data, **arrays)
    if table := frame_content(data):
        return _in_memory(table[0], {"Content-Type": table[1]}, {"header": "true"} if table[1] == CSV else {})
    kind = type(data).__name__
    raise TypeError(f"cannot upload {kind}; give a path, bytes, a file, a data frame, an Arrow table, or a pair (X, y)")


def is_frame(data: Any) -> bool:
    """Whether the data is a table of pandas, polars or Arrow (a record batch as well)."""
    return hasattr(data, "columns") and any(hasattr(data, name) for name in ("to_csv", "write_csv", "to_struct_array"))


def frame_content(frame: Any) -> tuple[bytes, str] | None:
    """Write a table as an Arrow stream, or as CSV without pyarrow. Returns (content, media type); None: not a table."""
    if not is_frame(frame):
        return None
    arrow = arrow_of(frame)
    if arrow is not None:
        return arrow, ARROW
    return frame.to_csv(index=False).encode(), CSV


def arrow_of(frame: Any) -> bytes | None:
    """Write a table as an Arrow stream; None: it is of pandas, and pyarrow is not installed."""
    file = io.BytesIO()
    if hasattr(frame, "write_ipc_stream"):  # polars
        frame.write_ipc_stream(file, compat_level=_oldest_level())
        return file.getvalue()
    try:
        import pyarrow as pa
    except ImportError:
        return None
    table = frame if _is_arrow(frame) else pa.Table.from_pandas(_named(frame), preserve_index=False)
    with pa.ipc.new_stream(file, table.schema) as writer:
        writer.write(table)
    return file.getvalue()


def _is_arrow(frame: Any) -> bool:
    return hasattr(frame, "to_struct_array")


def _named(frame: Any) -> Any:
    """Return the pandas frame with text column names, the only ones that Arrow supports."""
    return frame.rename(columns=str)


def _oldest_level() -> Any:
    """Return the compatibility level at which polars writes only types that every Arrow reader supports."""
    import polars

    return polars.CompatLevel.oldest()


def npz_of(X: Any, **arrays: Any) -> bytes:
    """Write a matrix and further arrays as npz: CSR members if the matrix is sparse, else `X`."""
    import numpy as np

    file = io.BytesIO()
    if hasattr(X, "tocsr"):
        matrix = X.tocsr()
        members = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": matrix.shape}
    else:
        members = {"X": np.asarray(X)}
    for name, values in arrays.items():
        array = np.asarray(values)
        members[name] = array.astype(str) if array.dtype == object else array
    np.savez(file, **members)
    return file.getvalue()


def _of_pair(X: Any, y: Any, **arrays: Any) -> Payload:
    """Make a file of rows and labels. A frame gets the labels as its last column."""
    if not is_frame(X):
        return _in_memory(npz_of(X, y=y, **arrays), {"Content-Type": NPZ})
    target = str(getattr(y, "name", None) or "target")
    if target in map(str, X.schema.names if _is_arrow(X) else X.columns):
        raise ValueError(f"X has a column {target!r} already; rename it, or upload one frame and name its target")
    if len(y) != len(X):
        raise ValueError(f"X has {len(X)} rows, but y has {len(y)} labels")
    if hasattr(X, "with_columns"):  # polars
        import polars

        joined = X.with_columns(polars.Series(target, y))
    elif _is_arrow(X):
        import pyarrow as pa

        column = y if isinstance(y, pa.Array | pa.ChunkedArray) else pa.array(y)
        joined = X.append_column(target, column)
    else:  # by position: the index of a Series need not be that of the frame
        joined = X.assign(**{target: getattr(y, "array", y)})
    payload = payload_of(joined)
    payload.options["target"] = target
    return payload


def _of_stream(stream: Any, headers: dict[str, str]) -> Payload:
    """Copy an open file from its current position, because a resumed upload reads parts of it again."""
    name = getattr(stream, "name", None)
    if not headers:
        headers = file_headers(name) if isinstance(name, str) else {"Content-Type": CSV}
    copy = tempfile.SpooledTemporaryFile(max_size=MEMORY_BYTES)  # noqa: SIM115  # closed when nothing refers to it
    if isinstance(stream, io.TextIOBase):
        copy.write(stream.read().encode())
    else:
        shutil.copyfileobj(stream, copy)
    size = copy.tell()

    def reopened() -> AbstractContextManager[Any]:
        copy.seek(0)
        return nullcontext(copy)

    return Payload(reopened, size, headers)


def _in_memory(content: bytes, headers: dict[str, str], options: dict[str, Any] | None = None) -> Payload:
    return Payload(lambda: io.BytesIO(content), len(content), headers, options or {})
