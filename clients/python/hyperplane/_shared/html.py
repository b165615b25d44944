"""How notebooks show datasets, models and jobs: tables and a convergence plot, as HTML without scripts."""

import math
from collections.abc import Iterable
from html import escape
from typing import Any

from hyperplane._shared.dataset_types import Dataset
from hyperplane._shared.types import JobState, Model, Trace

__all__ = ["convergence_svg", "dataset_html", "job_html", "model_html"]

WIDTH, HEIGHT, MARGIN = 480, 180, 46
"""Size of the plot and the room for its numbers, in pixels."""
SHOWN_COLUMNS = 12
"""Columns of a dataset that are listed. Larger: a longer table. Set by hand."""


def dataset_html(dataset: Dataset) -> str:
    """Show a dataset: its size, classes, columns and warnings."""
    classes = ", ".join(f"{one.label} ({one.count:,})" for one in dataset.classes)
    rows = [
        ("status", dataset.status),
        ("rows", _number(dataset.n_rows)),
        ("features", _number(dataset.n_features)),
        ("task", dataset.task_hint),
        ("classes", classes),
        ("columns", _shortened([column.name for column in dataset.columns], dataset.n_columns)),
        *(("warning", warning.detail) for warning in dataset.warnings),
    ]
    return _titled(f"Dataset {dataset.name or ''} {dataset.id}", _table(rows))


def model_html(model: Model) -> str:
    """Show a model: its certificate and metrics."""
    rows = [
        ("task", model.task),
        ("solver", model.solver),
        ("features", _number(model.n_features)),
        ("certificate", str(model.certificate) if model.certificate else "none"),
        *_metric_rows(model.metrics),
        *(("warning", warning.detail) for warning in model.warnings),
    ]
    return _titled(f"Model {model.name}:{model.version} {model.id}", _table(rows))


def job_html(job: JobState, trace: Trace | None) -> str:
    """Show a job: its state, its result and, if it is known, its convergence plot."""
    rows = [
        ("status", f"{job.status}, {job.progress:.0%}"),
        ("certificate", str(job.certificate) if job.certificate else None),
        ("error", job.error.message if job.error else None),
        *_metric_rows(job.metrics or {}),
    ]
    plot = convergence_svg(trace) if trace is not None else ""
    return _titled(f"Job {job.type} {job.id}", _table(rows) + plot)


def convergence_svg(trace: Trace) -> str:
    """Draw the relative gap over the seconds of a training, on a logarithmic axis. Empty without two points."""
    points = [(one.seconds, one.relative_gap) for one in trace.data if one.relative_gap]
    if len(points) < 2:
        return ""
    end = max(seconds for seconds, _ in points) or 1.0
    exponents = [math.log10(gap) for _, gap in points]
    low = math.floor(min([*exponents, math.log10(trace.tol) if trace.tol else min(exponents)]))
    high = max(math.ceil(max(exponents)), low + 1)

    def x(seconds: float) -> float:
        return MARGIN + (WIDTH - MARGIN - 8) * seconds / end

    def y(exponent: float) -> float:
        return 8 + (HEIGHT - 34) * (high - exponent) / (high - low)

    line = " ".join(f"{x(seconds):.1f},{y(e):.1f}" for (seconds, _), e in zip(points, exponents, strict=True))
    step = max(1, math.ceil((high - low) / 5))
    marks = "".join(
        f'<text x="{MARGIN - 6}" y="{y(e) + 4:.1f}" text-anchor="end">1e{e}</text>'
        f'<line x1="{MARGIN}" x2="{WIDTH - 8}" y1="{y(e):.1f}" y2="{y(e):.1f}" stroke="#8884"/>'
        for e in range(low, high + 1, step)
    )
    tol = y(math.log10(trace.tol)) if trace.tol else None
    goal = (
        f'<line x1="{MARGIN}" x2="{WIDTH - 8}" y1="{tol:.1f}" y2="{tol:.1f}" stroke="#2a2" stroke-dasharray="4 3"/>'
        if tol is not None
        else ""
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-label="relative gap over seconds" font-size="11" font-family="sans-serif" fill="currentColor">'
        f"{marks}{goal}"
        f'<polyline points="{line}" fill="none" stroke="#36c" stroke-width="2"/>'
        f'<text x="{WIDTH - 8}" y="{HEIGHT - 8}" text-anchor="end">{end:.3g} s</text>'
        f'<text x="{MARGIN}" y="{HEIGHT - 8}">relative gap over seconds</text></svg>'
    )


def _metric_rows(metrics: Any) -> Iterable[tuple[str, str]]:
    for part in ("train", "test"):
        figures = metrics.get(part) or {}
        shown = [f"{name} {value:.4g}" for name, value in figures.items() if isinstance(value, float)]
        if shown:
            yield part, ", ".join(shown)


def _shortened(names: list[str], total: int) -> str:
    shown = ", ".join(names[:SHOWN_COLUMNS])
    return shown if total <= SHOWN_COLUMNS else f"{shown}, … ({total:,} in all)"


def _number(value: int | None) -> str | None:
    return None if value is None else f"{value:,}"


def _titled(title: str, content: str) -> str:
    return f"<div><strong>{escape(title)}</strong>{content}</div>"


def _table(rows: Iterable[tuple[str, Any]]) -> str:
    cells = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(str(value))}</td></tr>'
        for name, value in rows
        if value not in (None, "")
    )
    return f"<table>{cells}</table>"
