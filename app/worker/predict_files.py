"""Writes predictions to a file in blocks of rows: CSV, ndjson, Parquet or Arrow."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from app.models.file import Header
from app.predictions import response_formats
from app.predictions.outputs import SET
from app.predictions.response_formats import Column, plain
from app.storage.blobs import StagedBlob
from app.web.media_types import CSV, NDJSON


class BatchFile(Protocol):
    def append(self, columns: Mapping[str, Column]) -> None: ...

    def finish(self) -> None:
        """Write the end of the file."""


def batch_file(format: str, staged: StagedBlob, header: Header, outputs: Sequence[str]) -> BatchFile:
    """Open a file for these outputs of a model. Each record has the number of its row."""
    if format == "csv":
        return _CsvFile(staged, ("row", *outputs))
    if format == "ndjson":
        return _NdjsonFile(staged)
    schema = pa.schema([("row", pa.int64()), *((name, _arrow_type(name, header)) for name in outputs)])
    sink = pa.PythonFile(_Sink(staged), mode="w")
    writer = pq.ParquetWriter(sink, schema) if format == "parquet" else pa.ipc.new_stream(sink, schema)
    return _ArrowFile(writer, schema)


class _CsvFile:
    def __init__(self, staged: StagedBlob, names: Sequence[str]) -> None:
        """Write the header, even if no row follows."""
        self._staged = staged
        staged.write(",".join(names).encode() + b"\n")

    def append(self, columns: Mapping[str, Column]) -> None:
        self._staged.write(response_formats.encode(CSV, {}, columns).partition(b"\n")[2])

    def finish(self) -> None:
        pass


class _NdjsonFile:
    def __init__(self, staged: StagedBlob) -> None:
        self._staged = staged

    def append(self, columns: Mapping[str, Column]) -> None:
        self._staged.write(response_formats.encode(NDJSON, {}, columns))

    def finish(self) -> None:
        pass


class _ArrowFile:
    """A Parquet or Arrow file. Both need the types of the columns before the first row."""

    def __init__(self, writer: Any, schema: pa.Schema) -> None:
        self._writer, self._schema = writer, schema

    def append(self, columns: Mapping[str, Column]) -> None:
        arrays = []
        for field in self._schema:
            values = plain(columns[field.name])
            if field.type == pa.string():
                values = [str(value) for value in values]
            elif field.type == pa.list_(pa.string()):
                values = [[str(label) for label in labels] for labels in values]
            arrays.append(pa.array(values, field.type))
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))

    def finish(self) -> None:
        self._writer.close()


class _Sink:
    """Adapter: a staged blob as a file for pyarrow."""

    closed = False

    def __init__(self, staged: StagedBlob) -> None:
        self._staged = staged

    def write(self, chunk: Any) -> int:
        return self._staged.write(bytes(chunk))

    def tell(self) -> int:
        return self._staged.size

    def flush(self) -> None:
        pass

    def close(self) -> None:
        """Do nothing: the blob is closed when it is committed."""


def _arrow_type(output: str, header: Header) -> pa.DataType:
    if output == SET:
        ends = [("low", pa.float64()), ("high", pa.float64())]
        return pa.list_(_arrow_type("label", header)) if header.classes else pa.struct(ends)
    if output in ("label", "rank"):
        if any(isinstance(one, str) for one in header.classes):
            return pa.string()  # labels of different types are written as text
        return pa.int64() if header.classes and all(isinstance(one, int) for one in header.classes) else pa.float64()
    if output in ("scores", "probabilities"):
        return pa.list_(pa.float64())
    return pa.bool_() if output == "label_certain" else pa.float64()
