"""Preprocessing of a training job: learnt from the training rows only, applied to all rows."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from app.datasets.arrays import DatasetArrays
from app.jobs.schemas import SplitByDataset
from app.jobs.validation.preprocessing import resolve
from app.models.file import ModelFile
from app.preprocess.fit import aligned, fit, scale_warning, solver_rows
from app.preprocess.pipeline_document import from_document
from app.preprocess.preprocess_error import PreprocessError
from app.tabular.frame import Frame
from app.worker.failures import PermanentFailure
from app.worker.train.load import Work
from app.worker.train.result_warnings import codes_as_numbers

OF_REQUEST = {"unknown_column": "preprocess.columns", "missing_values": "preprocess.missing"}
"""Field of the request for each error code."""


def prepare(work: Work) -> Work:
    """Preprocess the rows of a job, and store what was learnt."""
    spec = resolve(work.request, work.dataset)
    if spec is None:
        columns = work.train.frame.columns
        warnings = [*scale_warning(work.train.frame), *codes_as_numbers(work.train.frame, None)]
        return replace(work, test=_tested(work, lambda frame: aligned(frame, columns).X), warnings=warnings)
    try:
        pipeline, report, warnings = fit(spec, work.train.frame, work.request.tol)
        train = _with_rows(work.train, solver_rows(pipeline, work.train.frame))
    except PreprocessError as error:
        raise _failure(error, OF_REQUEST.get(error.code, "preprocess")) from error
    test = _tested(work, lambda frame: solver_rows(pipeline, frame))
    warnings = [*warnings, *codes_as_numbers(work.train.frame, pipeline)]
    return replace(work, train=train, test=test, pipeline=pipeline, preprocess=report, warnings=warnings)


def _tested(work: Work, seen: Callable[[Frame], Any]) -> DatasetArrays | None:
    """Preprocess the test rows, if there are any."""
    if work.test is None:
        return None
    try:
        return _with_rows(work.test, seen(work.test.frame))
    except PreprocessError as error:
        is_other = isinstance(work.request.split, SplitByDataset)
        raise _failure(error, "split.test_dataset_id" if is_other else "preprocess") from error


def as_trained(stored: ModelFile, rows: DatasetArrays) -> tuple[DatasetArrays, Any, Any]:
    """Return (rows, coef, intercept) of a stored model in the units of its solver."""
    if stored.header.preprocess is None:
        return rows, stored.coef, stored.intercept
    pipeline = from_document(stored.header.preprocess, stored.extra)
    try:
        prepared = _with_rows(rows, solver_rows(pipeline, rows.frame))
    except PreprocessError as error:
        raise _failure(error, "dataset_id") from error
    return prepared, *pipeline.unfold(stored.coef, stored.intercept)


def is_served_from(stored: ModelFile, coef: Any, intercept: Any) -> bool:
    """Whether a stored model's weights equal these weights of the solver, converted to the units of the columns."""
    if stored.header.preprocess is None:
        return np.array_equal(stored.coef, coef) and np.array_equal(stored.intercept, intercept)
    pipeline = from_document(stored.header.preprocess, stored.extra)
    return pipeline.is_fold_of(stored.coef, stored.intercept, coef, intercept)


def _with_rows(rows: DatasetArrays, X: Any) -> DatasetArrays:
    return replace(rows, frame=Frame(X))


def _failure(error: PreprocessError, field: str) -> PermanentFailure:
    return PermanentFailure(error.code, f"{field}: {error.message}", field)
