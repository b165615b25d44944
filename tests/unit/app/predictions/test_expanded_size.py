"""What a body would become is checked before it becomes that: names, width, rows, then the bytes of the numbers."""

import io
import json
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from app.errors import AppError, Invalid, PayloadTooLarge, Unparsable
from app.predictions import json_rows
from app.predictions import rows as rows_module
from app.predictions.model_cache import ServedModel
from app.predictions.service import predict_with
from app.web.media_types import ARROW, CSV, JSON, LIBSVM, NDJSON, NPY, NPZ
from tests.support.builders import served_model
from tests.support.hostile_inputs import INVOCATIONS, NAMES, TENSORS, answer, hostile_models, one_batch
from tests.support.prediction_bodies import BODIES, arrow, csr_members, npy
from tests.support.prediction_bodies import NAMES as FOUR_NAMES

MB = 1_000_000
ROW_BYTES = 4 * 8


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ServedModel]:
    return hostile_models(tmp_path_factory.mktemp("models"))


def limited(model: ServedModel, most_bytes: int) -> ServedModel:
    return replace(model, features=replace(model.features, most_bytes=most_bytes))


@contextmanager
def at_most(n_bytes: int) -> Iterator[None]:
    """What Python and numpy allocate meanwhile."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < n_bytes
    finally:
        tracemalloc.stop()


def packed(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


@pytest.mark.parametrize("kind", BODIES)
def test_one_ceiling_holds_for_every_format(tmp_path: Path, kind: str) -> None:
    content_type, body = BODIES[kind]
    model = served_model(tmp_path, [1.0] * 4, feature_names=FOUR_NAMES)
    with pytest.raises(PayloadTooLarge) as caught:
        predict_with(limited(model, 4 * ROW_BYTES - 1), body, content_type, None)
    assert "the limit is 127 (HYPERPLANE_MAX_PREDICT_BYTES)" in caught.value.detail
    assert predict_with(limited(model, 2 * 4 * ROW_BYTES), body, content_type, None)


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({"instances": [[1, 2, 3, 4]] * 4}),
        json.dumps({"dataframe_split": {"data": [[1, 2, 3, 4]] * 4}}),
        json.dumps({"dataframe_records": [dict.fromkeys(NAMES, 1)] * 4}),
        json.dumps({"inputs": {name: [1, 2, 3, 4] for name in NAMES}}),
    ],
)
def test_the_ceiling_holds_for_invocations(models: dict[str, ServedModel], body: str) -> None:
    with pytest.raises(PayloadTooLarge):
        answer(limited(models["named"], 4 * ROW_BYTES - 1), INVOCATIONS, body.encode())
    assert answer(limited(models["named"], 4 * ROW_BYTES), INVOCATIONS, body.encode())


@pytest.mark.parametrize(
    "inputs",
    [
        [{"name": "X", "datatype": "UINT8", "shape": [4, 4], "data": [1] * 16}],
        [{"name": name, "datatype": "UINT8", "shape": [4], "data": [1] * 4} for name in NAMES],
    ],
)
def test_the_ceiling_holds_for_tensors(models: dict[str, ServedModel], inputs: list[Any]) -> None:
    body = json.dumps({"inputs": inputs}).encode()
    with pytest.raises(PayloadTooLarge):
        answer(limited(models["named"], 4 * ROW_BYTES - 1), TENSORS, body)
    assert answer(limited(models["named"], 4 * ROW_BYTES), TENSORS, body)


def test_the_ceiling_counts_the_dense_features_that_columns_become(models: dict[str, ServedModel]) -> None:
    features = models["prepared"].features
    body = b'{"instances": [{}, {}]}'
    with pytest.raises(PayloadTooLarge):
        answer(limited(models["prepared"], 2 * features.row_bytes - 1), JSON, body)
    assert answer(limited(models["prepared"], 2 * features.row_bytes), JSON, body)


def test_sparse_rows_of_a_model_that_needs_dense_ones_are_counted_as_dense(models: dict[str, ServedModel]) -> None:
    model = models["prepared"]
    with pytest.raises(PayloadTooLarge):
        answer(limited(model, 1000 * model.features.row_bytes - 1), LIBSVM, b"1\n" * 1000)


MOST_BYTES = 8 * MB
MOST_ROWS = 300_000
BOMBS: dict[str, tuple[str, Callable[[], bytes], int]] = {
    "npz of bytes": (NPZ, lambda: packed(X=np.zeros((280_000, 4), dtype=np.uint8)), 413),
    "npz of another width": (NPZ, lambda: packed(X=np.zeros((10_000, 500))), 422),
    "npz csr": (
        NPZ,
        lambda: packed(
            data=np.zeros(600_000, dtype=np.int8),
            indices=np.zeros(600_000, dtype=np.int8),
            indptr=np.array([0, 600_000]),
            shape=np.array([1, 4]),
        ),
        413,
    ),
    "npz with a long format": (
        NPZ,
        lambda: packed(**csr_members([[0.0] * 4]), format=np.zeros(9_000_000, dtype=np.int8)),
        422,
    ),
    "npy of bytes": (NPY, lambda: npy(np.zeros((280_000, 4), dtype=np.uint8)), 413),
    "Arrow, nulls": (ARROW, lambda: one_batch({name: pa.nulls(280_000) for name in NAMES}), 413),
    "Arrow, nulls of unknown columns": (
        ARROW,
        lambda: one_batch({name: pa.nulls(200_000) for name in (*NAMES, *(f"c{k}" for k in range(40)))}),
        422,
    ),
    "CSV, other names": (CSV, lambda: b"number,x\n" + b"1,2\n" * 200_000, 422),
    "CSV, rows": (CSV, lambda: b"1,2,3,4\n" * 310_000, 413),
    "ndjson, rows": (NDJSON, lambda: b"[]\n" * 310_000, 413),
    "JSON, rows": (JSON, lambda: b'{"instances":[' + b"[]," * 1_000_000 + b"[]]}", 413),
    "JSON, values": (JSON, lambda: b'{"instances":[[' + b"0," * 1_100_000 + b"0]]}", 413),
    "libsvm, rows": (LIBSVM, lambda: b"1\n" * 310_000, 413),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_what_would_expand_is_refused_before_it_does(
    models: dict[str, ServedModel], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Besides a body there is at most a copy of it, and of libsvm the rows up to the limit."""
    monkeypatch.setattr(rows_module, "MAX_ROWS", MOST_ROWS)
    content_type, make, status = BOMBS[kind]
    body = make()
    with at_most(MOST_ROWS * 130 if content_type == LIBSVM else 2 * len(body) + 1 * MB):
        with pytest.raises(AppError) as caught:
            answer(limited(models["named"], MOST_BYTES), content_type, body)
        assert caught.value.status == status


def test_nulls_of_an_arrow_stream_become_no_python_values(models: dict[str, ServedModel]) -> None:
    body = one_batch({name: pa.nulls(100_000) for name in ("number", "other", *(f"c{k}" for k in range(100)))})
    with at_most(60 * MB):  # the values of the unknown columns would take 80
        answer(models["prepared"], ARROW, body)


@pytest.mark.parametrize("text_type", ["dictionary", "view"])
def test_a_long_text_in_every_row_is_counted_in_every_row(models: dict[str, ServedModel], text_type: str) -> None:
    if text_type == "dictionary":
        texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1000, dtype=np.int16)), pa.array(["word " * 20_000]))
    else:
        long = pa.array(["word " * 20_000], pa.string_view())
        _, views, data = long.buffers()
        texts = pa.Array.from_buffers(pa.string_view(), 1000, [None, pa.py_buffer(views.to_pybytes() * 1000), data])
    with at_most(8 * MB), pytest.raises(PayloadTooLarge):
        answer(models["prepared"], ARROW, one_batch({"text": texts}))


def test_a_category_may_be_abbreviated_in_many_rows(models: dict[str, ServedModel]) -> None:
    words = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None, 0], pa.int8()), pa.array(["a", "x" * 1000], pa.large_string())
    )
    plain = pa.array(["a", "x" * 1000, None, "a"])
    body, same = arrow({"category": words}), arrow({"category": plain})
    assert answer(models["prepared"], ARROW, body).content == answer(models["prepared"], ARROW, same).content


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1.0], [2.0]]),
        pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array(["a"])),
        pa.array([{"a": 1}, {"a": 2}]),
        pa.FixedSizeListArray.from_arrays(pa.nulls(2_000_000), 1_000_000),
    ],
)
def test_lists_and_runs_are_no_columns(models: dict[str, ServedModel], column: Any) -> None:
    with at_most(8 * MB), pytest.raises(Invalid) as caught:
        answer(models["prepared"], ARROW, one_batch({"category": column}))
    assert caught.value.code == "wrong_type"


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_archives_are_unpacked_only_as_numpy_writes_them(models: dict[str, ServedModel], method: int) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        archive.writestr("X.npy", npy([[1.0, 2.0, 3.0, 4.0]]))
    with pytest.raises(Unparsable):
        answer(models["plain"], NPZ, stream.getvalue())


def test_an_archive_that_declares_less_than_it_holds_is_refused(models: dict[str, ServedModel]) -> None:
    body = packed(X=np.zeros((100_000, 4)))
    honest, declared = (3_200_128).to_bytes(4, "little"), len(npy([[0.0] * 4])).to_bytes(4, "little")
    assert honest in body
    with at_most(1 * MB), pytest.raises(AppError) as caught:
        answer(models["plain"], NPZ, body.replace(honest, declared))
    assert caught.value.status in (400, 422)


def test_brackets_and_commas_in_texts_are_not_counted(
    models: dict[str, ServedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_rows, "CHECKED_BYTES", 10)
    monkeypatch.setattr(rows_module, "MAX_ROWS", 3)
    body = json.dumps({"instances": [{"text": "[{," * 1000 + '\\" [[[[[[[['}]}).encode()
    assert answer(limited(models["prepared"], 500), JSON, body)
    with pytest.raises(PayloadTooLarge):
        answer(limited(models["prepared"], 500), JSON, b'{"instances": [[[]' + b",[]" * 20 + b"]]}")


def test_columns_that_the_model_does_not_know_are_not_read(models: dict[str, ServedModel]) -> None:
    expected = json.loads(answer(models["prepared"], CSV, b"number,other\n1,2\n3,\n").content)["predictions"]
    body = b"a,number,b,other,c\n\xc3\xa9,1,x,2,7\n,3,,,\n"
    answered = json.loads(answer(models["prepared"], CSV, body).content)
    assert answered["predictions"] == expected
    assert {one["code"] for one in answered["warnings"]} == {"unknown_columns", "missing_columns"}
    nothing = json.loads(answer(models["prepared"], "text/csv; header=present", b"a,b\n1,2\n3,4\n").content)
    assert len(nothing["predictions"]) == 2
    with pytest.raises(Invalid) as caught:
        answer(models["prepared"], CSV, b"a,number,b,other\n,1,,2\n,1,,x\n")
    assert (caught.value.errors[0].line, caught.value.errors[0].column) == (3, 4)
