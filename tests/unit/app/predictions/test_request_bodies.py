"""Rows in every format that predict reads: the same rows have the same scores, and a mistake is named by its place."""

import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from app.errors import AppError, Invalid, PayloadTooLarge, Unparsable, UnsupportedMediaType
from app.predictions import rows as rows_module
from app.predictions.model_cache import ServedModel
from app.predictions.request_bodies import READERS
from app.predictions.service import predict_with
from app.web.media_types import ARROW, CSV, JSON, LIBSVM, NDJSON, NPY, NPZ
from tests.support.builders import served_model
from tests.support.prediction_bodies import BODIES, COLUMNS, NAMES, ROWS, arrow, csr_members, libsvm, npy, npz, text


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> ServedModel:
    return served_model(tmp_path_factory.mktemp("named"), [0.5, -2.0, 1e-3, 7.0], -0.75, feature_names=NAMES)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> ServedModel:
    return served_model(tmp_path_factory.mktemp("plain"), [0.5, -2.0, 1e-3, 7.0], -0.75)


def npy_header(shape: tuple[int, ...]) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return stream.getvalue()


def zip_of(**members: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


@pytest.mark.parametrize("kind", BODIES)
def test_the_same_rows_have_the_same_scores_in_every_format(named: ServedModel, kind: str) -> None:
    content_type, body = BODIES[kind]
    answered = json.loads(predict_with(named, body, content_type, None).content)["predictions"]
    expected = json.loads(predict_with(named, *reversed(BODIES["json lists"]), None).content)["predictions"]
    assert answered == expected
    assert len(answered) == len(ROWS)
    value = sum(w * x for w, x in zip([0.5, -2.0, 1e-3, 7.0], ROWS[0], strict=True)) - 0.75
    assert answered[0]["score"] == value


def test_every_reader_is_covered() -> None:
    assert {content_type.partition(";")[0] for content_type, _ in BODIES.values()} == set(READERS)


def test_outputs_can_be_asked_for_in_the_query_once(named: ServedModel) -> None:
    answered = predict_with(named, text(ROWS, ","), CSV, None, wanted="score, label")
    assert set(json.loads(answered.content)["predictions"][0]) == {"label", "score"}
    with pytest.raises(Invalid) as caught:
        predict_with(named, b'{"instances": [[1,2,3,4]], "return": ["score"]}', JSON, None, wanted="score")
    assert caught.value.code == "given_twice"


def test_libsvm_indices_may_count_from_zero(named: ServedModel) -> None:
    from_zero = predict_with(named, libsvm(ROWS, base=0), LIBSVM, None, index_base=0).content
    assert from_zero == predict_with(named, libsvm(ROWS), LIBSVM, None).content


def test_libsvm_rows_may_all_be_zeros(named: ServedModel) -> None:
    for body in (b"1\n-1 qid:3\n", b"1\n2", b"a # b\nc"):
        answered = json.loads(predict_with(named, body, LIBSVM, None).content)["predictions"]
        assert [one["score"] for one in answered] == [-0.75, -0.75]


# Content type, body, code of the refusal, what its first entry must say.
REFUSED: list[tuple[str, bytes, str, dict[str, Any]]] = [
    (CSV, b"age,height,n\xc3\xa9\n1,2,3\n", "missing_feature", {"field": "columns"}),
    (CSV, b'age,height,n\xc3\xa9,"a,b",x\n1,2,3,4,5\n', "unknown_feature", {"field": "columns"}),
    (CSV, b'age,height,n\xc3\xa9,"a,b",age\n1,2,3,4,5\n', "duplicate_column", {"field": "body"}),
    (CSV, b'age,height,n\xc3\xa9,"a,b"\n1,2,3,4\n1,2,3\n', "wrong_width", {"line": 3}),
    (CSV, b'age,height,n\xc3\xa9,"a,b"\n1,2,3,4\n\n\n1,2,x,4\n', "not_a_number", {"line": 5, "column": 3}),
    (CSV, b'age,height,n\xc3\xa9,"a,b"\n1,2,3,4\n1,2,1_000,4\n', "not_a_number", {"line": 3, "column": 3}),
    (CSV, b'age,height,n\xc3\xa9,"a,b"\n1,2,0x10,4\n', "not_a_number", {"line": 2, "column": 3}),
    (CSV, b'age,height,n\xc3\xa9,"a,b"\n1,,3,4\n', "missing_value", {"line": 2, "field": "height"}),
    (CSV, b'age,height,n\xc3\xa9,"a,b"\n1,nan,3,4\n', "missing_value", {"line": 2, "field": "height"}),
    (CSV, b'age,height,n\xc3\xa9,"a,b"\n1,inf,3,4\n', "not_finite", {"line": 2, "field": "height"}),
    (CSV, b'age,height,n\xc3\xa9,"a,b"\n1,1e999,3,4\n', "not_finite", {"line": 2, "field": "height"}),
    (CSV, b'age,height,n\xc3\xa9,"a,b"\n', "empty", {"field": "body"}),
    (CSV, b"", "empty", {"field": "body"}),
    (CSV, b"\n\n", "empty", {"field": "body"}),
    (CSV, b"1,2,3\n", "wrong_width", {"line": 1}),
    (CSV, b"1,2,3,4\n1,2,3,4,5\n", "wrong_width", {"line": 2}),
    ("text/csv; header=present", b"1,2,3,4\n1,2,3,4\n", "unknown_feature", {"field": "columns"}),
    ("text/csv; header=maybe", b"1,2,3,4\n", "unknown_header", {"field": "Content-Type"}),
    (LIBSVM, b"1 1:1\n1 0:2\n", "unknown_feature", {"line": 2}),
    (LIBSVM, b"1 1:1\n1 5:2\n", "unknown_feature", {"line": 2}),
    (LIBSVM, b"1 1:1\n\n1 2:1 2:3\n", "duplicate_feature", {"line": 3}),
    (LIBSVM, b"1 1:x\n", "bad_line", {"line": 1}),
    (LIBSVM, b"1 1:1_0\n", "bad_line", {"line": 1}),
    (LIBSVM, b"1 1:nan\n", "bad_line", {"line": 1}),
    (LIBSVM, b"1 1:0x1\n", "bad_line", {"line": 1}),
    (LIBSVM, "1 1:\u0661\n".encode(), "bad_line", {"line": 1}),
    (LIBSVM, b"1 -1:2\n", "bad_line", {"line": 1}),
    (LIBSVM, b"1 99999999999999999999:2\n", "bad_line", {"line": 1}),
    (LIBSVM, b"1 2 1:3\n", "bad_line", {"line": 1}),
    (LIBSVM, b"1 1:1e999\n", "not_finite", {"line": 1}),
    (LIBSVM, b"# nothing\n\n", "empty", {"field": "body"}),
    (NDJSON, b"[1,2,3,4]\n\n[1,2,3]\n", "wrong_width", {"line": 3}),
    (NDJSON, b"[1,2,3,4]\n[1,null,3,4]\n", "missing_value", {"line": 2, "column": 2}),
    (NDJSON, b'[1,2,3,4]\n{"age": 1}\n', "missing_feature", {"line": 2}),
    (NDJSON, b"[1,2,3,4]\n7\n", "wrong_type", {"line": 2}),
    (NDJSON, b"", "empty", {"field": "instances"}),
    (ARROW, arrow({"age": [1.0]}), "missing_feature", {"field": "columns"}),
    (ARROW, arrow({**COLUMNS, "x": [1.0] * 4}), "unknown_feature", {"field": "columns"}),
    (ARROW, arrow({**COLUMNS, "height": ["a"] * 4}), "not_a_number", {"field": "rows[0].height"}),
    (ARROW, arrow({**COLUMNS, "height": [1.0, 2.0, None, 4.0]}), "missing_value", {"field": "rows[2].height"}),
    (ARROW, arrow({**COLUMNS, "height": [None] * 4}), "missing_value", {"field": "rows[0].height"}),
    (ARROW, arrow({**COLUMNS, "height": [1.0, 2.0, 3.0, np.inf]}), "not_finite", {"field": "rows[3].height"}),
    (ARROW, arrow({name: [] for name in NAMES}), "empty", {"field": "body"}),
    (NPY, npy([1.0, 2.0, 3.0, 4.0]), "wrong_shape", {"field": "body"}),
    (NPY, npy([[1.0, 2.0, 3.0]]), "wrong_width", {"field": "rows[0]"}),
    (NPY, npy([[1.0, 2.0, np.nan, 3.0]]), "missing_value", {"field": "rows[0].né"}),
    (NPY, npy([[1.0, 2.0, 3.0, 4.0], [1.0, 2.0, np.inf, 3.0]]), "not_finite", {"field": "rows[1].né"}),
    (NPY, npy([["a", "b", "c", "d"]]), "wrong_type", {"field": "body"}),
    (NPY, npy(np.zeros((1, 4), dtype=complex)), "wrong_type", {"field": "body"}),
    (NPY, npy(np.array([[None]])), "wrong_type", {"field": "body"}),
    (NPY, npy(np.zeros((0, 4))), "empty", {"field": "body"}),
    (NPY, npy(ROWS)[:-8], "wrong_size", {"field": "body"}),
    (NPY, npy_header((0, 2**62)), "wrong_shape", {"field": "body"}),
    (NPY, npy_header((2**80, 0)), "wrong_shape", {"field": "body"}),
    (NPY, npy_header((0,) * 99), "wrong_shape", {"field": "body"}),
    (NPZ, zip_of(X=npy_header((0, 2**62))), "wrong_shape", {"field": "body"}),
    (NPZ, npz(Y=np.zeros((1, 4))), "wrong_members", {"field": "body"}),
    (NPZ, npz(**{f"a{j}": np.zeros(1) for j in range(9)}), "wrong_members", {"field": "body"}),
    (NPZ, npz(**{**csr_members(ROWS), "shape": np.array([4, 5])}), "wrong_width", {"field": "shape"}),
    (NPZ, npz(**{**csr_members(ROWS), "indptr": np.array([0, 9, 2, 3, 9])}), "wrong_starts", {"field": "indptr"}),
    (NPZ, npz(**{**csr_members(ROWS), "indptr": np.array([], dtype=int)}), "wrong_starts", {"field": "indptr"}),
    (NPZ, npz(**{**csr_members(ROWS), "data": np.array(["a"])}), "wrong_type", {"field": "data"}),
    (NPZ, npz(**{**csr_members(ROWS), "format": np.array("csc")}), "wrong_format", {"field": "format"}),
    (
        NPZ,
        npz(data=np.ones(2), indices=np.array([0, 4]), indptr=np.array([0, 2]), shape=np.array([1, 4])),
        "unknown_feature",
        {"field": "rows[0]"},
    ),
]


@pytest.mark.parametrize(("content_type", "body", "code", "place"), REFUSED)
def test_a_mistake_is_named_by_its_place(
    named: ServedModel, content_type: str, body: bytes, code: str, place: dict[str, Any]
) -> None:
    with pytest.raises(Invalid) as caught:
        predict_with(named, body, content_type, None)
    assert caught.value.code == code
    first = caught.value.errors[0].model_dump()
    assert {name: first[name] for name in place} == place


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (CSV, b"age,\xff\n1,2\n"),
        (CSV, b"age\x00\n1\n"),
        (CSV, b'age,height\n"1,2\n' + b'"' * 200_000),
        (LIBSVM, b"1 1:1\n\xff"),
        (NDJSON, b"[1,2,3,4]\n[1,2"),
        (NDJSON, b"[1,2,3,4] [1,2,3,4]\n"),
        (NDJSON, b"[1,2,\n3,4]\n"),
        (NDJSON, b"\xff"),
        (ARROW, b""),
        (ARROW, b"ARROW1\x00\x00"),
        (ARROW, arrow(COLUMNS)[:300]),
        (NPY, b""),
        (NPY, b"\x93NUMPY\x01\x00"),
        (NPY, b"\x93NUMPY\x01\x00\x10\x00" + b"(" * 16),
        (NPY, npy(ROWS).replace(b"(4, 4)", b"(4,4j)")),
        (NPZ, b""),
        (NPZ, b"PK\x05\x06" + b"\0" * 17),
        (NPZ, zip_of(X=b"no array")),
        (NPZ, npz(X=np.array(ROWS))[:200]),
    ],
)
def test_what_is_not_of_the_format_is_unparsable(named: ServedModel, content_type: str, body: bytes) -> None:
    with pytest.raises(AppError) as caught:
        predict_with(named, body, content_type, None)
    assert caught.value.status in (400, 422)
    assert isinstance(caught.value, Unparsable) or caught.value.errors


def test_a_model_without_names_takes_columns_in_order_and_no_header(plain: ServedModel) -> None:
    expected = predict_with(plain, *reversed(BODIES["json lists"]), None).content
    assert predict_with(plain, text(ROWS, ",", header=False), CSV, None).content == expected
    for content_type, body in ((CSV, text(ROWS, ",")), (ARROW, arrow(COLUMNS))):
        with pytest.raises(Invalid) as caught:
            predict_with(plain, body, content_type, None)
        assert caught.value.code == "unnamed_features"


def test_a_batch_has_a_limit_of_rows_in_every_format(named: ServedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "MAX_ROWS", 3)
    for kind, (content_type, body) in BODIES.items():
        with pytest.raises(PayloadTooLarge) as caught:
            predict_with(named, body, content_type, None)
        assert "the limit is 3" in caught.value.detail, kind


def test_rows_that_a_stream_only_claims_to_have_are_not_believed(named: ServedModel) -> None:
    batch = pa.RecordBatch.from_arrays([pa.nulls(12_345)], ["age"])
    stream = io.BytesIO()
    with pa.ipc.new_stream(stream, batch.schema) as writer:
        writer.write_batch(batch)
    forged = stream.getvalue().replace(struct.pack("<q", 12_345), struct.pack("<q", 2**40))
    assert forged != stream.getvalue()
    with pytest.raises(PayloadTooLarge):
        predict_with(named, forged, ARROW, None)


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_compressed_streams_are_refused_before_they_are_unpacked(named: ServedModel, codec: str) -> None:
    words = pa.array(["x"] * 4).dictionary_encode()
    for columns in (COLUMNS, {"age": words}):
        with pytest.raises(UnsupportedMediaType):
            predict_with(named, arrow(columns, compression=codec), ARROW, None)


def test_numbers_of_any_width_are_taken(plain: ServedModel) -> None:
    expected = json.loads(predict_with(plain, b'{"instances": [[1, 0, 1, 2]]}', JSON, None).content)["predictions"]
    for dtype in ("f4", "f2", "i1", "u8", "i4"):
        body = npy(np.array([[1, 0, 1, 2]], dtype=dtype))
        assert json.loads(predict_with(plain, body, NPY, None).content)["predictions"] == expected


def test_a_single_column_is_read(tmp_path: Path) -> None:
    model = served_model(tmp_path, [2.0], 0.5, feature_names=["x"])
    for content_type, body in (
        (CSV, b"x\n1\n2\n"),
        (CSV, b"1\n2\n"),
        (NDJSON, b'{"x": 1}\n{"x": 2}'),
        (NPY, npy([[1.0], [2.0]])),
        (LIBSVM, b"1:1\n1:2\n"),
    ):
        answered = json.loads(predict_with(model, body, content_type, None).content)["predictions"]
        assert [one["score"] for one in answered] == [2.5, 4.5]


@pytest.mark.parametrize("body", [b"[]", b"{}", b'"x"', b"[1,2]", b"<row>"])
def test_another_format_is_not_taken_for_libsvm_labels(named: ServedModel, body: bytes) -> None:
    with pytest.raises(Invalid) as refused:
        predict_with(named, body, LIBSVM, None)
    assert refused.value.code == "bad_line"
