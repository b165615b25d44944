"""The path of a search: a table of the cross-validation curve and of the weights of models of all rows, by C.

The weights are those of the solver, so those of scaled columns can be compared. Wide models keep the features that have
the largest weights in the trained model.
"""

import io
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

import solvers
from app.tabular.types import Array
from app.worker.failures import Stopped
from app.worker.train.load import Work
from app.worker.train.result_metrics import labels_of
from app.worker.worker_context import StopAsked

MOST_VALUES = 50
"""Maximum values of C with weights. Each costs a training of all rows. Larger: smoother curves of weights. Set by hand;
no measurement is recorded."""
MOST_FEATURES = 1000
"""Maximum features whose weights are stored. Larger: larger files. Set by hand; no measurement is recorded."""
CURVE = ("mean", "std", "lower_bound", "upper_bound", "relative_gap")
"""Fields of a trial that the table repeats."""

Train = Callable[[float, Any], solvers.SolveResult | None]
"""Trains all rows at C from given weights; None: the time is over."""


def path_table(report: dict[str, Any], work: Work | None, model: solvers.SolveResult | None, train: Train) -> bytes:
    """Write the table as an Arrow stream. Without a model there is only the curve."""
    trials = [one for one in report["trials"] if one["variant"] == report["best"]["variant"]]
    columns: dict[str, Sequence[Any]] = {"C": [one["C"] for one in trials]}
    columns |= {name: [one[name] for one in trials] for name in CURVE}
    about: dict[str, Any] = {"metric": report["metric"], "best": report["best"], "n_features": 0, "features": []}
    if work is not None and model is not None:
        weights, about["features"] = _weights(trials, report["best"]["C"], work, model, train)
        columns |= weights
        about["n_features"] = int(model.coef.shape[-1])
    table = pa.table({name: pa.array(values, pa.float64()) for name, values in columns.items()})
    table = table.replace_schema_metadata({"hyperplane.path": json.dumps(about)})
    buffer = io.BytesIO()
    with pa.ipc.new_stream(buffer, table.schema) as stream:
        stream.write_table(table)
    return buffer.getvalue()


def trainer_of(arguments: dict[str, Any], X: Any, y: Array, stop_reason: StopAsked, max_seconds: float | None) -> Train:
    """Return a function that trains all rows at a C, until the time is over or a client asks to finish."""
    began = time.monotonic()

    def hear(_: solvers.StepReport) -> bool:
        reason = stop_reason()
        if reason in ("cancel", "lost", "drain"):
            raise Stopped(reason)
        return reason is not None

    def train(C: float, start: Any) -> solvers.SolveResult | None:
        left = None if max_seconds is None else max_seconds - (time.monotonic() - began)
        if stop_reason() is not None or (left is not None and left <= 0.0):
            return None
        own = {**arguments, "C": C, "max_seconds": left, "callback": hear, "warm_start": start}
        return solvers.train(X, y, **own)

    return train


def _weights(
    trials: list[dict[str, Any]], best: float, work: Work, model: solvers.SolveResult, train: Train
) -> tuple[dict[str, list[float | None]], list[str]]:
    """Return the columns of weights and the names of their features."""
    values = [one["C"] for one in trials]
    chosen = {values[place] for place in np.linspace(0, len(values) - 1, min(len(values), MOST_VALUES)).astype(int)}
    coef = np.atleast_2d(model.coef)
    places = np.sort(np.argsort(-np.abs(coef).max(axis=0), kind="stable")[:MOST_FEATURES])
    names = [_feature_name(work, int(place)) for place in places]
    labels = labels_of(work.train, model)
    prefixes = [f"{label}:" for label in labels] if len(coef) > 1 else [""]
    keys = [f"{kind}:{prefix}{name}" for prefix in prefixes for kind, name in _kinds(names)]
    rows: list[list[float] | None] = []
    start: Any = None
    for C in values:
        found = model if best == C else train(C, start) if C in chosen else None
        if found is None:
            rows.append(None)
            continue
        start = (found.coef, found.intercept)
        kept = np.column_stack([np.atleast_1d(found.intercept), np.atleast_2d(found.coef)[:, places]])
        rows.append(kept.ravel().tolist())
    return {key: [None if row is None else row[j] for row in rows] for j, key in enumerate(keys)}, names


def _kinds(names: list[str]) -> list[tuple[str, str]]:
    return [("intercept", ""), *(("coef", name) for name in names)]


def _feature_name(work: Work, number: int) -> str:
    if work.pipeline is not None:
        return work.pipeline.feature(number).name
    names = [column["name"] for column in work.dataset.columns or () if column["role"] == "feature"]
    return str(names[number]) if names else str(number)
