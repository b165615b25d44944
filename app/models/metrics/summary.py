"""The short form of metrics and warnings that `view=summary` shows of jobs and models: no curve, no list."""

from collections.abc import Mapping, Sequence
from typing import Any

MAIN_FIGURES = (
    *("positive_class", "accuracy", "balanced_accuracy", "f1", "roc_auc", "pr_auc"),
    *("mae", "rmse", "r2", "swapped_pairs", "kendall_tau"),
)
"""Figures of a summary, of those that the task has."""


def brief_metrics(metrics: Mapping[str, Any], headline: str | None = None) -> dict[str, Any]:
    """Return the main figures of the test rows (without any: the training rows), and the headline metric of the
    baseline. The metrics of an evaluation are not by rows; they are shortened as they are."""
    part = next((name for name in ("test", "train") if metrics.get(name)), None)
    if part is None:
        return _named(metrics, MAIN_FIGURES)
    found = {part: _named(metrics[part], MAIN_FIGURES)}
    if baseline := metrics.get("baseline"):
        found["baseline"] = _named(baseline, ("prediction", headline or "accuracy"))
    return found


def brief_threshold(threshold: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return value and metric of a tuned threshold; None: there is none."""
    return None if threshold is None else _named(threshold, ("value", "metric"))


def brief_warnings(warnings: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return code and detail of each warning."""
    return [_named(one, ("code", "detail")) for one in warnings]


def _named(figures: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: figures[name] for name in names if figures.get(name) is not None}
