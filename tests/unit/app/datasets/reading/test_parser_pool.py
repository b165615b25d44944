"""The parser child: files become blobs, memory does not grow with them, and what it may not do it cannot."""

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from app.datasets.arrays import open_arrays
from app.datasets.formats import Format, ReadOptions
from app.datasets.reading.parser_pool import ParserPool, ReaderDied
from app.datasets.reading.sandbox import Limits
from app.db.tables import DatasetRow
from app.errors import AppError, Invalid, PayloadTooLarge
from app.storage import BlobStore
from app.storage.blobs import make_folders
from tests.support import children

pytestmark = pytest.mark.slow

MIB = 1 << 20
BOMB_SECONDS = 2.0
ROW = {"csv": b"0.123456789,12345.678,x\n", "libsvm": b"1 1:0.123456789 7:12345.678\n"}
ROW["ndjson"] = b'{"a": 0.123456789, "b": 12345.678, "y": "x"}\n'


def pool_with_store(folder: Path, **arguments: Any) -> ParserPool:
    make_folders(folder)
    return ParserPool(folder, **arguments)


@pytest.fixture(scope="module")
def parser_pool(tmp_path_factory: pytest.TempPathFactory) -> ParserPool:
    parser_pool = pool_with_store(tmp_path_factory.mktemp("store"), limits=Limits(memory_bytes=1 << 30, cpu_seconds=2))
    parser_pool.warm_up()
    return parser_pool


def test_a_file_becomes_blobs_that_map_back(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("a,b,g,w,y\n1,2,q,1,no\n3,4,p,2,yes\n5,6,q,0,no\n")
    parser_pool = pool_with_store(tmp_path)
    parsed = parser_pool.ingest(path, "csv", ReadOptions(group="g", weight="w"))
    assert list(parsed.arrays) == ["X", "weight", "group", "y"]
    blobs = BlobStore(tmp_path)
    assert {sha256: blobs.size(sha256) for sha256 in parsed.arrays.values()} == parsed.sizes
    assert list(blobs.staging.iterdir()) == []
    arrays = open_arrays(blobs, DatasetRow(arrays=parsed.arrays, **parsed.description))
    assert arrays.X.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert arrays.group is not None
    assert arrays.group.tolist() == [0, 1, 0]
    assert [arrays.label(value) for value in arrays.y] == ["no", "yes", "no"]
    chosen = arrays.rows(np.array([2, 1]))
    assert chosen.group is not None
    assert (chosen.group.tolist(), chosen.X.tolist()) == ([0, 1], [[5, 6], [3, 4]])


def test_a_table_of_words_becomes_a_frame_and_holds_few_files_open(tmp_path: Path) -> None:
    path, n_columns = tmp_path / "data.csv", 60
    names = ",".join(f"c{j}" for j in range(n_columns))
    lines = [",".join(f"w{(row * j) % 7}" for j in range(n_columns)) for row in range(30)]
    text = [f"some words of row number {row}" for row in range(30)]
    rows = [f"{line},{text},{row % 2}" for row, (line, text) in enumerate(zip(lines, text, strict=True))]
    path.write_text("\n".join([f"{names},text,y", *rows]))
    parsed = pool_with_store(tmp_path).ingest(path, "csv", ReadOptions())
    before = len(list(Path("/proc/self/fd").iterdir()))
    arrays = open_arrays(BlobStore(tmp_path), DatasetRow(arrays=parsed.arrays, **parsed.description))
    assert len(list(Path("/proc/self/fd").iterdir())) - before <= 6
    frame = arrays.frame
    assert [column.kind for column in frame.columns] == ["categorical"] * n_columns + ["text"]
    levels = frame.columns[3].levels
    assert levels is not None
    assert [levels[int(code)] for code in frame.X[:, 3]] == [f"w{row * 3 % 7}" for row in range(30)]
    chosen = arrays.rows(np.array([9, 2]))
    assert chosen.frame.texts[n_columns].to_list() == [text[9], text[2]]
    assert chosen.frame.texts[n_columns].bytes is frame.texts[n_columns].bytes
    assert chosen.X[:, 3].tolist() == frame.X[[9, 2], 3].tolist()


def test_too_many_columns_of_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    names = ",".join(f"c{j}" for j in range(101))
    cells = ",".join(["some words that make a text"] * 101)
    path.write_text(f"{names},y\n{cells},1\n{cells.upper()},2\n")
    with pytest.raises(Invalid, match="free text"):
        pool_with_store(tmp_path).ingest(path, "csv", ReadOptions())


def test_a_refused_file_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("a,y\n" + "1,x\n" * 100_000 + "inf,x\n")
    with pytest.raises(Invalid) as caught:
        pool_with_store(tmp_path).ingest(path, "csv", ReadOptions())
    assert [(item.line, item.column, item.code) for item in caught.value.errors] == [(100_002, 1, "not_finite")]
    blobs = BlobStore(tmp_path)
    assert [*blobs, *blobs.staging.iterdir()] == []


def write_large(path: Path, file_format: Format, n_bytes: int) -> None:
    if file_format in ROW:
        path.write_bytes(ROW[file_format] * (n_bytes // len(ROW[file_format])))
        return
    X = np.random.default_rng(0).random((n_bytes // 64, 8))
    if file_format == "npz":
        with path.open("wb") as file:
            np.savez(file, X=X, y=X[:, 0])
    else:
        pq.write_table(pa.table(dict(zip("abcdefgh", X.T, strict=True))), path, row_group_size=20_000)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system does not tell a process's peak memory")
@pytest.mark.parametrize("file_format", [*ROW, "npz", "parquet"])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, file_format: Format) -> None:
    parser_pool = pool_with_store(tmp_path)
    path = tmp_path / "data"
    growth = []
    for mebibytes in (12, 48):
        write_large(path, file_format, mebibytes * MIB)
        growth.append(parser_pool.run(children.peak_growth, tmp_path, path, file_format))
    assert growth[1] < growth[0] + 16 * MIB, f"{growth[0] >> 20} MiB for 12 MiB, {growth[1] >> 20} MiB for 48 MiB"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system does not tell a process's peak memory")
@pytest.mark.parametrize("file_format", ["csv", "parquet"])
def test_memory_does_not_grow_with_words_and_texts(tmp_path: Path, file_format: Format) -> None:
    parser_pool = pool_with_store(tmp_path)
    path = tmp_path / "data"
    growth = []
    for n_rows in (400_000, 800_000):  # with fewer the tables of levels and pyarrow's pools are still growing
        write_mixed(path, file_format, n_rows)
        growth.append(parser_pool.run(children.peak_growth, tmp_path, path, file_format, 10_000))
    size = path.stat().st_size
    assert growth[1] < growth[0] + 16 * MIB, f"{growth[0] >> 20} MiB, then {growth[1] >> 20} MiB for {size >> 20} MiB"


def write_mixed(path: Path, file_format: str, n_rows: int) -> None:
    """A table with missing numbers, levels, identifiers, dates and texts."""
    rows = np.arange(n_rows)
    columns = pa.table(
        {
            "number": pa.array(rows / 3, mask=rows % 7 == 0),
            "level": np.char.add("level", (rows % 100).astype(str)),
            "identifier": np.char.add("id", (rows * 7919).astype(str)),
            "date": (np.datetime64("2020-01-01") + rows % 900).astype(str),
            "text": np.char.add("some words that differ from those of all other rows, as of number ", rows.astype(str)),
            "y": rows % 2,
        }
    )
    if file_format == "parquet":
        pq.write_table(columns, path, row_group_size=20_000)
    else:
        pyarrow.csv.write_csv(columns, path)


def long_line() -> bytes:
    return b"1" * (80 * MIB)


def eight_tebibytes() -> bytes:
    header, archive = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (2**40, 1)})
    with zipfile.ZipFile(archive, "w") as members:
        members.writestr("X.npy", header.getvalue())
        members.writestr("y.npy", header.getvalue())
    return archive.getvalue()


@pytest.mark.parametrize(
    ("file_format", "content"),
    [("npz", eight_tebibytes), ("csv", long_line), ("tsv", long_line), ("libsvm", long_line), ("ndjson", long_line)],
)
def test_bombs_are_refused_soon(parser_pool: ParserPool, tmp_path: Path, file_format: Format, content: Any) -> None:
    path = tmp_path / "data"
    path.write_bytes(content())
    assert parser_pool.run(children.seconds_to_refuse, tmp_path, path, file_format) < BOMB_SECONDS


def test_a_function_runs_in_a_child(parser_pool: ParserPool) -> None:
    assert parser_pool.run(children.allocate, 100 * MIB) == 100 * MIB
    assert parser_pool.run(os.getpid) != os.getpid()


@pytest.mark.parametrize(
    ("function", "arguments", "expected"),
    [
        (children.allocate, (2 << 30,), PayloadTooLarge),
        (children.crash, (), Invalid),
        (children.never_end, (), Invalid),
        (children.kill_itself, (), ReaderDied),
        (children.raise_anything, (), AppError),
    ],
)
def test_a_child_that_fails_fails_alone(
    parser_pool: ParserPool, function: Any, arguments: tuple[Any, ...], expected: type[AppError]
) -> None:
    with pytest.raises(expected) as caught:
        parser_pool.run(function, *arguments)
    assert type(caught.value) is expected
    assert parser_pool.run(children.allocate, 1) == 1


def test_readers_come_back_when_their_forkserver_is_killed(tmp_path: Path) -> None:
    """In a process of its own: the forkserver is one for each process."""
    make_folders(tmp_path)
    code = f"""
import os, signal, threading, time
from multiprocessing.forkserver import _forkserver
from pathlib import Path
from app.datasets.reading.parser_pool import ParserPool, ReaderDied
pool = ParserPool(Path({str(tmp_path)!r}))
os.kill(_forkserver._forkserver_pid, signal.SIGKILL)
pool.warm_up()
assert pool.warm
os.kill(_forkserver._forkserver_pid, signal.SIGKILL)
deadline, deaths = time.monotonic() + 60, 0
while True:
    try:
        assert pool.run(os.getpid) != os.getpid()
        break
    except ReaderDied:
        deaths += 1
        assert time.monotonic() < deadline
print("read again after", deaths)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert "read again after" in ended.stdout, ended.stderr


def test_nothing_is_written_where_there_is_no_store(parser_pool: ParserPool, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("a,y\n1,no\n2,yes\n")
    away = tmp_path / "away"
    away.mkdir()
    with pytest.raises(FileNotFoundError):
        ParserPool(away).ingest(path, "csv", ReadOptions())
    assert list(away.iterdir()) == []
