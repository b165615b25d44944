"""MLflow: a zip of a model folder with the flavour `python_function`, for `mlflow.pyfunc.load_model`.

Its loader is `app/models/exports/scorer/score_rows.py`, included unchanged: it needs only numpy and pandas, reads
`model.npz`, and applies the whole preprocessing, also of dates, texts and hashed columns. Nothing is pickled. The name
of the module contains a hash of its content, so that models of several releases can be loaded in one process.
"""

import hashlib
import io
import json
import zipfile
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from app.models.exports.export_format import ExportFormat
from app.models.exports.probe import Probe
from app.models.exports.scorer import score_rows
from app.models.exports.subject import Subject, describe
from app.models.exports.writers.numpy_npz import pack
from app.tabular.types import Array

FIRST_VERSION = "2.19.0"
"""Oldest version of MLflow with the column type `any`."""
REQUIREMENTS = ("mlflow>=2.19", "numpy", "pandas")
DATA = "model.npz"


def write(subject: Subject, difference: float | None) -> bytes:
    loader, program = _loader()
    files = {
        # YAML. All texts of users are in JSON, a subset of YAML.
        "MLmodel": json.dumps(_description(subject, difference, loader), indent=2).encode(),
        DATA: pack({**describe(subject, difference), "sets": None}, _arrays(subject)),
        f"code/{loader}.py": program,
        "requirements.txt": "\n".join([*REQUIREMENTS, ""]).encode(),
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)  # without a date, so that equal models give equal bytes
    return buffer.getvalue()


def scores(subject: Subject, content: bytes, probe: Probe) -> Array:
    """Compute scores with the program of the folder. Scores of one class have one dimension, as those of predict."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        model = score_rows.read_model(io.BytesIO(archive.read(DATA)))
    columns: dict[Any, Any] = probe.columns
    if probe.numbers is not None:
        columns = {name: probe.numbers[:, place] for place, name in enumerate(model.names)}
    found: Array = np.asarray(model.scores(columns, len(probe.expected)))
    return found[:, 0] if probe.expected.ndim == 1 else found


def _arrays(subject: Subject) -> dict[str, Array]:
    """Return the arrays that the loader uses: all but the fold models of prediction sets."""
    return {name: array for name, array in subject.arrays.items() if name not in subject.file.set_arrays}


@cache
def _loader() -> tuple[str, bytes]:
    """Return the name and the content of the module that reads the folder."""
    program = resources.files("app.models.exports").joinpath("scorer", "score_rows.py").read_bytes()
    return f"hyperplane_scorer_{hashlib.sha256(program).hexdigest()[:12]}", program


def _description(subject: Subject, difference: float | None, loader: str) -> dict[str, Any]:
    inputs = _inputs(subject)
    return {
        "flavors": {
            "python_function": {"code": "code", "data": DATA, "loader_module": loader, "python_version": "3.11.0"},
        },
        "mlflow_version": FIRST_VERSION,
        **({"signature": {"inputs": json.dumps(inputs), "outputs": None, "params": None}} if inputs else {}),
        "metadata": {
            "hyperplane_model": subject.id,
            "hyperplane_name": subject.name,
            "hyperplane_version": subject.version,
            "max_score_difference": repr(difference),
        },
    }


def _inputs(subject: Subject) -> list[dict[str, Any]]:
    """Return the columns by name; empty: they have no names, and a row is a vector.

    All are of type `any`, because MLflow refuses 64-bit integers for `double`, and texts for `datetime`. The loader
    checks the cells.
    """
    pipeline = subject.pipeline
    if pipeline is None:
        names = subject.file.header.feature_names or []
    else:
        kept = (number for number in range(pipeline.n_columns) if number not in pipeline.ignored)
        names = [] if pipeline.names is None else [pipeline.names[number] for number in kept]
    return [{"name": name, "type": "any", "required": True} for name in names]


MLFLOW = ExportFormat(
    name="mlflow",
    media_type="application/zip",
    suffix="mlflow.zip",
    write=write,
    scores=scores,
)
