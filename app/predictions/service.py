"""Answers a prediction: body > rows > features > scores > outputs > response format."""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
import numpy as np

from app.errors import invalid_field
from app.models import linear
from app.predictions import request_bodies, response_formats
from app.predictions.model_cache import ServedModel
from app.predictions.model_features import Features
from app.predictions.outputs import DEFAULT_OUTPUTS, NEED_CLASSES, SET, Scored, chosen
from app.predictions.response_formats import Reply, plain
from app.predictions.rows import INSTANCES, MixedRows, Rows
from app.predictions.set_outputs import asked_coverage
from app.predictions.shadow import Outcome

Given = TypeVar("Given")


def predict_with(
    model: ServedModel,
    body: bytes,
    content_type: str | None,
    accept: str | None,
    *,
    wanted: str | None = None,
    coverage: float | None = None,
    index_base: int = 1,
    snapshot: Mapping[str, Any] | None = None,
) -> Reply:
    """Answer a request. `wanted` and `coverage` are parameters of the query. `snapshot`: additional response fields
    about an interim model."""
    media_type = response_formats.negotiated(accept)
    request = request_bodies.read(body, content_type, model.features, index_base)
    outputs = chosen(
        model.outputs,
        _asked(request.wanted, wanted),
        response_formats.default_outputs(media_type, model.outputs, DEFAULT_OUTPUTS),
    )
    level = asked_coverage(outputs, _given_once("coverage", request.coverage, coverage))
    scored = score(model, request.rows)
    said = {**about(model, scored), **(snapshot or {})}
    headers = headers_of(model, scored)
    if not NEED_CLASSES.isdisjoint(outputs):
        said["classes"] = model.file.header.classes
    if "contributions" in outputs:
        said["relative_to"] = headers["X-Relative-To"] = relative_to(scored)
    columns = scored.columns(outputs if level is None else [name for name in outputs if name != SET])
    if level is not None:
        columns[SET] = model.sets.answer(request.rows, scored.matrix, level)
        said["coverage"] = model.sets.coverage(level)
        headers["X-Coverage"] = msgspec.json.encode(said["coverage"]).decode()
    return Reply(response_formats.encode(media_type, said, columns), media_type, headers)


def score(model: ServedModel, rows: Rows) -> Scored:
    """Score the rows. Raises Invalid with the place of a row that has no finite score."""
    prepared = model.features.matrix(rows)
    matrix = prepared.matrix
    with np.errstate(over="ignore", invalid="ignore"):  # overflows are refused below
        scores = linear.scores(matrix, model.file.coef, model.file.intercept, model.features.column_of)
        total = np.add.reduce(scores, axis=None)
    if not math.isfinite(total) and not (finite := np.isfinite(scores)).all():
        number = int(np.argmin(finite.reshape(len(scores), -1).all(axis=1)))
        places = INSTANCES if isinstance(rows, MixedRows) else rows.places
        raise model.features.explain_not_finite(matrix, number, places)
    return Scored(model.file, model.features, matrix, scores, prepared.warnings)


def judge(model: ServedModel, read: Callable[[Features], Rows]) -> Outcome:
    """Return labels and scores of the rows of a request, to compare models."""
    scored = score(model, read(model.features))
    return Outcome(plain(scored.label) if "label" in model.outputs else [], scored.scores)


def about(model: ServedModel, scored: Scored) -> dict[str, Any]:
    """Return the fields of the response about the model and all rows."""
    said: dict[str, Any] = {"model": model.id, "name": model.name, "version": model.version}
    return {**said, "warnings": scored.warnings} if scored.warnings else said


def relative_to(scored: Scored) -> str:
    """Return what contributions are relative to."""
    return "zero" if scored.model.means is None else "training_mean"


def headers_of(model: ServedModel, scored: Scored) -> dict[str, str]:
    """Return the fields of `about` as response headers, for formats that cannot contain them."""
    headers = {"X-Model-Id": model.id, "X-Model-Name": model.name, "X-Model-Version": str(model.version)}
    if scored.warnings:
        headers["X-Warnings"] = ", ".join(warning["code"] for warning in scored.warnings)
    return headers


def _asked(in_body: list[str] | None, in_query: str | None) -> list[str] | None:
    listed = None if in_query is None else [name.strip() for name in in_query.split(",")]
    return _given_once("return", in_body, listed)


def _given_once(field: str, in_body: Given | None, in_query: Given | None) -> Given | None:
    if in_query is None:
        return in_body
    if in_body is not None:
        raise invalid_field(field, "given_twice", "is in the body and in the query; remove one of them")
    return in_query
