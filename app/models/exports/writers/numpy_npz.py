"""npz: the arrays in NumPy's format, and the description as JSON in `header`. No pickle."""

import io
from typing import Any

import msgspec
import numpy as np

from app.models.exports.export_format import ExportFormat
from app.models.exports.probe import Probe, linear_scores
from app.models.exports.subject import Subject, describe
from app.tabular.types import Array


def write(subject: Subject, difference: float | None) -> bytes:
    return pack(describe(subject, difference), subject.arrays)


def pack(description: dict[str, Any], arrays: dict[str, Array]) -> bytes:
    header = np.frombuffer(msgspec.json.encode(description), dtype=np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, header=header, **arrays)
    return buffer.getvalue()


def scores(subject: Subject, content: bytes, probe: Probe) -> Array:
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        return linear_scores(stored, probe.features)


NPZ = ExportFormat(
    name="npz",
    media_type="application/x-npz",
    suffix="npz",
    write=write,
    scores=scores,
    keeps_sets=True,
)
