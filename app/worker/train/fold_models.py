"""Puts the fold models of a cross-validation into the model file, for app/models/prediction_sets.py."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from app.jobs.admission import MOST_FOLD_BYTES
from app.jobs.validation.task import CLASS_TASKS
from app.models.prediction_sets import strangeness
from app.tabular.types import Array
from app.worker.train.cross_validation import Validation
from app.worker.train.load import Work


@dataclass(frozen=True)
class FoldModels:
    """The parts of a model file that prediction sets need."""

    parts: tuple[dict[str, Any], dict[str, Array]]
    """Header and arrays of the model file."""
    told: dict[str, Any]
    """Description for the model's card."""


def fold_models(
    work: Work, validation: Validation | None, *, is_tuned: bool = False
) -> FoldModels | dict[str, Any] | None:
    """Return the fold models; a description of why there are none; or None if there was no cross-validation.

    `is_tuned`: C or another setting was chosen on these rows.
    """
    if validation is None or validation.fold_of_row is None or not work.wants_validation:
        return None
    if work.task not in (*CLASS_TASKS, "regression"):
        return _nothing(f"task {work.task} has no prediction sets")
    n_folds = int(validation.fold_of_row.max()) + 1
    if len(validation.models) < n_folds:
        return _nothing("the job was finished before all folds were trained")
    models = [one for one in validation.models if one is not None]
    if len(models) < n_folds:
        return _nothing(f"the fold models need more than {MOST_FOLD_BYTES:,} bytes, or their weights overflow")
    scores = validation.scores
    if work.task == "regression":
        group, strange = np.zeros(len(scores), dtype=np.int64), np.abs(work.train.y - scores)
    else:
        group = work.train.codes(labels_of_rows(work))
        strange = strangeness(scores)[np.arange(len(group)), group]
    n_groups = int(group.max()) + 1
    place = group * n_folds + validation.fold_of_row
    order = np.lexsort((strange, place))
    counts = np.bincount(place, minlength=n_groups * n_folds).reshape(n_groups, n_folds).astype(np.int64)
    arrays: dict[str, Array] = {
        f"sets.{number}": np.frombuffer(one, dtype=np.uint8) for number, one in enumerate(models)
    }
    arrays |= {"sets.scores": np.asarray(strange[order], dtype=np.float64), "sets.counts": counts}
    header = {"folds": n_folds, "reason": _why_not_proven(work, str((validation.report or {}).get("by")), is_tuned)}
    told = {**header, "rows": len(scores), "bytes": sum(map(len, models))}
    return FoldModels((header, arrays), told)


def labels_of_rows(work: Work) -> list[Any]:
    """Return the labels of the training rows in the order of the solver's classes."""
    return [work.train.label(value) for value in np.unique(work.train.y).tolist()]


def _nothing(reason: str) -> dict[str, Any]:
    return {"folds": 0, "reason": reason, "rows": 0, "bytes": 0}


def _why_not_proven(work: Work, drawn_by: str, is_tuned: bool) -> str | None:
    """Return which assumption of the proof does not hold; None: all do."""
    if work.train.weight is not None:
        return "rows have weights, and the proof needs rows that count alike"
    if drawn_by == "group" or work.train.group is not None:
        return "the dataset has groups, and the proof needs rows that are independent of each other"
    if drawn_by == "fold_column":
        return "folds come from a column, and the proof needs folds that were drawn at random"
    if is_tuned:
        return "C was chosen on the same rows, so that their held-out scores are not those of new rows"
    return None
