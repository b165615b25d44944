"""gzip and zstd around any format: the same table, within a ceiling; damaged streams and bombs are refused."""

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.datasets.formats import (
    ENCODINGS,
    Ceiling,
    Encoding,
    Format,
    InvalidFile,
    ReadOptions,
    TooLarge,
    read,
    read_into,
)
from app.datasets.formats.collect import MemorySink

TEXT = b"a,b,y\n" + b"".join(b"%d,%d,%s\n" % (k, k * k, b"ab"[k % 2 : k % 2 + 1]) for k in range(5_000))
compressed = pytest.mark.parametrize("encoding", [encoding for encoding in ENCODINGS if encoding != "identity"])


def compress(content: bytes, encoding: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, encoding) as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


@compressed
@pytest.mark.parametrize(("format", "text"), [("csv", TEXT), ("libsvm", b"1 1:2\n-1 3:4\n" * 100)])
def test_the_table_is_that_of_the_plain_file(tmp_path: Path, encoding: Encoding, format: Format, text: bytes) -> None:
    path = tmp_path / "data"
    path.write_bytes(text)
    plain = read(path, format, ReadOptions())
    path.write_bytes(compress(text, encoding))
    table = read(path, format, ReadOptions(encoding=encoding))
    assert table.arrays.keys() == plain.arrays.keys()
    assert all(table.arrays[name].tobytes() == array.tobytes() for name, array in plain.arrays.items())


def test_gzip_of_several_members(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(gzip.compress(TEXT[:1000]) + gzip.compress(TEXT[1000:]))
    assert read(path, "csv", ReadOptions(encoding="gzip")).n_rows == 5_000


@compressed
def test_damaged_streams_are_refused(tmp_path: Path, encoding: Encoding) -> None:
    path = tmp_path / "data"
    whole = compress(TEXT, encoding)
    for damaged in (b"", TEXT, whole[:-10], whole[: len(whole) // 2], whole + TEXT):
        path.write_bytes(damaged)
        with pytest.raises(InvalidFile) as caught:
            read(path, "csv", ReadOptions(encoding=encoding))
        assert caught.value.errors[0].code == ("empty_file" if damaged == b"" else "bad_compression")


def test_the_checksum_of_gzip_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "data"
    whole = bytearray(gzip.compress(TEXT))
    whole[-8] ^= 1
    path.write_bytes(whole)
    with pytest.raises(InvalidFile, match="valid gzip"):
        read(path, "csv", ReadOptions(encoding="gzip"))


@compressed
def test_bombs_are_refused_early_and_leave_nothing(tmp_path: Path, encoding: Encoding) -> None:
    path, scratch = tmp_path / "data", tmp_path / "scratch"
    scratch.mkdir()
    path.write_bytes(compress(bytes(100 << 20), encoding))
    with pytest.raises(TooLarge, match="100 times its size"):
        read_into(MemorySink(), path, "csv", ReadOptions(encoding=encoding), Ceiling(scratch=scratch))
    path.write_bytes(compress(TEXT, encoding))
    with pytest.raises(TooLarge, match="more than 10000 bytes"):
        read_into(MemorySink(), path, "csv", ReadOptions(encoding=encoding), Ceiling(10_000, scratch))
    assert list(scratch.iterdir()) == []


def thrift_number(value: int) -> bytes:
    """As a Parquet footer writes it: zigzag, seven bits a byte, the lowest first."""
    value, written = value << 1, b""
    while value > 127:
        written, value = written + bytes([value & 127 | 128]), value >> 7
    return written + bytes([value])


@pytest.mark.parametrize("claimed", [123_458, 10**12])
def test_a_parquet_footer_that_lies_about_its_rows_is_refused(tmp_path: Path, claimed: int) -> None:
    rows = 123_457
    path = tmp_path / "data"
    pq.write_table(pa.table({"a": np.arange(rows, dtype=float), "y": np.arange(rows) % 2}), path)
    raw = path.read_bytes()
    length = int.from_bytes(raw[-8:-4], "little")
    footer = raw[-8 - length : -8]
    assert thrift_number(rows) in footer
    forged = footer.replace(thrift_number(rows), thrift_number(claimed))
    path.write_bytes(raw[: -8 - length] + forged + len(forged).to_bytes(4, "little") + b"PAR1")
    with pytest.raises((InvalidFile, TooLarge)):
        read(path, "parquet", ReadOptions())
