"""LIBLINEAR's model file, for its program `predict` and compatible readers.

Labels are integers; other labels are replaced by their position in `classes`. Of two classes the first label has
positive scores. The intercept is the weight of a last feature, `bias`. The format has no place for a tuned threshold:
it is subtracted from the intercept.
"""

import re
from typing import Any

import numpy as np

from app.errors import Invalid, Unparsable, invalid_field
from app.models.exports.export_format import TEXT_WEIGHTS, ExportFormat
from app.models.exports.probe import Probe, linear_scores
from app.models.exports.raw_columns import Table
from app.models.exports.subject import Subject, not_in
from app.models.model_parts import Parts, checked_header
from app.tabular.types import Array

OTHERS = "use json, npz, safetensors, onnx, mlflow or sql"
LABEL_LIMIT = 2**31
"""Upper limit of labels: LIBLINEAR stores them as 32-bit integers."""
MAX_LINE = 1 << 20
"""Maximum bytes of a header line; longer lines are refused. Larger: a damaged file costs more memory. Set by hand; no
measurement is recorded."""
MAX_DIGITS = 12
"""Maximum digits of an integer in the file; longer numbers are refused. LIBLINEAR's 32-bit integers have at most 10."""

CLASSIFIERS = {
    ("hinge", "ovr"): "L2R_L1LOSS_SVC_DUAL",
    ("squared_hinge", "ovr"): "L2R_L2LOSS_SVC",
    ("hinge", "crammer_singer"): "MCSVM_CS",
    ("logistic", "ovr"): "L2R_LR",
}
REGRESSORS = {"squared_epsilon_insensitive": "L2R_L2LOSS_SVR"}
READ_CLASSIFIERS = {
    "L2R_LR": "logistic",
    "L2R_L2LOSS_SVC_DUAL": "squared_hinge",
    "L2R_L2LOSS_SVC": "squared_hinge",
    "L2R_L1LOSS_SVC_DUAL": "hinge",
    "MCSVM_CS": "hinge",
    "L1R_L2LOSS_SVC": "squared_hinge",
    "L1R_LR": "logistic",
    "L2R_LR_DUAL": "logistic",
}
READ_REGRESSORS = {
    "L2R_L2LOSS_SVR": "squared_epsilon_insensitive",
    "L2R_L2LOSS_SVR_DUAL": "squared_epsilon_insensitive",
    "L2R_L1LOSS_SVR_DUAL": "epsilon_insensitive",
}
NUMBERS = re.compile(rb"[0-9eE+.\-\s]*")


def label_numbers(classes: list[Any]) -> tuple[list[int], bool]:
    """Return (number of each class, whether these are the labels themselves and not their positions)."""
    if all(not isinstance(label, str) and label == int(label) and abs(label) < LABEL_LIMIT for label in classes):
        return [int(label) for label in classes], True
    return list(range(len(classes))), False


def write(subject: Subject, difference: float | None) -> bytes:
    header = subject.file.header
    lines = _head(subject)
    coef, intercept = subject.rows_of_weights
    intercept = intercept - (subject.threshold or 0.0)
    lines += [f"nr_feature {header.n_features}", "bias 1", "w"]
    if len(coef) == 1:
        lines += map(repr, [*coef[0].tolist(), *intercept.tolist()])
    else:
        lines += (" ".join(map(repr, row)) for row in [*coef.T.tolist(), intercept.tolist()])
    return "\n".join([*lines, ""]).encode()


def _head(subject: Subject) -> list[str]:
    header, pipeline = subject.file.header, subject.pipeline
    Table.of(subject, "liblinear")  # refuses models that raw columns cannot express
    if pipeline is not None and not pipeline.is_plain:  # its rows cannot have missing values, which predict would fill
        raise not_in("liblinear", "its features are not the raw columns", OTHERS)
    loss = str(header.card.get("params", {}).get("loss"))
    if header.task == "ordinal" and header.classes:
        raise not_in("liblinear", "the format has no thresholds for ranks", OTHERS)
    if header.task in ("ordinal", "regression"):
        return [f"solver_type {REGRESSORS.get(loss, 'L2R_L1LOSS_SVR_DUAL')}", "nr_class 2"]
    numbers, _ = label_numbers(header.classes)
    if header.task == "binary":
        numbers.reverse()
    elif len(numbers) == 2:
        raise not_in(
            "liblinear", "the format has one score for two classes, and this model has two", "train it as binary"
        )
    solver = CLASSIFIERS.get((loss, header.strategy or "ovr"), "L2R_L2LOSS_SVC")
    return [f"solver_type {solver}", f"nr_class {len(numbers)}", f"label {' '.join(map(str, numbers))}"]


def headers(subject: Subject) -> dict[str, str]:
    """Return headers that explain the class numbers of the file."""
    classes = subject.file.header.classes
    if not classes:
        return {}
    _, exact = label_numbers(classes)
    return {"X-Labels": "the labels themselves" if exact else "positions in classes, from 0"}


def scores(subject: Subject, content: bytes, probe: Probe) -> Array:
    return linear_scores(read(content).arrays, probe.features) + (subject.threshold or 0.0)


def read(content: bytes) -> Parts:
    head, mark, body = content.partition(b"\nw\n")
    if not mark:
        head, mark, body = content.replace(b"\r\n", b"\n").partition(b"\nw\n")
    fields = _fields(head)
    solver = fields.get("solver_type", "")
    if not mark or solver not in {**READ_CLASSIFIERS, **READ_REGRESSORS}:
        raise invalid_field("solver_type", "unsupported", "is not one of a linear classifier or regression model")
    classifies = solver in READ_CLASSIFIERS
    nr_class, nr_feature = _whole(fields, "nr_class"), _whole(fields, "nr_feature")
    bias = _real(fields, "bias")
    rows = nr_feature + (bias >= 0)
    columns = nr_class if classifies and (nr_class > 2 or solver == "MCSVM_CS") else 1
    weights = _weights(body, rows, columns)
    intercept = bias * weights[-1] if bias >= 0 else np.zeros(columns)
    labels = _labels(fields, nr_class) if classifies else []
    if classifies and columns == 2:  # like LIBLINEAR's predict: the first score decides
        weights, intercept, columns = weights[:, :1], intercept[:1], 1
    coef = np.ascontiguousarray(weights[:nr_feature].T if columns > 1 else weights[:nr_feature, 0])
    header = checked_header(
        task="regression" if not classifies else "binary" if columns == 1 else "multiclass",
        strategy=None if columns == 1 else "crammer_singer" if solver == "MCSVM_CS" else "ovr",
        classes=labels if columns > 1 else labels[::-1],
        n_features=nr_feature,
        feature_names=None,
        card={"params": {"solver": solver, "loss": {**READ_CLASSIFIERS, **READ_REGRESSORS}[solver]}},
    )
    return Parts(header, {"coef": coef, "intercept": intercept})


def _fields(head: bytes) -> dict[str, str]:
    fields = {}
    for line in head.split(b"\n", 20)[:20]:
        name, _, value = line.strip().partition(b" ")
        if len(line) > MAX_LINE or not line.isascii():
            raise Unparsable("The body is not a LIBLINEAR model file.")
        fields[name.decode()] = value.decode().strip()
    return fields


def _whole(fields: dict[str, str], name: str) -> int:
    text = fields.get(name, "")
    if not text.isdigit() or len(text) > MAX_DIGITS or not 1 <= int(text) < LABEL_LIMIT:
        raise invalid_field(name, "invalid", "must be an integer of at least 1")
    return int(text)


def _real(fields: dict[str, str], name: str) -> float:
    try:
        value = float(fields.get(name, ""))
    except ValueError:
        value = np.nan
    if not abs(value) < 1e100:
        raise invalid_field(name, "invalid", "must be a finite number")
    return value


def _labels(fields: dict[str, str], nr_class: int) -> list[int]:
    texts = fields.get("label", "").split()
    if len(texts) != nr_class or not all(re.fullmatch(r"[+-]?[0-9]{1,10}", text) for text in texts):
        raise invalid_field("label", "invalid", f"must be {nr_class} integers")
    return [int(text) for text in texts]


def _weights(body: bytes, rows: int, columns: int) -> Array:
    if not NUMBERS.fullmatch(body):
        raise invalid_field("w", "not_a_number", "contains a value that is not a number")
    texts = body.split()
    if len(texts) != rows * columns:
        raise invalid_field("w", "wrong_shape", f"has {len(texts)} numbers; {rows} x {columns} are needed")
    try:
        return np.array([float(text) for text in texts]).reshape(rows, columns)
    except ValueError as error:
        raise Invalid("w: contains a value that is not a number", code="not_a_number") from error


LIBLINEAR = ExportFormat(
    name="liblinear",
    media_type="text/x-liblinear-model",
    suffix="model",
    write=write,
    scores=scores,
    read=read,
    max_weights=TEXT_WEIGHTS,
    folds_threshold=True,
    states_difference=False,
    headers=headers,
)
