"""Models with random weights over the features of a fitted pipeline, to export and compare with predict."""

from pathlib import Path
from typing import Any

import numpy as np

from app.models import file
from app.models.exports.subject import Subject
from app.models.exports.writers import json_document
from app.preprocess.fit import fit
from app.preprocess.pipeline_document import to_document
from app.preprocess.spec import Preprocess
from app.tabular.frame import Frame
from tests.support.builders import InProcess, model_header


def model_document(spec: dict[str, Any], rows: Frame, scores: int, folder: Path) -> bytes:
    """A model with random weights over the features of a fitted pipeline, as its export would be."""
    generator = np.random.default_rng(scores)
    pipeline = fit(Preprocess.model_validate(spec), rows).pipeline
    described, arrays = to_document(pipeline)
    header = model_header(
        pipeline.n_features,
        task="multiclass" if scores > 1 else "binary",
        classes=["low", "mid", "high"][: max(2, scores)],
        preprocess=described,
        card={},
    )
    coef = generator.normal(size=(scores, pipeline.n_features) if scores > 1 else (pipeline.n_features,))
    coef = coef / pipeline.solver_units[1]  # a day has a small weight, as a trained one has
    path = folder / "model"
    path.write_bytes(file.encode(header, {"coef": coef, "intercept": generator.normal(size=scores), **arrays}))
    return json_document.write(Subject("mdl_x", "m", 1, file.read(path)), None)


def send_model(client: InProcess, name: str, content: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    response = client.post("/v1/models/import", params={"name": name}, content=content, headers=headers)
    assert response.status_code == 201, response.text


def exported(http: InProcess, name: str, kind: str, **query: str) -> bytes:
    response = http.get(f"/v1/models/{name.replace(' ', '_')}/export", params={"format": kind, **query})
    assert response.status_code == 200, response.text
    assert 0.0 <= float(response.headers["x-max-score-difference"]) <= 1e-9
    return response.content


def predicted(http: InProcess, name: str, rows: list[dict[str, Any]]) -> tuple[np.ndarray, list[Any]]:
    wanted = "scores" if name.endswith("3") else "score"
    body = {"instances": rows, "return": ["label", wanted]}
    response = http.post(f"/v1/models/{name.replace(' ', '_')}/predict", json=body)
    assert response.status_code == 200, response.text
    told = response.json()["predictions"]
    return np.array([row[wanted] for row in told]), [row["label"] for row in told]
