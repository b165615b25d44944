"""Damaged binary files, each parsed in a child of its own: read, or refused with a sentence, and no internal error."""

import io
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.datasets.formats import Encoding, Format, ReadOptions
from app.datasets.reading.parser_pool import ParserPool
from app.datasets.reading.sandbox import Limits
from app.errors import Invalid, PayloadTooLarge
from app.storage.blobs import make_folders
from tests.support.builders import SOAK

N_CASES = 25 * SOAK
X = np.random.default_rng(0).random((50, 3))
Y = np.arange(50) % 2


def table() -> pa.Table:
    words = [None if row % 9 == 0 else f"wörd {row % 5}" for row in range(50)]
    return pa.table(
        {
            "a": X[:, 0],
            "b": pa.array(X[:, 1], mask=X[:, 1] < 0.1),
            "level": pa.array(words).dictionary_encode(),
            "text": [f"some words of row number {row}" for row in range(50)],
            "time": pa.array(np.arange(50) * 10**9, pa.timestamp("ns")),
            "y": Y.astype(str),
        }
    )


def parquet() -> bytes:
    file = io.BytesIO()
    pq.write_table(table(), file)
    return file.getvalue()


def arrow() -> bytes:
    file = io.BytesIO()
    with pa.ipc.new_stream(file, table().schema) as stream:
        stream.write_table(table())
    return file.getvalue()


def npz() -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, X=X, y=Y)
    return file.getvalue()


def text(encoding: str) -> bytes:
    cells = zip(X.tolist(), Y.tolist(), strict=True)
    lines = "".join(f"{a!r},{b!r},w{label},{label}\n" for (a, b, _), label in cells)
    return pa.Codec(encoding).compress(lines.encode()).to_pybytes()


def damage(rng: random.Random, whole: bytes) -> bytes:
    content = bytearray(whole)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(content) + 1)
        kind = rng.randrange(4)
        if kind == 0:
            content[at : at + 1] = bytes(byte ^ 1 << rng.randrange(8) for byte in content[at : at + 1])
        elif kind == 1:
            content[at : at + 4] = rng.choice([b"\0\0\0\0", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", rng.randbytes(4)])
        elif kind == 2:
            del content[at : at + rng.choice([1, 4, 64])]
        else:
            del content[at:]
    return bytes(content)


@pytest.mark.parametrize(
    ("format", "encoding", "write"),
    [
        ("parquet", "identity", parquet),
        ("arrow", "identity", arrow),
        ("npz", "identity", npz),
        ("csv", "gzip", lambda: text("gzip")),
        ("csv", "zstd", lambda: text("zstd")),
    ],
)
def test_damage_is_read_or_refused(
    tmp_path: Path, format: Format, encoding: Encoding, write: Callable[[], bytes]
) -> None:
    make_folders(tmp_path)
    parser_pool = ParserPool(tmp_path, limits=Limits(cpu_seconds=20))
    seed = random.randrange(2**32) if SOAK > 1 else 0
    rng = random.Random(seed)
    whole = write()
    refused = 0
    with tempfile.NamedTemporaryFile(dir=tmp_path) as file:
        for case in range(N_CASES):
            content = damage(rng, whole)
            file.seek(0)
            file.truncate()
            file.write(content)
            file.flush()
            try:
                parser_pool.ingest(Path(file.name), format, ReadOptions(encoding=encoding, header="auto"))
            except (Invalid, PayloadTooLarge):
                refused += 1
            except Exception as error:
                raise AssertionError(f"seed {seed}, case {case}: {content!r}") from error
    assert refused > N_CASES // 4
