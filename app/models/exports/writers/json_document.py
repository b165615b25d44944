"""JSON: the whole model as one document, with exact numbers."""

import base64
import math
from typing import Any, Literal

import msgspec
import numpy as np

from app.errors import Invalid, Unparsable, invalid_field
from app.models.exports.export_format import TEXT_WEIGHTS, ExportFormat
from app.models.exports.probe import Probe, linear_scores
from app.models.exports.subject import Subject, describe
from app.models.file import Header, Task
from app.models.model_parts import EXTRA, Parts, checked_header
from app.tabular.array_shapes import is_possible
from app.tabular.types import Array

MAX_BRACKETS = 200_000
"""Maximum lists and objects of a document. A model has one list per class and few others; more would only cost memory
to decode. Set by hand; no measurement is recorded."""

DTYPES = Literal["<f8", "<i8", "|u1"]


class PackedArray(msgspec.Struct, forbid_unknown_fields=True):
    dtype: DTYPES
    shape: list[int]
    base64: bytes


class Description(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The description beside the arrays. A model written by hand needs only its task and its classes, if any."""

    task: Task
    strategy: str | None = None
    classes: list[str | int | float] = []
    n_features: int | None = None
    feature_names: list[str] | None = None
    preprocess: dict[str, Any] | None = None
    calibration: dict[str, Any] | None = None
    sets: dict[str, Any] | None = None
    card: dict[str, Any] = {}
    format: Literal["hyperplane-model"] = "hyperplane-model"
    version: Literal[1] = 1
    model: dict[str, Any] = {}
    max_score_difference: float | None = None


class Document(Description, forbid_unknown_fields=True, kw_only=True):
    coef: msgspec.Raw
    intercept: float | list[float] = 0.0
    thresholds: list[float] | None = None
    arrays: dict[str, PackedArray] = {}


def write(subject: Subject, difference: float | None) -> bytes:
    model = subject.file
    document = {
        **describe(subject, difference),
        "coef": model.coef.tolist(),
        "intercept": model.intercept if isinstance(model.intercept, float) else model.intercept.tolist(),
        "thresholds": None if model.thresholds is None else model.thresholds.tolist(),
        "arrays": {name: _pack(array) for name, array in {**model.extra, **model.set_arrays}.items()},
    }
    return msgspec.json.encode(document)


def scores(subject: Subject, content: bytes, probe: Probe) -> Array:
    return linear_scores(read(content).arrays, probe.features)


def read(content: bytes) -> Parts:
    if content.count(b"[") + content.count(b"{") > MAX_BRACKETS:
        raise Invalid(
            f"The document has more than {MAX_BRACKETS} lists and objects; send the model as npz or safetensors.",
            code="too_many_parts",
        )
    document = decode(content, Document)
    if document.task == "multiclass":
        coef = _numbers(decode(document.coef, list[list[float]], "coef"), "coef")
    else:
        coef = _numbers(decode(document.coef, list[float], "coef"), "coef")
    arrays = {"coef": coef, "intercept": np.atleast_1d(_numbers(document.intercept, "intercept"))}
    if document.thresholds is not None:
        arrays["thresholds"] = _numbers(document.thresholds, "thresholds")
    for name in document.arrays:
        if not name.startswith(EXTRA):
            raise invalid_field(
                f"arrays.{name[:64]}", "unknown_array", f"its name must begin with {' or '.join(EXTRA)}"
            )
    arrays |= {name: _unpack(f"arrays.{name[:64]}", packed) for name, packed in document.arrays.items()}
    return Parts(header_of(document, coef.shape[-1]), arrays)


def header_of(said: Description, n_features: int) -> Header:
    if said.n_features not in (None, n_features):
        raise invalid_field("n_features", "wrong_width", f"coef has {n_features} features")
    return checked_header(
        task=said.task,
        strategy=said.strategy,
        classes=said.classes,
        n_features=n_features,
        feature_names=said.feature_names,
        preprocess=said.preprocess,
        calibration=said.calibration,
        sets=said.sets,
        card=said.card,
    )


def decode(content: bytes | msgspec.Raw, kind: Any, place: str = "") -> Any:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError as error:
        detail, _, inner = str(error).partition(" - at `$")
        field = place + inner.removesuffix("`")
        raise invalid_field(field.lstrip(".")[:100] or "body", "invalid_body", detail[:200]) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unparsable(f"The body is not JSON: {error}.") from error
    except RecursionError as error:
        raise Unparsable("The body is nested too deeply.") from error


def _numbers(values: Any, field: str) -> Array:
    try:
        return np.array(values, dtype=np.float64)
    except ValueError as error:
        raise invalid_field(
            field, "ragged", "its rows differ in length; give every row one number per feature"
        ) from error


def _pack(array: Array) -> dict[str, Any]:
    dtype = {"f": "<f8", "i": "<i8", "u": "|u1"}[array.dtype.kind]
    content = np.ascontiguousarray(array, dtype=dtype).tobytes()
    return {"dtype": dtype, "shape": list(array.shape), "base64": base64.b64encode(content).decode()}


def _unpack(field: str, packed: PackedArray) -> Array:
    dtype = np.dtype(packed.dtype)
    if not is_possible(packed.shape) or math.prod(packed.shape) * dtype.itemsize != len(packed.base64):
        raise invalid_field(field, "wrong_shape", "the number of bytes does not match the shape")
    return np.frombuffer(packed.base64, dtype=dtype).reshape(packed.shape)


JSON = ExportFormat(
    name="json",
    media_type="application/json",
    suffix="json",
    write=write,
    scores=scores,
    keeps_sets=True,
    read=read,
    max_weights=TEXT_WEIGHTS,
)
