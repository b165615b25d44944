"""Exports: a model in the formats of others, each compared with predict before it leaves. No pickle."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from app.errors import invalid_field
from app.models.exports import json_document, liblinear, mlflow, numpy_npz, onnx, sql
from app.models.exports import safetensors as tensors
from app.models.exports.probe import Probe, largest_difference, probe_of
from app.models.exports.subject import Subject, not_in
from app.tabular.types import Array

__all__ = ["FORMATS", "Export", "FormatName", "SqlOutput", "Subject", "export"]

FormatName = Literal["json", "npz", "safetensors", "onnx", "liblinear", "sql", "mlflow"]
SqlOutput = Literal["score", "label"]

TEXT_WEIGHTS = 5_000_000
BINARY_WEIGHTS = 32_000_000
"""Larger models would not fit beside the service's other work: an export is made in memory."""


@dataclass(frozen=True)
class Format:
    media_type: str
    suffix: str
    write: Callable[[Subject, float | None], bytes]
    """The file; the difference in it is None in the draft that is compared."""
    scores: Callable[[Subject, bytes, Probe], Array]
    """What a written file says of rows."""
    max_weights: int = BINARY_WEIGHTS
    states_difference: bool = True
    """Whether the file has a place for it."""


@dataclass(frozen=True)
class Export:
    content: bytes
    media_type: str
    file_name: str
    max_score_difference: float
    headers: dict[str, str]


FORMATS: dict[FormatName, Format] = {
    "json": Format("application/json", "json", json_document.write, json_document.scores, TEXT_WEIGHTS),
    "npz": Format("application/x-npz", "npz", numpy_npz.write, numpy_npz.scores),
    "safetensors": Format("application/x-safetensors", "safetensors", tensors.write, tensors.scores),
    "onnx": Format("application/x-onnx", "onnx", onnx.write, onnx.scores),
    "liblinear": Format("text/x-liblinear-model", "model", liblinear.write, liblinear.scores, TEXT_WEIGHTS, False),
    "sql": Format("application/sql", "sql", sql.write_score, sql.scores),
    "mlflow": Format("application/zip", "mlflow.zip", mlflow.write, mlflow.scores),
}
SQL_LABEL = Format("application/sql", "label.sql", sql.write_label, sql.scores)


def export(subject: Subject, format_name: FormatName, output: SqlOutput | None) -> Export:
    """Write the model, compare what was written with predict, and write it again with the difference in it."""
    if output is not None and format_name != "sql":
        raise invalid_field("output", "unexpected", "only format=sql has a choice of outputs")
    chosen = SQL_LABEL if output == "label" else FORMATS[format_name]
    if subject.file.coef.size > chosen.max_weights:
        why = f"{subject.file.coef.size} weights are more than {chosen.max_weights}"
        raise not_in(format_name, why, "take npz or safetensors")
    draft, probe = chosen.write(subject, None), probe_of(subject)
    difference = largest_difference(probe.expected, chosen.scores(subject, draft, probe))
    file_name = f"{subject.name}-{subject.version}.{chosen.suffix}"
    headers = {"X-Max-Score-Difference": repr(difference)}
    if format_name == "liblinear" and subject.file.header.classes:
        _, exact = liblinear.label_numbers(subject.file.header.classes)
        headers["X-Labels"] = "the labels themselves" if exact else "positions in classes, from 0"
    content = chosen.write(subject, difference) if chosen.states_difference else draft
    return Export(content, chosen.media_type, file_name, difference, headers)
