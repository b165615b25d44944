"""Warnings about a trained model and its columns, each with its cure. docs/reference/metrics.md explains each code."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from app.jobs.validation.task import CLASS_TASKS
from app.models.metrics.headline import is_imbalanced, is_worse
from app.preprocess.pipeline import MAX_NAMED, Pipeline
from app.preprocess.preprocess_error import called
from app.tabular.frame import Frame
from app.tabular.types import Array
from app.worker.train.load import Work
from app.worker.train.result_metrics import Judged

SMALL_SPREAD = 0.01
"""Range of the training rows' scores, in units of the margin (regression: of the target's standard deviation), below
which the weights count as zero. Larger: more warnings. Set by hand; no measurement is recorded."""

FEWEST_LEVELS, MOST_LEVELS = 3, 20
"""Number of different values of a column that can be codes. Two values are the same feature either way; one-hot of more
needs many rows. Set by hand; no measurement is recorded."""
ROWS_A_LEVEL = 5
"""Minimum training rows for each value of such a column. Larger: fewer warnings on small sets. Set by hand; no
measurement is recorded."""
LARGEST_CODE = 1_000_000
SAMPLE_ROWS = 256
"""Rows that rule out most columns before the whole column is read."""

WEIGH = '"class_weight": "balanced"'
TUNE = '"threshold": {"metric": "balanced_accuracy"}'

Warning = dict[str, Any]


def imbalanced_classes(work: Work) -> bool:
    """Whether the training rows of a class are rare; False: the task has no classes."""
    return work.task in CLASS_TASKS and is_imbalanced(np.unique(work.train.y, return_counts=True)[1])


def result_warnings(
    work: Work,
    judged: Mapping[str, Judged],
    baseline: Mapping[str, Any],
    headline: Mapping[str, Any] | None,
    *,
    has_folds: bool,
    is_tuned: bool,
) -> list[Warning]:
    """Return the warnings of a training result. `judged`: by `train` and `test`; `baseline`: of the last of them.
    `is_tuned`: whether the threshold is tuned."""
    part = list(judged)[-1]
    found = [
        _imbalanced(work),
        _one_class(judged[part], part),
        _worse_than_baseline(headline, baseline),
        _near_zero(work, judged["train"]),
        _training_only(work, has_folds=has_folds),
        _not_tuned(work, is_tuned=is_tuned),
    ]
    return [one for one in found if one is not None]


def _imbalanced(work: Work) -> Warning | None:
    if not imbalanced_classes(work) or work.request.class_weight is not None or work.request.threshold is not None:
        return None
    values, counts = np.unique(work.train.y, return_counts=True)
    label, count = work.train.label(values[counts.argmin()]), int(counts.min())
    offer = f"set {WEIGH}" + (f" or {TUNE}" if work.task == "binary" else "")
    detail = (
        f"class {label!r:.60} has {count:,} of {len(work.train.y):,} training rows ({count / len(work.train.y):.1%}), "
        f"so accuracy says little; compare balanced_accuracy and pr_auc, and {offer} if the class is missed"
    )
    return {"code": "imbalanced", "detail": detail, "class": label, "rows": count}


def _one_class(judged: Judged, part: str) -> Warning | None:
    n_classes = len(np.unique(judged.rows.y))
    if judged.n_predicted != 1 or n_classes < 2:
        return None
    detail = (
        f"all {len(judged.rows.y):,} {part} rows are predicted as the same class, although they have {n_classes}; set "
        f"{WEIGH}{f' or {TUNE}' if judged.scores.ndim == 1 else ''}, raise C, or add columns that separate the classes"
    )
    return {"code": "predicts_one_class", "detail": detail}


def _worse_than_baseline(headline: Mapping[str, Any] | None, baseline: Mapping[str, Any]) -> Warning | None:
    if headline is None or (constant := baseline.get(headline["name"])) is None:
        return None
    if not is_worse(headline["name"], headline["value"], constant):
        return None
    detail = (
        f"{headline['name']} is {headline['value']:.4g} ({headline['rows']} rows), and always predicting "
        f'{baseline["prediction"]!r:.60} reaches {constant:.4g}; scale the columns with "preprocess": {{}}, try '
        f'"C": "auto", or check the target column'
    )
    return {"code": "worse_than_baseline", "detail": detail}


def _near_zero(work: Work, trained: Judged) -> Warning | None:
    unit = float(np.std(work.train.y)) if work.task == "regression" else 1.0
    spread = float(np.ptp(trained.scores, axis=0).max())
    if spread > SMALL_SPREAD * unit or len(np.unique(work.train.y)) < 2:
        return None
    detail = (
        f"the scores of all training rows lie within {spread:.2g}, so the weights are nearly zero and the columns "
        'hardly matter; raise C or set "C": "auto", lower tol, or scale the columns with "preprocess": {}'
    )
    return {"code": "near_zero_weights", "detail": detail}


def _training_only(work: Work, *, has_folds: bool) -> Warning | None:
    if work.test is not None or has_folds:
        return None
    detail = (
        "metrics has figures of the training rows only, which are too good for new rows; hold out rows with "
        '"split": {"test": 0.2}, or set "cross_validation": 5'
    )
    return {"code": "training_figures_only", "detail": detail}


def _not_tuned(work: Work, *, is_tuned: bool) -> Warning | None:
    if work.request.threshold is None or is_tuned:
        return None
    detail = "no row of a class was held out before the job was finished, so the threshold is 0; run the job again"
    return {"code": "threshold_not_tuned", "detail": detail}


def codes_as_numbers(frame: Frame, pipeline: Pipeline | None) -> list[Warning]:
    """Return a warning that names the columns. `pipeline`: the preprocessing; None: all columns are numbers."""
    if not frame.columns or not isinstance(frame.X, np.ndarray):  # columns without names cannot be set one by one
        return []
    used = range(frame.n_features) if pipeline is None else pipeline.numbers.columns.tolist()
    names = [
        frame.columns[column].name
        for column in used
        if frame.columns[column].kind == "numeric" and _is_code(frame.X[:, column])
    ]
    if not names:
        return []
    shown = ", ".join(called(name) for name in names[:MAX_NAMED])
    shown += f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    detail = (
        f"columns of at most {MOST_LEVELS} different whole numbers are treated as numbers: {shown}; if they are codes, "
        f'set "preprocess": {{"columns": {{{json.dumps(names[0])}: {{"kind": "categorical"}}}}}}'
    )
    return [{"code": "codes_as_numbers", "detail": detail, "columns": names}]


def _is_code(values: Array) -> bool:
    return _are_few(values[:SAMPLE_ROWS], 1) and _are_few(values, FEWEST_LEVELS)


def _are_few(values: Array, fewest: int) -> bool:
    """Whether the values that are not missing are whole numbers with few different ones."""
    known = values[~np.isnan(values)]
    if not len(known) or np.abs(known).max() > LARGEST_CODE or (known != np.rint(known)).any():
        return False
    count = len(np.unique(known))
    return fewest <= count <= MOST_LEVELS and (fewest == 1 or len(known) >= ROWS_A_LEVEL * count)
