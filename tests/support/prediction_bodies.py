"""The same rows as bodies of every format that predict reads."""

import io
import json
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from app.web.media_types import ARROW, CSV, JSON, LIBSVM, NDJSON, NPY, NPZ, TSV

NAMES = ["age", "height", "né", "a,b"]
ROWS = [[1.5, 0.0, -3.25, 2.0], [0.0, 0.0, 0.0, 0.0], [1e-3, 7.0, 1 / 3, -1e6], [-0.5, 1e9, 0.1, 0.0]]


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.asarray(array), allow_pickle=True)
    return stream.getvalue()


def npz(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def csr_members(rows: Any) -> dict[str, Any]:
    matrix = sp.csr_array(np.array(rows))
    return {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": np.array(matrix.shape)}


def saved_by_scipy(rows: Any) -> bytes:
    stream = io.BytesIO()
    sp.save_npz(stream, sp.csr_matrix(np.array(rows)))
    return stream.getvalue()


def arrow(columns: dict[str, Any], **options: Any) -> bytes:
    table, stream = pa.table(columns), io.BytesIO()
    with pa.ipc.new_stream(stream, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=3)
    return stream.getvalue()


def text(rows: Any, delimiter: str, header: bool = True) -> bytes:
    lines = [delimiter.join(f'"{name}"' for name in NAMES)] if header else []
    lines += [delimiter.join(map(repr, row)) for row in rows]
    return "\n".join(lines).encode()


def libsvm(rows: Any, label: str = "", base: int = 1) -> bytes:
    lines = [" ".join([label, *(f"{j + base}:{v!r}" for j, v in enumerate(row) if v)]).strip() or "0" for row in rows]
    return "\n".join(lines).encode()


def sparse(row: Any) -> dict[str, Any]:
    return {"indices": [j for j, v in enumerate(row) if v], "values": [v for v in row if v]}


COLUMNS = {name: np.array(ROWS)[:, j] for j, name in enumerate(NAMES)}
BODIES = {
    "json lists": (JSON, json.dumps({"instances": ROWS}).encode()),
    "json names": (JSON, json.dumps({"instances": [dict(zip(NAMES, row, strict=True)) for row in ROWS]}).encode()),
    "json sparse": (JSON, json.dumps({"instances": [sparse(row) for row in ROWS]}).encode()),
    "ndjson lists": (NDJSON, b"\n\n".join(json.dumps(row).encode() for row in ROWS)),
    "ndjson sparse": (NDJSON, b"\n".join(json.dumps(sparse(row)).encode() for row in ROWS)),
    "csv": (CSV, text(ROWS, ",")),
    "csv with a byte order mark, CRLF and blank lines": (
        CSV,
        b"\xef\xbb\xbf" + text(ROWS, ",").replace(b"\n", b"\r\n\r\n"),
    ),
    "csv without a header": (CSV, text(ROWS, ",", header=False)),
    "csv that says so": ("text/csv; header=absent", text(ROWS, ",", header=False)),
    "csv in another order": (
        CSV,
        b'n\xc3\xa9,age,"a,b",height\n' + "\n".join(f"{r[2]!r},{r[0]!r},{r[3]!r},{r[1]!r}" for r in ROWS).encode(),
    ),
    "tsv": (TSV, text(ROWS, "\t")),
    "libsvm": (LIBSVM, libsvm(ROWS)),
    "libsvm with labels": (LIBSVM, libsvm(ROWS, "-1").replace(b"\n", b"  # a remark\n\n") + b"\n"),
    "libsvm with queries": (LIBSVM, libsvm(ROWS, "2 qid:7")),
    "arrow": (ARROW, arrow(COLUMNS)),
    "arrow of several types": (ARROW, arrow({**COLUMNS, "height": [0, 0, 7, 1_000_000_000]})),
    "arrow of decimals": (ARROW, arrow({**COLUMNS, "height": [Decimal(0), Decimal(0), Decimal(7), Decimal(10**9)]})),
    "npy": (NPY, npy(ROWS)),
    "npy by columns": (NPY, npy(np.asfortranarray(ROWS))),
    "npy of the other byte order": (NPY, npy(np.array(ROWS, dtype=">f8"))),
    "npz": (NPZ, npz(X=np.array(ROWS))),
    "npz csr": (NPZ, npz(**csr_members(ROWS))),
    "npz by scipy": (NPZ, saved_by_scipy(ROWS)),
}
