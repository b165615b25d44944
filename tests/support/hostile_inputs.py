"""Predict bodies and uploaded files of a given size, made to be slow or large to read; for tests and benchmarks."""

import io
import json
import random
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from app.datasets.formats import ReadOptions
from app.predictions import mlflow_invocations
from app.predictions.model_cache import ServedModel
from app.predictions.open_inference import service as open_inference
from app.predictions.service import predict_with
from app.preprocess.fit import fit
from app.preprocess.pipeline_document import to_document
from app.preprocess.spec import Preprocess
from app.tabular.frame import Column, Frame, Kind, Strings
from app.web.media_types import ARROW, CSV, JSON, LIBSVM, NDJSON, NPY, NPZ
from tests.support.builders import served_model
from tests.support.prediction_bodies import arrow, npy, npz

Make = Callable[[int], bytes]
NAMES = ["number", "category", "text", "other"]
TENSORS = "tensors"
"""The body of `/v2/models/{name}/infer`, in place of a media type."""
INVOCATIONS = "invocations"
"""The JSON body of `/v1/models/{ref}/invocations`, in place of a media type."""


@dataclass(frozen=True)
class Body:
    """A kind of predict body: `make` takes the size in bytes and gives a body of about this size."""

    content_type: str
    model: Literal["plain", "named", "prepared"]
    make: Make


@dataclass(frozen=True)
class File:
    """A kind of uploaded file: `make` takes the size in bytes and gives a file of about this size."""

    format: str
    make: Make
    options: ReadOptions = field(default_factory=ReadOptions)


def hostile_models(folder: Path) -> dict[str, ServedModel]:
    """Models of four columns: numbers without names, numbers with names, and one with preprocessing."""
    folders = [folder / name for name in ("plain", "named", "prepared")]
    for one in folders:
        one.mkdir()
    X = np.array([[1.0, 0.0, 5.0, 3.0], [np.nan, 1.0, 7.0, 2.0], [3.0, 0.0, 0.0, 9.0]])
    kinds: list[Kind] = ["numeric", "categorical", "text", "numeric"]
    levels = {1: Strings.of(["a", "b"])}
    columns = [Column(name, kind, levels.get(j)) for j, (name, kind) in enumerate(zip(NAMES, kinds, strict=True))]
    frame = Frame(X, columns, {2: Strings.of(["alpha", "beta gamma", ""])})
    pipeline = fit(Preprocess.model_validate({"missing": "indicator", "text": {"min_df": 1}}), frame).pipeline
    document, arrays = to_document(pipeline)
    return {
        "plain": served_model(folders[0], [1.0] * 4),
        "named": served_model(folders[1], [1.0] * 4, feature_names=NAMES),
        "prepared": served_model(folders[2], np.ones(pipeline.n_features), preprocess=document, arrays=arrays),
    }


def answer(model: ServedModel, content_type: str, body: bytes) -> Any:
    """What the route for such bodies answers. Raises AppError."""
    if content_type == TENSORS:
        return open_inference.infer_with(model, body, None)
    if content_type == INVOCATIONS:
        return mlflow_invocations.invoke_with(model, body, JSON)
    return predict_with(model, body, content_type, None)


def filled(before: bytes, unit: bytes, after: bytes = b"") -> Make:
    """`unit` as often as the size has room for, between two fixed parts."""
    return lambda size: before + unit * (size // len(unit)) + after


def numbered(before: str, unit: str, after: str = "") -> Make:
    """`unit` with 0, 1, 2, … in place of its `#`, between two fixed parts."""

    def make(size: int) -> bytes:
        count = size // (len(unit) + len(str(size)) - 2)
        return (before + "".join(unit.replace("#", str(k)) for k in range(count)) + after).encode()

    return make


def shuffled_indices(before: bytes) -> Make:
    def make(size: int) -> bytes:
        indices = list(range(1, size // 9))
        random.Random(0).shuffle(indices)
        return before + b" ".join(b"%d:1" % index for index in indices) + b"\n"

    return make


def null_columns(size: int) -> bytes:
    return _stream([pa.nulls(2)] * (size // 250), [f"c{k}" for k in range(size // 250)])


def repeated_columns(size: int) -> bytes:
    names = [f"c{k}" for k in range(size // 250)]
    return _stream([pa.nulls(2)] * len(names), [*names[:-1], names[-2]])


def long_dictionary(size: int) -> bytes:
    words = pa.DictionaryArray.from_arrays(pa.array(np.zeros(10, dtype=np.int8)), pa.array(["ab " * (size // 3)]))
    return arrow({"text": words})


def dictionary_labels(size: int) -> bytes:
    labels = pa.DictionaryArray.from_arrays(
        pa.array(np.arange(64, dtype=np.int8) % 2), pa.array(["a" * (size // 2), "b" * (size // 2)])
    )
    return arrow({"x": np.arange(64.0), "y": labels})


def parquet_columns(size: int) -> bytes:
    table = pa.table({f"c{k}": [1.0, 2.0] for k in range(size // 300)})
    stream = io.BytesIO()
    pq.write_table(table, stream)
    return stream.getvalue()


def parquet_digits(size: int) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table({"x": ["1" * size + "x", "2"], "y": [0, 1]}), stream, compression="none")
    return stream.getvalue()


def many_members(size: int) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for number in range(size // 250):
            archive.writestr(f"a{number}.npy", npy(np.zeros(1)))
    return stream.getvalue()


def long_labels(size: int) -> bytes:
    return npz(X=np.zeros((2, 2)), y=np.array(["1" * (size // 8) + "x", "2"]))


def header_of_digits(size: int) -> bytes:
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (" + b"1" * size + b", 4)}\n"
    return b"\x93NUMPY\x02\x00" + len(header).to_bytes(4, "little") + header


def many_dimensions(size: int) -> bytes:
    shape = [10**17 + 1] * (size // 20)
    return json.dumps({"inputs": [{"name": "X", "datatype": "FP64", "shape": shape, "data": []}]}).encode()


def wide_lines(size: int) -> bytes:
    """ndjson whose first line has many keys, and whose other lines have the label only."""
    keys = size // 24
    return b'{%s"y":1}\n' % b"".join(b'"k%d":1,' % k for k in range(keys)) + b'{"y":0}\n' * (size // 16)


def packed(X: Any) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, X=X)
    return stream.getvalue()


def _repeated(text: str, n_rows: int) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(n_rows, dtype=np.int8)), pa.array([text]))


def one_batch(columns: dict[str, Any]) -> bytes:
    """An Arrow stream of one batch."""
    return _stream(list(columns.values()), list(columns))


def _stream(arrays: list[Any], names: list[str]) -> bytes:
    stream = io.BytesIO()
    batch = pa.RecordBatch.from_arrays(arrays, names)
    with pa.ipc.new_stream(stream, batch.schema) as writer:
        writer.write_batch(batch)
    return stream.getvalue()


HEADER = ",".join(NAMES)
IGNORED = [f"z{k}" for k in range(1000)]
BODIES: dict[str, Body] = {
    "libsvm, digits of a value": Body(LIBSVM, "plain", filled(b"1 1:", b"1", b"x")),
    "libsvm, digits of an exponent": Body(LIBSVM, "plain", filled(b"1 1:1e", b"1", b"x")),
    "libsvm, digits of an index": Body(LIBSVM, "plain", filled(b"1 ", b"1", b":1")),
    "libsvm, blanks at the start": Body(LIBSVM, "plain", filled(b"", b" ", b"x:y")),
    "libsvm, blanks between values": Body(LIBSVM, "plain", filled(b"1 1:1", b" ", b"2:1")),
    "libsvm, blanks before a fault": Body(LIBSVM, "plain", filled(b"1 1:1", b" ", b"x:y")),
    "libsvm, blanks before a query": Body(LIBSVM, "plain", filled(b"1", b" ", b"qid:1x")),
    "libsvm, a label of letters": Body(LIBSVM, "plain", filled(b"", b"a", b":1")),
    "libsvm, indices in disorder": Body(LIBSVM, "plain", shuffled_indices(b"1 ")),
    "libsvm, short lines": Body(LIBSVM, "plain", filled(b"", b"1\n")),
    "CSV, digits without a header": Body(CSV, "plain", filled(b"", b"1", b"x,2,3,4\n")),
    "CSV, digits in a column of numbers": Body(CSV, "prepared", filled(f"{HEADER}\n".encode(), b"1", b"x,a,b,1\n")),
    "CSV, many names, two of them equal": Body(CSV, "named", numbered("number,", "c#,", "x,x\n1\n")),
    "CSV, many unknown names": Body(CSV, "prepared", numbered("number,", "c#,", "x\n1\n")),
    "CSV, quotes": Body(CSV, "named", filled(f"{HEADER}\n".encode(), b'"')),
    "CSV, quoted cells": Body(CSV, "named", filled(f"{HEADER}\n".encode(), b'"",')),
    "CSV, lines of another width": Body(CSV, "named", filled(f"{HEADER}\n".encode(), b"1\n")),
    "CSV, blank lines": Body(CSV, "named", filled(f"{HEADER}\n".encode(), b"\n", b"1,2,x,4\n")),
    "JSON, digits in a string": Body(JSON, "prepared", filled(b'{"instances":[{"number":"', b"1", b'x"}]}')),
    "JSON, digits in a string of a list": Body(JSON, "prepared", filled(b'{"instances":[["', b"1", b'x",1,1,1]]}')),
    "JSON, digits of a number": Body(JSON, "plain", filled(b'{"instances":[[0.', b"1", b",1,1,1]]}")),
    "JSON, digits of an integer": Body(JSON, "prepared", filled(b'{"instances":[[', b"1", b",1,1,1]]}")),
    "JSON, another name in each row": Body(JSON, "prepared", numbered('{"instances":[', '{"c#":1},', "{}]}")),
    "JSON, many names in a row": Body(JSON, "prepared", numbered('{"instances":[{', '"c#":1,', '"number":1}]}')),
    "JSON, rows without values": Body(JSON, "prepared", filled(b'{"instances":[', b"{},", b"{}]}")),
    "JSON, lists in lists": Body(JSON, "plain", filled(b'{"instances":[', b"[")),
    "JSON, one wide row": Body(JSON, "plain", filled(b'{"instances":[[', b"0,", b"0]]}")),
    "JSON, blanks": Body(JSON, "plain", filled(b"", b" ", b"x")),
    "JSON, a long text": Body(JSON, "prepared", filled(b'{"instances":[{"text":"', b"alpha ", b'"}]}')),
    "ndjson, digits in a string": Body(NDJSON, "prepared", filled(b'{"number":"', b"1", b'x"}')),
    "ndjson, another name in each row": Body(NDJSON, "prepared", numbered("", '{"c#":1}\n')),
    "ndjson, blank lines": Body(NDJSON, "plain", filled(b"[1,2,3,4]\n", b"\n", b"[1,2,3]")),
    "Arrow, columns of nulls": Body(ARROW, "prepared", null_columns),
    "Arrow, many names, two of them equal": Body(ARROW, "named", repeated_columns),
    "Arrow, a dictionary of one long text": Body(ARROW, "prepared", long_dictionary),
    "npy, digits in the header": Body(NPY, "plain", header_of_digits),
    "npz, many arrays": Body(NPZ, "plain", many_members),
    "invocations, another name in each record": Body(
        INVOCATIONS, "prepared", numbered('{"dataframe_records":[', '{"c#":1},', "{}]}")
    ),
    "invocations, many columns, two of them equal": Body(
        INVOCATIONS, "named", numbered('{"dataframe_split":{"data":[[1]],"columns":[', '"c#",', '"x","x"]}}')
    ),
    "tensors, many dimensions": Body(TENSORS, "plain", many_dimensions),
}
FILES: dict[str, File] = {
    "CSV, digits": File("csv", filled(b"x,y\n", b"1", b"x,1\n2,0\n")),
    "CSV, digits in many cells": File("csv", filled(b"x,y\n", b"1" * 500 + b"x,1\n")),
    "CSV, digits of a label": File("csv", filled(b"x,y\n1,", b"1", b"x\n2,0\n")),
    "CSV, blanks": File("csv", filled(b"x,y\n", b" ", b"x,1\n2,0\n")),
    "CSV, many names, two of them equal": File("csv", numbered("y,", "c#,", "x,x\n1\n")),
    "CSV, many columns, many ignored": File(
        "csv", numbered("y,", "c#,", ",".join(IGNORED) + "\n1\n"), ReadOptions(target="y", ignore=tuple(IGNORED))
    ),
    "CSV, quotes": File("csv", filled(b"x,y\n", b'"')),
    "CSV, quoted line ends": File("csv", filled(b'x,y\n"', b"\n", b'",1\n2,0\n')),
    "CSV, lines of another width": File("csv", filled(b"x,y\n", b"1\n")),
    "libsvm, digits of a value": File("libsvm", filled(b"1 1:", b"1", b"x\n0 1:1\n")),
    "libsvm, digits that need rounding": File("libsvm", filled(b"1 1:0.5", b"0", b"1\n0 1:1\n")),
    "libsvm, blanks": File("libsvm", filled(b"1 1:1", b" ", b"x\n")),
    "libsvm, indices in disorder": File("libsvm", shuffled_indices(b"1 ")),
    "ndjson, digits of a number": File("ndjson", filled(b'{"x":0.', b"1", b',"y":1}\n{"x":1,"y":0}\n')),
    "ndjson, digits of an integer": File("ndjson", filled(b'{"x":', b"1", b',"y":1}\n{"x":1,"y":0}\n')),
    "ndjson, digits in a string": File("ndjson", filled(b'{"x":"', b"1", b'x","y":1}\n{"x":"1","y":0}\n')),
    "ndjson, another name in each row": File("ndjson", numbered('{"x":1,"y":1}\n', '{"c#":1}\n')),
    "ndjson, another name in each row, one ignored": File(
        "ndjson", numbered('{"x":1,"z":1,"y":1}\n', '{"c#":1}\n'), ReadOptions(ignore=("z",))
    ),
    "ndjson, many names": File("ndjson", numbered("{", '"c#":1,', '"y":1}\n')),
    "ndjson, lines without most keys": File("ndjson", wide_lines),
    "ndjson, lists in lists": File("ndjson", filled(b'{"y":1,"x":', b"[")),
    "Parquet, many columns": File("parquet", parquet_columns),
    "Parquet, digits in a string": File("parquet", parquet_digits),
    "Arrow, many names, two of them equal": File("arrow", repeated_columns),
    "Arrow, columns of nulls": File("arrow", null_columns),
    "Arrow, long labels in a dictionary": File("arrow", dictionary_labels, ReadOptions(target="y")),
    "npz, many arrays": File("npz", many_members),
    "npz, long labels": File("npz", long_labels),
}
BODY_LIMIT = 64 << 20
EXPANDING: dict[str, tuple[str, str, Callable[[], bytes]]] = {
    "npz, 1,000,000 x 256 zeros of one byte": (NPZ, "plain", lambda: packed(np.zeros((1_000_000, 256), np.uint8))),
    "npz, 1,000,000 x 4 zeros of one byte": (NPZ, "plain", lambda: packed(np.zeros((1_000_000, 4), np.uint8))),
    "npy, 1,000,000 x 60 zeros of one byte": (NPY, "plain", lambda: npy(np.zeros((1_000_000, 60), np.uint8))),
    "Arrow, one text of 100 KB in 20,000 rows": (
        ARROW,
        "prepared",
        lambda: one_batch({"text": _repeated("ab " * 33_000, 20_000)}),
    ),
    "Arrow, one category of 100 KB in 20,000 rows": (
        ARROW,
        "prepared",
        lambda: one_batch({"category": _repeated("ab " * 33_000, 20_000)}),
    ),
    "Arrow, 60 columns of 1,000,000 nulls": (
        ARROW,
        "prepared",
        lambda: one_batch({f"c{k}": pa.nulls(1_000_000) for k in range(60)}),
    ),
    "JSON, 64 MiB of empty rows": (JSON, "prepared", lambda: filled(b'{"instances":[', b"{},", b"{}]}")(BODY_LIMIT)),
    "JSON, 64 MiB of empty lists": (JSON, "plain", lambda: filled(b'{"instances":[', b"[],", b"[]]}")(BODY_LIMIT)),
    "JSON, 64 MiB of zeros": (JSON, "plain", lambda: filled(b'{"instances":[', b"[0,0,0,0],", b"[]]}")(BODY_LIMIT)),
    "ndjson, 64 MiB of empty lines": (NDJSON, "plain", lambda: filled(b"", b"\n")(BODY_LIMIT)),
    "ndjson, 64 MiB of empty rows": (NDJSON, "plain", lambda: filled(b"", b"[]\n")(BODY_LIMIT)),
    "libsvm, 64 MiB of empty rows": (LIBSVM, "plain", lambda: filled(b"", b"1\n")(BODY_LIMIT)),
    "CSV, 64 MiB of short rows": (CSV, "plain", lambda: filled(b"", b"1,2,3,4\n")(BODY_LIMIT)),
}
"""Bodies within the limit of a body that stand for far more: content type, model, and how to make one."""
