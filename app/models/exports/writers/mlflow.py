"""MLflow: a zip of a model folder with the flavours `onnx` and `python_function`, for `mlflow.pyfunc.load_model`.

MLflow's own ONNX loader runs it: the folder contains no code and no pickle, and does not need Hyperplane. The loader
returns a data frame, so the model has only outputs with one value per row.
"""

import io
import json
import zipfile
from typing import Any

from app.models.exports.export_format import ExportFormat
from app.models.exports.probe import Probe
from app.models.exports.raw_columns import Table
from app.models.exports.subject import Subject
from app.models.exports.writers import onnx
from app.tabular.types import Array

FIRST_VERSION = "2.9.0"
"""Oldest version of MLflow that reads such a folder."""
REQUIREMENTS = ("mlflow>=2.9", "numpy", "onnx>=1.16", "onnxruntime>=1.18", "pandas")
DATA = "model.onnx"


def write(subject: Subject, difference: float | None) -> bytes:
    from onnx import __version__ as onnx_version  # imported late, as in onnx.py

    files = {
        # YAML. All texts of users are in the signature, which is JSON, a subset of YAML.
        "MLmodel": json.dumps(_description(subject, difference, onnx_version), indent=2).encode(),
        DATA: onnx.build(subject, difference, wide=False),
        "requirements.txt": "\n".join([*REQUIREMENTS, ""]).encode(),
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)  # without a date, so that equal models give equal bytes
    return buffer.getvalue()


def scores(subject: Subject, content: bytes, probe: Probe) -> Array:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return onnx.scores(subject, archive.read(DATA), probe)


def _description(subject: Subject, difference: float | None, onnx_version: str) -> dict[str, Any]:
    return {
        "flavors": {
            "onnx": {"code": None, "data": DATA, "onnx_version": onnx_version, "providers": ["CPUExecutionProvider"]},
            "python_function": {"data": DATA, "loader_module": "mlflow.onnx", "python_version": "3.11.0"},
        },
        "mlflow_version": FIRST_VERSION,
        "signature": {"inputs": json.dumps(_inputs(subject)), "outputs": None, "params": None},
        "metadata": {
            "hyperplane_model": subject.id,
            "hyperplane_name": subject.name,
            "hyperplane_version": subject.version,
            "max_score_difference": repr(difference),
        },
    }


def _inputs(subject: Subject) -> list[dict[str, Any]]:
    table = Table.of(subject, "mlflow")
    if table.words:
        kinds = dict.fromkeys(table.number_names, "double")
        kinds |= {words.name: "string" if words.is_text else "double" for words in table.words}
    elif table.names is not None:
        kinds = dict.fromkeys(table.names, "double")
    else:
        return [{"type": "tensor", "tensor-spec": {"dtype": "float64", "shape": [-1, table.n_columns]}}]
    return [{"name": name, "type": kind, "required": True} for name, kind in kinds.items()]


MLFLOW = ExportFormat(
    name="mlflow",
    media_type="application/zip",
    suffix="mlflow.zip",
    write=write,
    scores=scores,
)
