"""Writes the model's card: its origin, certificate and metrics."""

import platform
import resource
import time
from typing import Any

import numba
import numpy as np

import solvers
from app import __version__
from app.datasets.schemas import Label
from app.models import metrics
from app.models.metrics.headline import headline_of
from app.worker.train.calibrate import Calibrated
from app.worker.train.cross_validation import Validation
from app.worker.train.load import Work
from app.worker.train.result_metrics import Judged, decision_of, labels_of
from app.worker.train.result_warnings import imbalanced_classes, result_warnings
from app.worker.train.tuned_threshold import TunedThreshold

NOT_PARAMETERS = {"type", "dataset_id", "model", "priority", "labels"}


def write_card(
    work: Work,
    result: solvers.SolveResult,
    validation: Validation | None,
    calibrated: Calibrated | None,
    threshold: TunedThreshold | None,
    started: float,
) -> dict[str, Any]:
    """Build the card. `started`: start of the job by `time.perf_counter`."""
    classes = labels_of(work.train, result)
    request, dataset = work.request, work.dataset
    params = request.model_dump(mode="json", exclude=NOT_PARAMETERS)
    chosen: dict[str, Any] = {
        "task": result.task,
        "strategy": result.strategy,
        "solver": result.solver,
        "loss": result.loss,
    }
    decision = decision_of(work)
    if result.task == "binary":
        chosen["positive_class"] = classes[decision.positive]
    if threshold is not None:
        decision = decision._replace(threshold=threshold.value)
    parts = {"train": work.train} if work.test is None else {"train": work.train, "test": work.test}
    judged = {name: Judged(rows, result, work.train, decision) for name, rows in parts.items()}
    last_part = list(parts)[-1]
    drawn = judged[last_part].curves()
    figures = _metrics(work, judged, calibrated)
    baseline = {"measured_on": last_part, **judged[last_part].baseline(work.train)}
    reported = None if validation is None or not work.wants_validation else validation.report
    measured = {**figures, "folds": None if reported is None else reported["mean"]}
    headline = headline_of(result.task, measured, imbalanced=imbalanced_classes(work))
    has_folds = validation is not None and (work.wants_validation or validation.report is None)
    return {
        "classes": classes,
        "strategy": result.strategy,
        "n_features": dataset.n_features,
        "params": {**params, **chosen},
        "certificate": certificate_of(result.certificate, result.per_class, classes),
        "headline": headline,
        "metrics": {**figures, "baseline": baseline},
        "threshold": None if threshold is None else threshold.told,
        "curves": None if drawn is None else {"rows": last_part, **drawn},
        "cross_validation": reported,
        "calibration": None if calibrated is None else calibrated.told,
        "preprocess": work.preprocess,
        "warnings": [
            *work.warnings,
            *result_warnings(work, judged, baseline, headline, has_folds=has_folds, is_tuned=threshold is not None),
        ],
        "training": {
            "status": str(result.status),
            "rows": len(work.train.y),
            "seconds": result.seconds,
            "total_seconds": time.perf_counter() - started,
            "iterations": result.iterations,
            "passes": result.passes,
            "threads": result.threads,
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        },
        "lineage": {
            "job_id": work.job.id,
            "dataset_id": dataset.id,
            "sha256": dataset.sha256,
            "seed": request.seed,
            "versions": {
                "hyperplane": __version__,
                "python": platform.python_version(),
                "numpy": np.__version__,
                "numba": numba.__version__,
            },
        },
    }


def _metrics(work: Work, judged: dict[str, Judged], calibrated: Calibrated | None) -> dict[str, Any]:
    """Return the metrics. Those of probabilities are computed on test rows only: the model has seen the others."""
    figures = {name: one.figures() for name, one in judged.items()}
    if work.test is not None and calibrated is not None:
        test = judged["test"]
        said = calibrated.calibration.probabilities(test.scores)
        figures["test"] |= metrics.probability_metrics(test.codes, said, work.test.weight)
    return figures


def certificate_of(
    certificate: solvers.Certificate, per_class: list[solvers.Certificate] | None, classes: list[Label]
) -> dict[str, Any]:
    """Return the certificate for the card: its figures in total, and for each class of a one-vs-rest model."""
    whole = _figures(certificate)
    if per_class is None:
        return whole
    parts = zip(classes, per_class, strict=True)
    return {**whole, "per_class": [{"label": label, **_figures(part)} for label, part in parts]}


def _figures(certificate: solvers.Certificate) -> dict[str, Any]:
    return {
        "primal": certificate.primal,
        "dual_bound": certificate.dual_bound,
        "gap": certificate.gap,
        "relative_gap": certificate.relative_gap,
        "method": certificate.method,
    }
