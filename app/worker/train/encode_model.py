"""Encodes results of trainings as model files: of the model, of a fold, and the interim model of a running training."""

from dataclasses import replace
from typing import Any

import numpy as np

import solvers
from app.jobs.admission import MOST_FOLD_BYTES
from app.jobs.repository import Claim
from app.models import file
from app.preprocess.categorical import OneHot
from app.preprocess.column_figures import rows_at_once
from app.preprocess.pipeline import Pipeline
from app.preprocess.pipeline_document import to_document
from app.tabular.frame import blocks_of
from app.tabular.types import Array
from app.worker.failures import PermanentFailure
from app.worker.train.calibrate import Calibrated
from app.worker.train.load import Work
from app.worker.train.result_metrics import labels_of


def encode_model(
    work: Work,
    result: solvers.LinearModel,
    card: dict[str, Any],
    calibrated: Calibrated | None = None,
    sets: tuple[dict[str, Any], dict[str, Array]] | None = None,
    threshold: float | None = None,
    means: Array | None = None,
) -> bytes:
    """Encode the model file. `sets`: header and arrays of its prediction sets. `threshold`: tuned, of a binary model.
    `means`: of the features, for explanations."""
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
        sets=None if sets is None else sets[0],
        card=card,
    )
    arrays = {
        "coef": coef,
        "intercept": np.atleast_1d(np.asarray(intercept)),
        **extra,
        **curves,
        **({} if sets is None else sets[1]),
    }
    thresholds = result.thresholds if threshold is None else np.array([threshold])
    if thresholds is not None:
        arrays["thresholds"] = thresholds
    if means is not None:
        arrays[file.MEANS] = means
    return file.encode(header, arrays)


def training_means(work: Work) -> Array | None:
    """Return the mean of each feature over the training rows, in raw units; None: a mean is not finite."""
    X, weight = work.train.X, work.train.weight
    counted = np.ones(X.shape[0]) if weight is None or not weight.any() else np.asarray(weight, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(X, np.ndarray):
            sums = np.zeros(X.shape[1])
            for start, block in blocks_of(X, rows_at_once(X.shape[1])):
                sums += counted[start : start + len(block)] @ block.astype(np.float64, copy=False)
        else:
            sums = np.asarray(X.T @ counted, dtype=np.float64)
        means: Array = sums / counted.sum()
        if work.pipeline is not None:
            shift, scale = work.pipeline.solver_units
            means = means * scale + shift
    return means if np.isfinite(means).all() else None


def encode_interim(work: Work, claim: Claim, report: solvers.StepReport) -> bytes | None:
    """Encode the interim model of a report; None: it has none, or its weights are not finite."""
    if not report.has_model:
        return None
    return encode_unfinished(work, claim, report.model(), report.passes, report.seconds, report.relative_gap)


def encode_unfinished(
    work: Work, claim: Claim, model: solvers.LinearModel, passes: int, seconds: float, gap: float | None
) -> bytes | None:
    """Encode a model of a job that still runs, if its weights are finite. Its card has only a few fields."""
    if not (np.isfinite(model.coef).all() and np.isfinite(model.intercept).all()):
        return None
    card = {
        "classes": labels_of(work.train, model),
        "job_id": claim.job_id,
        "attempt": claim.fence,
        "passes": passes,
        "seconds": seconds,
        "relative_gap": gap if gap is not None and np.isfinite(gap) else None,
    }
    try:
        return encode_model(work, model, card)
    except PermanentFailure:  # its weights can become finite later
        return None


def encode_fold(fold: Work, result: solvers.SolveResult, n_folds: int) -> bytes | None:
    """Encode the model of a fold for prediction sets; None: its weights overflow, or all folds would be too large.

    The file has the preprocessing of the fold, which was learnt from the fold's training rows only.
    """
    pipeline = None if fold.pipeline is None else _accepting(fold.pipeline)
    try:
        content = encode_model(replace(fold, pipeline=pipeline), result, {"classes": labels_of(fold.train, result)})
    except PermanentFailure:
        return None
    return content if n_folds * len(content) <= MOST_FOLD_BYTES else None


def _accepting(pipeline: Pipeline) -> Pipeline:
    """Return the pipeline without refusals of unknown categories: the model knows some that a fold has not seen."""
    encoders = [replace(one, refuses_unknown=False) if isinstance(one, OneHot) else one for one in pipeline.encoders]
    return replace(pipeline, encoders=tuple(encoders))
