"""Converts tensors to rows and predictions to tensors, and describes models in terms of the protocol."""

from functools import cache
from typing import Any

import numpy as np

from app.errors import invalid_field
from app.predictions.model_cache import ServedModel
from app.predictions.model_features import Features
from app.predictions.model_request import HEADER_LENGTH
from app.predictions.open_inference.tensors import InferRequest, Tensor, read_request, write_response
from app.predictions.outputs import DEFAULT_OUTPUTS, SET
from app.predictions.response_formats import Reply, plain
from app.predictions.rows import Columns, ListRows, MatrixRows, MixedRows, Places, Rows, check_width
from app.predictions.service import headers_of, score
from app.tabular.types import Array

MATRIX = "X"
IN_MATRIX = Places(MATRIX)
NOT_A_TENSOR = frozenset({"contributions", SET})
OF_A_CERTIFICATE = frozenset({"score_error_bound", "label_certain"})


def infer_with(model: ServedModel, body: bytes, header_length: str | None) -> Reply:
    request = read_request(body, header_length, model.features)
    wanted = _wanted(request, _offered(model.outputs, is_certified=model.is_certified))
    rows = to_rows(request.inputs, model.features)
    scored = score(model, rows)
    columns = scored.columns([name for name, _ in wanted])
    outputs = [(_tensor(model, name, columns[name], rows), is_binary) for name, is_binary in wanted]
    document: dict[str, Any] = {"model_name": model.name, "model_version": str(model.version)}
    if request.id is not None:
        document["id"] = request.id
    content, json_length = write_response(document, outputs)
    headers = headers_of(model, scored)
    if json_length is None:
        return Reply(content, "application/json", headers)
    return Reply(content, "application/octet-stream", {**headers, HEADER_LENGTH: str(json_length)})


def rows_in(body: bytes, header_length: str | None, features: Features) -> Rows:
    return to_rows(read_request(body, header_length, features).inputs, features)


def to_rows(inputs: list[Tensor], features: Features) -> Rows:
    """Convert one input `X` [rows, features], or one input per column of shape [rows] or [rows, 1]."""
    if len(inputs) == 1 and inputs[0].name == MATRIX and len(inputs[0].shape) == 2:
        return _matrix(inputs[0], features)
    names = [tensor.name for tensor in inputs]
    if len(set(names)) != len(names):
        raise invalid_field("inputs", "duplicate_input", "an input occurs twice")
    columns: dict[str, Any] = {}
    for number, tensor in enumerate(inputs):
        if tensor.name == MATRIX and MATRIX not in features.index_of:
            raise invalid_field(f"inputs[{number}].shape", "wrong_shape", "X must have the shape [rows, features]")
        if tensor.shape[1:] not in ((), (1,)) or not tensor.shape or tensor.shape[0] != inputs[0].shape[0]:
            detail = "the input of a column must have the shape [rows] or [rows, 1]"
            raise invalid_field(f"inputs[{number}].shape", "wrong_shape", detail)
        columns[tensor.name] = tensor.values.ravel() if isinstance(tensor.values, np.ndarray) else tensor.values
    n_rows = inputs[0].shape[0] if inputs else 0
    features.admit(n_rows, "inputs")
    return Columns(columns, n_rows, Places("inputs"))


def outputs_of(model: ServedModel) -> dict[str, tuple[str, list[int]]]:
    """Return datatype and shape of every output that can be a tensor."""
    found = {}
    for name in _offered(model.outputs, is_certified=model.is_certified):
        shape = [-1, len(model.file.header.classes)] if name in ("scores", "probabilities") else [-1]
        found[name] = (_datatype(model, name), shape)
    return found


@cache
def _offered(outputs: tuple[str, ...], *, is_certified: bool) -> tuple[str, ...]:
    without = NOT_A_TENSOR if is_certified else NOT_A_TENSOR | OF_A_CERTIFICATE
    return tuple(name for name in outputs if name not in without)


def metadata(model: ServedModel, versions: list[str]) -> dict[str, Any]:
    features = model.features
    if set(features.names) <= set(features.numeric):
        inputs = [{"name": MATRIX, "datatype": "FP64", "shape": [-1, features.width]}]
    else:
        inputs = [
            {"name": name, "datatype": "FP64" if name in features.numeric else "BYTES", "shape": [-1]}
            for name in features.names
        ]
    outputs = outputs_of(model).items()
    return {
        "name": model.name,
        "versions": versions,
        "platform": "hyperplane",
        "inputs": inputs,
        "outputs": [{"name": name, "datatype": kind, "shape": shape} for name, (kind, shape) in outputs],
    }


def _matrix(tensor: Tensor, features: Features) -> Rows:
    n_rows, width = tensor.shape
    if n_rows:
        check_width(width, features.width, 0, IN_MATRIX)
    features.admit(n_rows, MATRIX)
    if isinstance(tensor.values, list):
        texts = tensor.values
        return ListRows([texts[first : first + width] for first in range(0, n_rows * width, width or 1)], IN_MATRIX)
    return MatrixRows(np.ascontiguousarray(tensor.values, dtype=np.float64), IN_MATRIX)


def _wanted(request: InferRequest, offered: tuple[str, ...]) -> list[tuple[str, bool]]:
    """Return the requested outputs, and whether each is to be binary."""
    if not request.outputs:
        return [(name, request.binary_output) for name in DEFAULT_OUTPUTS if name in offered]
    wanted = []
    for number, output in enumerate(request.outputs):
        if output.name not in offered:
            detail = f"this model has: {', '.join(offered)}"
            raise invalid_field(f"outputs[{number}].name", "unknown_output", detail)
        if "classification" in output.parameters:
            raise invalid_field(
                f"outputs[{number}].parameters",
                "unsupported",
                "the classification extension is not supported; omit this parameter",
            )
        wanted.append((output.name, output.parameters.get("binary_data", request.binary_output) is True))
    return wanted


def _tensor(model: ServedModel, name: str, column: Any, rows: Rows) -> Tensor:
    if name in OF_A_CERTIFICATE and isinstance(column, list):  # a tensor cannot hold the nulls of an overflow
        places = IN_MATRIX if isinstance(rows, MixedRows) else rows.places
        raise places.refuse(column.index(None), "overflow", f"its {name} exceeds the range of a 64-bit float")
    datatype = _datatype(model, name)
    if datatype == "BYTES":
        texts = [str(value) for value in plain(column)]
        return Tensor(name, datatype, (len(texts),), texts)
    values: Array = np.asarray(column)
    return Tensor(name, datatype, values.shape, values)


def _datatype(model: ServedModel, name: str) -> str:
    if name == "label_certain":
        return "BOOL"
    classes = model.file.header.classes
    if name not in ("label", "rank") or not classes:
        return "FP64"
    if any(isinstance(one, str) for one in classes):
        return "BYTES"
    return "INT64" if all(isinstance(one, int) and abs(one) < 2**63 for one in classes) else "FP64"
