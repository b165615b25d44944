"""The Open Inference Protocol's bodies: what tensors may look like, and everything else is refused by its place."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import AppError, Invalid, Unparsable
from app.predictions.model_cache import ServedModel
from app.predictions.model_features import Features
from app.predictions.open_inference.service import infer_with, metadata, to_rows
from app.predictions.open_inference.tensors import read_request
from app.predictions.rows import Columns
from app.preprocess.fit import fit
from app.preprocess.pipeline_document import to_document
from app.preprocess.spec import Preprocess
from app.tabular.frame import Column, Frame
from tests.support.builders import SOAK, served_model

NAMES = ["a", "b", "c"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ServedModel:
    return served_model(tmp_path_factory.mktemp("model"), [1.0, 10.0, 100.0], 0.5, feature_names=NAMES)


def body_of(inputs: list[dict[str, Any]], raw: bytes = b"", **fields: Any) -> tuple[bytes, str | None]:
    text = json.dumps({"inputs": inputs, **fields}).encode()
    return text + raw, str(len(text)) if raw else None


def infer(model: ServedModel, inputs: list[dict[str, Any]], raw: bytes = b"", **fields: Any) -> dict[str, Any]:
    reply = infer_with(model, *body_of(inputs, raw, **fields))
    assert reply.media_type == "application/json"
    document: dict[str, Any] = json.loads(reply.content)
    return document


def data_of(document: dict[str, Any]) -> dict[str, Any]:
    return {one["name"]: one["data"] for one in document["outputs"]}


def tensor(
    data: Any = None, shape: Any = (2, 3), datatype: str = "FP64", name: str = "X", **more: Any
) -> dict[str, Any]:
    given = {} if data is None else {"data": data}
    return {"name": name, "shape": list(shape), "datatype": datatype, **given, **more}


FLAT = [1, 2, 3, 4, 5, 6]
SCORES = [321.5, 654.5]


def test_data_may_be_flat_or_nested(model: ServedModel) -> None:
    for data in (FLAT, [[1, 2, 3], [4, 5, 6]], [1.0, 2, 3.0, 4, 5, 6]):
        assert data_of(infer(model, [tensor(data)]))["score"] == SCORES
    answer = infer(model, [tensor(FLAT, datatype="INT32")], id="7")
    assert (answer["id"], answer["model_name"], answer["model_version"]) == ("7", "m", "1")
    assert data_of(answer) == {"label": ["yes", "yes"], "score": SCORES}
    assert data_of(infer(model, [tensor(FLAT)], outputs=[])) == data_of(answer)  # nothing in particular is asked for


@pytest.mark.parametrize("dtype", ["u1", "i2", "u4", "i8", "f2", "f4", "f8"])
def test_raw_numbers_of_every_type_are_read(model: ServedModel, dtype: str) -> None:
    names = {"u": "UINT", "i": "INT", "f": "FP"}
    raw = np.array(FLAT, dtype=f"<{dtype}").tobytes()
    described = tensor(datatype=names[dtype[0]] + str(8 * int(dtype[1])), parameters={"binary_data_size": len(raw)})
    assert data_of(infer(model, [described], raw))["score"] == SCORES


def test_columns_by_name_raw_and_in_json(model: ServedModel) -> None:
    raw = np.array([2.0, 5.0]).tobytes() + np.array([1.0, 4.0], dtype="<f4").tobytes()
    inputs = [
        tensor(shape=[2], name="b", parameters={"binary_data_size": 16}),
        tensor([3, 6], [2, 1], "INT64", name="c"),
        tensor(shape=[2], datatype="FP32", name="a", parameters={"binary_data_size": 8}),
    ]
    assert data_of(infer(model, inputs, raw))["score"] == SCORES


def test_outputs_come_raw_where_that_is_asked_for(model: ServedModel) -> None:
    outputs = [{"name": "score", "parameters": {"binary_data": True}}, {"name": "label"}]
    reply = infer_with(model, *body_of([tensor(FLAT)], outputs=outputs))
    assert reply.media_type == "application/octet-stream"
    length = int(reply.headers["Inference-Header-Content-Length"])
    document = json.loads(reply.content[:length])
    assert [one["name"] for one in document["outputs"]] == ["score", "label"]
    assert document["outputs"][0]["parameters"] == {"binary_data_size": 16}
    assert np.frombuffer(reply.content[length:], "<f8").tolist() == SCORES
    reply = infer_with(model, *body_of([tensor(FLAT)], parameters={"binary_data_output": True}))
    length = int(reply.headers["Inference-Header-Content-Length"])
    assert reply.content[length:] == b"\x03\0\0\0yes\x03\0\0\0yes" + struct.pack("<dd", *SCORES)


REFUSED: list[tuple[Any, bytes, str]] = [
    ([], b"", "inputs"),
    ([tensor(FLAT, [2, 2])], b"", "inputs[0].data"),
    ([tensor([[1, 2, 3], [4, 5]])], b"", "inputs[0].data"),
    ([tensor([[1, 2, 3], 4])], b"", "inputs[0].data"),
    ([tensor(["a"] * 6)], b"", "inputs[0].data"),
    ([tensor([None] * 6)], b"", "X[0].a"),
    ([tensor([None] * 6, datatype="INT64")], b"", "inputs[0].data"),
    ([tensor([1e39] * 6, datatype="FP32")], b"", "X[0].a"),
    ([tensor([True] * 6, datatype="INT8")], b"", "inputs[0].data"),
    ([tensor([300] * 6, datatype="INT8")], b"", "inputs[0].data"),
    ([tensor([1.5] * 6, datatype="INT64")], b"", "inputs[0].data"),
    ([tensor(FLAT, datatype="BYTES")], b"", "inputs[0].data"),
    ([tensor(FLAT, datatype="BF16")], b"", "inputs[0].datatype"),
    ([tensor(FLAT, [-1, 3])], b"", "inputs[0].shape"),
    ([tensor(FLAT, [2**40, 2**40])], b"", "inputs[0].shape"),
    ([tensor([], [0, 2**62])], b"", "inputs[0].shape"),
    ([tensor([], [2**80, 0])], b"", "inputs[0].shape"),
    ([tensor([], [0] * 99)], b"", "inputs[0].shape"),
    ([tensor(shape=[0, 2**62], parameters={"binary_data_size": 0})], b"", "inputs[0].shape"),
    ([tensor()], b"", "inputs[0].data"),
    ([tensor(FLAT[:3], [3])], b"", "inputs[0].shape"),
    ([tensor(FLAT[:3], [1, 3, 1])], b"", "inputs[0].shape"),
    ([tensor([], [0, 3])], b"", "X"),
    ([tensor(FLAT[:4], [2, 2])], b"", "X[0]"),
    ([tensor(shape=[1, 3], parameters={"binary_data_size": 24})], b"12345678", "inputs[0].parameters.binary_data_size"),
    ([tensor(shape=[1, 3], parameters={"binary_data_size": 8})], b"12345678", "inputs[0].parameters.binary_data_size"),
    ([tensor(shape=[1, 3], parameters={"binary_data_size": -1})], b"1", "inputs[0].parameters.binary_data_size"),
    ([tensor(shape=[1, 3], parameters={"binary_data_size": "8"})], b"1", "inputs[0].parameters.binary_data_size"),
    ([tensor(FLAT)], b"12345678", "inputs"),
    ([tensor([1], [1], name="a"), tensor([1], [1], name="a")], b"", "inputs"),
    ([tensor([1], [1], name="a"), tensor([1, 2], [2], name="b")], b"", "inputs[1].shape"),
    ([tensor([1], [1], name="a")], b"", "columns"),
    ([tensor(shape=[1], datatype="BYTES", name="a", parameters={"binary_data_size": 4})], b"\xff\0\0\0", "inputs[0]"),
    ([tensor(shape=[2], datatype="BYTES", name="a", parameters={"binary_data_size": 5})], b"\1\0\0\0x", "inputs[0]"),
    ([tensor(shape=[1], datatype="BYTES", name="a", parameters={"binary_data_size": 5})], b"\1\0\0\0\xff", "inputs[0]"),
]


@pytest.mark.parametrize(("inputs", "raw", "field"), REFUSED)
def test_a_tensor_that_cannot_be_is_refused_by_field(model: ServedModel, inputs: Any, raw: bytes, field: str) -> None:
    with pytest.raises(Invalid) as caught:
        infer_with(model, *body_of(inputs, raw))
    assert caught.value.errors[0].field == field


def test_null_is_a_missing_value(tmp_path: Path) -> None:
    table = Frame(np.array([[1.0, 10.0], [3.0, -20.0]]), [Column("a"), Column("b")])
    document, arrays = to_document(fit(Preprocess.model_validate({"missing": "mean"}), table).pipeline)
    filling = served_model(tmp_path, [1.0, 2.0], 0.0, preprocess=document, arrays=arrays)
    for datatype in ("FP64", "FP32"):
        assert data_of(infer(filling, [tensor([None, 1, 5, None], [2, 2], datatype)]))["score"] == [4.0, -5.0]
    columns = [tensor([None, 5], [2], name="a"), tensor([1, None], [2], name="b")]
    assert data_of(infer(filling, columns))["score"] == [4.0, -5.0]


def test_outputs_that_there_are_not_are_refused(model: ServedModel) -> None:
    for outputs in ([{"name": "x"}], [{"name": "contributions"}], [{"name": "score_error_bound"}]):
        with pytest.raises(Invalid) as caught:
            infer_with(model, *body_of([tensor(FLAT)], outputs=outputs))
        assert caught.value.errors[0].field == "outputs[0].name"
    outputs = [{"name": "label", "parameters": {"classification": 2}}]
    with pytest.raises(Invalid):
        infer_with(model, *body_of([tensor(FLAT)], outputs=outputs))


@pytest.mark.parametrize("length", ["x", "-1", "²", "999", "9" * 50, "0" * 19 + "1" + "9" * 5000, ""])
def test_a_length_that_is_none_is_unparsable(model: ServedModel, length: str) -> None:
    with pytest.raises(Unparsable):
        infer_with(model, body_of([tensor(FLAT)])[0], length)


def test_texts_are_columns_of_their_own() -> None:
    raw = b"\x02\0\0\0\xc3\xa9\0\0\0\0"
    described = tensor(shape=[2, 1], datatype="BYTES", name="word", parameters={"binary_data_size": len(raw)})
    features = Features(1, ("word",))
    rows = to_rows(read_request(*body_of([described], raw), features).inputs, features)
    assert isinstance(rows, Columns)
    assert rows.columns["word"] == ["é", ""]


def test_a_model_says_what_it_takes_and_gives(model: ServedModel) -> None:
    said = metadata(model, ["1"])
    assert said["inputs"] == [{"name": "X", "datatype": "FP64", "shape": [-1, 3]}]
    assert [one["name"] for one in said["outputs"]] == ["label", "score"]


SOUND = body_of([tensor(shape=[1, 3], parameters={"binary_data_size": 24})], np.array([1.0, 2.0, 3.0]).tobytes())


@settings(max_examples=200 * SOAK, deadline=None, derandomize=SOAK == 1)
@given(data=st.data())
def test_damage_is_refused_or_answered(model: ServedModel, data: st.DataObject) -> None:
    content = bytearray(SOUND[0])
    place = data.draw(st.integers(0, len(content) - 1))
    content[place : place + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    length = data.draw(st.sampled_from([SOUND[1], None]) | st.integers(0, 300).map(str))
    refusal: AppError | None = None
    try:
        infer_with(model, bytes(content), length)
    except AppError as error:
        refusal = error
    assert refusal is None or 400 <= refusal.status < 500
