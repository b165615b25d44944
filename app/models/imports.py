"""Imports models of other origin: checks them strictly, scores test rows, and registers them as a new version.

Their certificate, metrics and training facts are stored as claims: nothing here has recomputed them.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import numpy as np
from pydantic import ValidationError
from sqlalchemy.orm import Session

from app import __version__
from app.db.engine import current_time
from app.db.tables import ModelRow
from app.errors import CorruptModel, UnsupportedMediaType, invalid_field
from app.ids import new_id
from app.models import file, service
from app.models.calibration import Calibration
from app.models.exports import export_formats
from app.models.exports.probe import probe_of
from app.models.exports.subject import Subject
from app.models.model_parts import Parts, check_claims
from app.models.prediction_sets import PredictionSets
from app.models.schemas import Certificate
from app.preprocess.pipeline_document import from_document
from app.storage import BlobStore

READERS: dict[str, Callable[[bytes], Parts]] = {
    one.name: one.read for one in export_formats().values() if one.read is not None
}
MEDIA_TYPES = {export_formats()[name].media_type: name for name in READERS}
MAX_CLAIMS_BYTES = 1 << 20
"""Maximum bytes of the card of an imported model, which is stored in the model's row. Larger: larger rows and
responses. Set by hand; no measurement is recorded."""
SOLVER = "imported"
UNKNOWN_FOLDS = "the model was imported, so that it is not known here how its folds were drawn"
"""Why the coverage of an imported model's prediction sets is not guaranteed."""


def format_of(media_type: str) -> str:
    if media_type not in MEDIA_TYPES:
        raise UnsupportedMediaType(
            f"Send one of {', '.join(MEDIA_TYPES)} as Content-Type, or set the query parameter format."
        )
    return MEDIA_TYPES[media_type]


@dataclass(frozen=True)
class Imported:
    """A model whose file is stored, but not its row."""

    model: ModelRow
    content: bytes

    def register(self, session: Session, blobs: BlobStore) -> ModelRow:
        self.model.created_at = current_time(session)
        rewrites = {self.model.blob: partial(blobs.put, self.content)}  # an equal file can be deleted at this moment
        service.register(session, blobs, self.model, len(self.content), rewrites=rewrites)
        return self.model


def read_model(blobs: BlobStore, name: str, format_name: str, body: bytes) -> Imported:
    parts = READERS[format_name](body)
    card = _card(parts, format_name, hashlib.sha256(body).hexdigest())
    sets = None if parts.header.sets is None else {**parts.header.sets, "reason": UNKNOWN_FOLDS}
    content = file.encode(parts.header.model_copy(update={"card": card, "sets": sets}), parts.arrays)
    with blobs.stage() as staged:
        staged.write(content)
        staged.flush()
        _try(file.read(staged.path))
        blob = staged.commit()
    model = ModelRow(
        id=new_id("mdl"),
        name=name,
        job_id=None,
        blob=blob,
        task=parts.header.task,
        solver=SOLVER,
        converged=False,  # not known here
        card=card,
    )
    return Imported(model, content)


def _try(model: file.ModelFile) -> None:
    """Run all code that predict will use on the model once, before it is registered."""
    try:
        Calibration.of(model)
    except CorruptModel as error:
        raise invalid_field("calibration", "invalid", str(error)) from error
    subject = Subject("", "", 0, model)
    _try_sets(model)
    try:
        pipeline = subject.pipeline
    except CorruptModel as error:
        raise invalid_field("preprocess", "invalid", str(error)) from error
    if pipeline is not None and pipeline.n_features != model.header.n_features:
        detail = f"produces {pipeline.n_features} features; the weights have {model.header.n_features}"
        raise invalid_field("preprocess", "wrong_width", detail)
    if pipeline is not None and model.header.feature_names is not None:
        names = pipeline.names if pipeline.is_plain else None
        if names is None or list(names) != model.header.feature_names:
            raise invalid_field("feature_names", "contradiction", "must equal the column names of preprocess")
    with np.errstate(over="ignore", invalid="ignore"):
        scores = probe_of(subject).expected
    if not np.isfinite(scores).all():
        raise invalid_field(
            "coef", "overflow", "rows of usual magnitude have scores beyond the range of a 64-bit float"
        )


def _try_sets(model: file.ModelFile) -> None:
    """Open the fold models of prediction sets."""
    try:
        sets = PredictionSets.of(model)
        for fold in [] if sets is None else sets.folds:
            if fold.header.preprocess is not None:
                produced = from_document(fold.header.preprocess, fold.extra)
                if produced.n_features != fold.header.n_features or produced.n_columns != _n_columns(model):
                    raise CorruptModel("the preprocessing of a fold model does not match its weights or the model")
    except CorruptModel as error:
        raise invalid_field("sets", "invalid", str(error)) from error


def _n_columns(model: file.ModelFile) -> int:
    assert model.header.preprocess is not None, "checked by PredictionSets"
    return from_document(model.header.preprocess, model.extra).n_columns


def _card(parts: Parts, format_name: str, sha256: str) -> dict[str, Any]:
    header, said = parts.header, parts.header.card
    try:
        check_claims(said)
    except ValueError as error:
        raise invalid_field("card", "invalid", str(error)) from error
    claims = {name: said[name] for name in ("metrics", "training", "lineage") if name in said}
    params = said.get("params", {})
    if not isinstance(params, dict):
        raise invalid_field("card.params", "wrong_type", "must be an object")
    if len(msgspec.json.encode([claims, params])) > MAX_CLAIMS_BYTES:
        raise invalid_field("card", "too_large", f"exceeds the limit of {MAX_CLAIMS_BYTES} bytes")
    return {
        "classes": header.classes,
        "strategy": header.strategy,
        "n_features": header.n_features,
        "params": params,
        "certificate": _certificate(said.get("certificate")),
        "metrics": {},
        "threshold": {"value": float(parts.arrays["thresholds"][0])} if _is_tuned(parts) else None,
        "curves": None,
        "cross_validation": None,
        "sets": None if header.sets is None else {**header.sets, "reason": UNKNOWN_FOLDS},
        "training": {"status": SOLVER},
        "lineage": {
            "source": SOLVER,
            "format": format_name,
            "sha256": sha256,
            "versions": {"hyperplane": __version__},
            "claims": claims,
        },
    }


def _is_tuned(parts: Parts) -> bool:
    return parts.header.task == "binary" and "thresholds" in parts.arrays


def _certificate(said: Any) -> dict[str, Any] | None:
    if said is None:
        return None
    try:
        claimed = Certificate.model_validate(said)
    except ValidationError as error:
        field = ".".join(str(part) for part in ("card", "certificate", *error.errors()[0]["loc"]))
        raise invalid_field(field[:100], "invalid", "is not a valid field of a certificate") from error
    return {**claimed.model_dump(), "claimed": True}
