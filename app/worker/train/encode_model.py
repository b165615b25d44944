"""Encodes the result of a training as a model file."""

from typing import Any

import numpy as np

import solvers
from app.models import file
from app.preprocess.pipeline_document import to_document
from app.tabular.types import Array
from app.worker.failures import PermanentFailure
from app.worker.train.calibrate import Calibrated
from app.worker.train.load import Work


def encode_model(
    work: Work, result: solvers.LinearModel, card: dict[str, Any], calibrated: Calibrated | None = None
) -> bytes:
    names = [column["name"] for column in work.dataset.columns if column["role"] == "feature"]
    coef, intercept, document = result.coef, result.intercept, None
    extra: dict[str, Array] = {}
    if work.pipeline is not None:
        coef, intercept = work.pipeline.fold(coef, intercept)
        document, extra = to_document(work.pipeline)
        if not np.isfinite(coef).all() or not np.isfinite(intercept).all():
            message = "the weights in the units of the columns exceed the range of a 64-bit float; set preprocess.scale"
            raise PermanentFailure("overflow", message, "preprocess.scale")
    calibration, curves = (None, {}) if calibrated is None else calibrated.calibration.stored()
    header = file.Header(
        task=result.task,
        strategy=result.strategy,
        classes=card["classes"],
        n_features=coef.shape[-1],
        feature_names=names if names and (work.pipeline is None or work.pipeline.is_plain) else None,
        preprocess=document,
        calibration=calibration,
        card=card,
    )
    arrays = {"coef": coef, "intercept": np.atleast_1d(np.asarray(intercept)), **extra, **curves}
    if result.thresholds is not None:
        arrays["thresholds"] = result.thresholds
    return file.encode(header, arrays)
