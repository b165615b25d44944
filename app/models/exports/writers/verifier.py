"""A zip to check a certificate without this service: weights, dual point, claims, and a program that checks them.

The program (`app/models/exports/verifier/verify_model.py`) is included unchanged. It needs only numpy, shares no code
with the service, and reads `model.npz` and the training rows, which a job of type `verify` with `rows` writes.
"""

import io
import json
import zipfile
from importlib import resources
from typing import Any

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from app.models import linear
from app.models.exports.export_format import ExportFormat
from app.models.exports.probe import Probe
from app.models.exports.subject import Subject, not_in
from app.tabular.types import Array

PROGRAM, MODEL, README = "verify_model.py", "model.npz", "README.txt"
EXPLANATION = """\
{name}, version {version} ({id}): check its certificate with  python verify_model.py model.npz data.npz
The program needs Python 3.9 or newer and numpy. It exits with 0 (proved), 1 (not proved) or 2 (unusable files).
data.npz holds the training rows as the solver saw them. The service writes it: POST /v1/models/{id}/verify with
{{"rows": true}}, then GET /v1/jobs/{{job}}/output. Without preprocessing and without a split it is also
numpy.savez("data.npz", X=X, y=y), or data, indices, indptr of CSR; weight and group where the dataset has such.
{threshold}"""
THRESHOLD = """\
The model predicts {label} for a score above its tuned threshold {value!r} ("threshold" in the header of model.npz). The
threshold is no part of the problem that the certificate is about.
"""


def write(subject: Subject, difference: float | None) -> bytes:
    model = io.BytesIO()
    np.savez(model, allow_pickle=False, **_arrays(subject))
    threshold = ""
    if subject.threshold is not None:
        label = json.dumps(str(subject.file.header.classes[1]))
        threshold = THRESHOLD.format(label=label, value=subject.threshold)
    explanation = EXPLANATION.format(id=subject.id, name=subject.name, version=subject.version, threshold=threshold)
    program = resources.files("app.models.exports").joinpath("verifier", PROGRAM).read_bytes()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in ((PROGRAM, program), (MODEL, model.getvalue()), (README, explanation.encode())):
            archive.writestr(zipfile.ZipInfo(name), content)  # without a date, so that equal models give equal bytes
    return buffer.getvalue()


def scores(subject: Subject, content: bytes, probe: Probe) -> Array:
    """Compute scores with the weights of the solver, converted to the units of the columns."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive, np.load(io.BytesIO(archive.read(MODEL))) as stored:
        coef, intercept = stored["coef"], stored["intercept"]
    pipeline, column_of = subject.pipeline, None
    if pipeline is not None:
        coef, intercept = pipeline.fold(coef, intercept)
        column_of = None if pipeline.is_plain else pipeline.column_of_features
    return linear.scores(probe.features, coef, intercept, column_of)


def _arrays(subject: Subject) -> dict[str, Array]:
    header, file = subject.file.header, subject.file
    certificate = header.card.get("certificate")
    if not certificate or certificate.get("claimed"):
        raise not_in("verifier", "it was imported, so the problem that it solves is not known", "train it here")
    proof = _proof(subject)
    coef, intercept = file.coef, np.atleast_1d(file.intercept)
    if "solver.coef" in proof:
        coef, intercept = proof["solver.coef"], proof["solver.intercept"]
    elif subject.pipeline is not None:
        coef, intercept = subject.pipeline.unfold(coef, intercept)
    if _bias(subject) == "none":
        intercept = np.zeros_like(
            intercept
        )  # it is exactly 0 in the units of the solver; the converted value is rounding
    arrays = {"coef": coef, "intercept": intercept}
    for name, array in proof.items():
        number, _, part = name.partition(".")
        if part == "alpha":
            (places,) = np.nonzero(array)
            arrays |= {f"{number}.places": places, f"{number}.values": array[places]}
        elif part in NAMES:
            arrays[f"{number}.{NAMES[part]}"] = array
    return {"header": np.frombuffer(json.dumps(_claims(subject)).encode(), dtype=np.uint8), **arrays}


NAMES = {
    "alpha.places": "places",
    "alpha.values": "values",
    "planes.weights": "planes",
    "planes.multipliers": "multipliers",
}
"""Names that the program uses for the parts of a stored proof (`app/worker/stored_proof.py`)."""


def _proof(subject: Subject) -> dict[str, Array]:
    """Return the arrays of the stored proof; empty: there is none, and the program derives a dual point itself."""
    if subject.proof is None:
        return {}
    try:
        return safetensors.numpy.load(subject.proof.read_bytes())
    except (FileNotFoundError, SafetensorError):
        return {}


def _bias(subject: Subject) -> str:
    header = subject.file.header
    return "none" if header.task == "ordinal" else str(header.card["params"]["bias"])


def _claims(subject: Subject) -> dict[str, Any]:
    header = subject.file.header
    params, card = header.card["params"], header.card
    loss, wanted = params["loss"], params.get("class_weight")
    factors: Any = "balanced" if wanted == "balanced" else [1.0] * max(1, len(header.classes))
    if isinstance(wanted, dict):
        factors = [float(wanted.get(str(label), 1.0)) for label in header.classes]
    return {
        "format": "hyperplane-verifier",
        "version": 1,
        "model": {"id": subject.id, "name": subject.name, "version": subject.version},
        "task": header.task,
        "strategy": header.strategy,
        "classes": header.classes,
        "loss": loss,
        "p": params["p"] if loss == "hinge_p" else 2.0 if loss.startswith("squared") else 1.0,
        **{name: params[name] for name in ("C", "c_scale", "bias_scale", "epsilon")},
        "bias": _bias(subject),
        "threshold": subject.threshold,
        "class_factors": factors,
        "tol": params["tol"] if card["training"]["status"] == "converged" else None,
        "certificate": card["certificate"],
        "prepared": header.preprocess is not None,
    }


VERIFIER = ExportFormat(
    name="verifier",
    media_type="application/zip",
    suffix="verifier.zip",
    write=write,
    scores=scores,
    states_difference=False,
)
