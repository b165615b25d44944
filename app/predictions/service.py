"""From a JSON body to an answer: rows in three shapes, a dot product each (or one a class)."""

import sys
from typing import Any

import msgspec
import numpy as np

from app.errors import Invalid, Unparsable, invalid_field
from app.predictions.answers import DEFAULT_OUTPUTS, answer
from app.predictions.served import ServedModel
from app.predictions.shadow import Outcome

Array = np.ndarray[Any, Any]


class PredictBody(msgspec.Struct, forbid_unknown_fields=True):
    instances: list[Any]
    wanted: list[str] | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="return")


class SparseRow(msgspec.Struct, forbid_unknown_fields=True):
    indices: list[int]
    values: list[float]


_decode = msgspec.json.Decoder(PredictBody).decode
_encode = msgspec.json.Encoder().encode


def predict(model: ServedModel, body: bytes) -> bytes:
    """Answer one request; raises Unparsable for what is not JSON and Invalid for what names no row."""
    request = _read(body)
    wanted = _chosen_outputs(model, request.wanted)
    scores = _finite_scores(model, request.instances)
    columns = answer(model.file, scores, wanted)
    predictions = [dict(zip(wanted, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    document = {"model": model.id, "name": model.name, "version": model.version}
    if "scores" in wanted:
        document["classes"] = model.file.header.classes  # the order of the scores
    return _encode({**document, "predictions": predictions})


def judge(model: ServedModel, body: bytes) -> Outcome:
    """Labels and scores of a request's rows, for a comparison of models."""
    scores = _finite_scores(model, _read(body).instances)
    labels = answer(model.file, scores, ("label",))["label"] if "label" in model.outputs else []
    return Outcome(labels, scores)


def _finite_scores(model: ServedModel, instances: list[Any]) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused below
        scores = _scores(model, instances)
    if not np.isfinite(scores).all():
        number = int(np.argmin(np.isfinite(scores.reshape(len(scores), -1)).all(axis=1)))
        raise _bad_row(number, "overflow", "its score is too large to be a number")
    return scores


def _read(body: bytes) -> PredictBody:
    try:
        request = _decode(body)
    except msgspec.ValidationError as error:
        detail, _, place = str(error).partition(" - at `$.")
        raise invalid_field(place.removesuffix("`") or "body", "invalid_body", detail) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unparsable(f"The body is not JSON: {error}.") from error
    except RecursionError as error:
        raise Unparsable("The body is nested too deeply.") from error
    if not request.instances:
        raise invalid_field("instances", "empty", "give at least one row")
    return request


def _chosen_outputs(model: ServedModel, wanted: list[str] | msgspec.UnsetType) -> tuple[str, ...]:
    """In one order, however they were asked for."""
    if wanted is msgspec.UNSET:
        return tuple(name for name in model.outputs if name in DEFAULT_OUTPUTS)
    for name in wanted or [""]:
        if name not in model.outputs:
            raise invalid_field("return", "unknown_output", f"this model returns: {', '.join(model.outputs)}")
    return tuple(name for name in model.outputs if name in wanted)


def _scores(model: ServedModel, instances: list[Any]) -> Array:
    """A score a row; of several classes: a score a row and class."""
    weights = model.file.coef.T
    if all(type(row) is list for row in instances):
        return _dense(model, instances) @ weights + model.file.intercept
    scores = np.empty((len(instances), *weights.shape[1:]))
    for number, row in enumerate(instances):
        if type(row) is list:
            indices, values = slice(None), _dense(model, [row], number)[0]
        elif type(row) is dict and row.keys() == {"indices", "values"} and "indices" not in model.index_of:
            indices, values = _sparse(model, number, row)
        elif type(row) is dict:
            indices, values = _named(model, number, row)
        else:
            raise _bad_row(number, "wrong_type", "a row is a list, {name: value} or {indices, values}")
        scores[number] = values @ weights[indices] + model.file.intercept
    return scores


def _dense(model: ServedModel, rows: list[list[Any]], first: int = 0) -> Array:
    width = model.file.header.n_features
    for number, row in enumerate(rows, first):
        if len(row) != width:
            raise _bad_row(number, "wrong_width", f"has {len(row)} values, the model has {width} features")
    try:
        matrix = msgspec.convert(rows, list[list[float]])
        table = np.array(matrix, dtype=np.float64)
    except (msgspec.ValidationError, OverflowError):
        table = np.full((len(rows), width), np.nan)
    if not np.isfinite(table).all():
        raise _first_bad_value(rows, first)
    return table


def _sparse(model: ServedModel, number: int, row: dict[str, Any]) -> tuple[Any, Array]:
    try:
        entries = msgspec.convert(row, SparseRow)
        indices, values = (
            np.array(entries.indices, dtype=np.int64),
            np.array(entries.values, dtype=np.float64),
        )
    except (msgspec.ValidationError, OverflowError) as error:
        raise _bad_row(number, "wrong_type", "indices must be integers and values numbers") from error
    width = model.file.header.n_features
    if len(indices) != len(values):
        raise _bad_row(number, "wrong_width", f"{len(indices)} indices but {len(values)} values")
    if len(indices) and (indices.min() < 0 or indices.max() >= width):
        raise _bad_row(number, "unknown_feature", f"indices must be from 0 to {width - 1}")
    if len(np.unique(indices)) != len(indices):
        raise _bad_row(number, "duplicate_feature", "an index is given twice")
    if not np.isfinite(values).all():
        raise _bad_row(number, "not_finite", "values must be finite numbers")
    return indices, values


def _named(model: ServedModel, number: int, row: dict[str, Any]) -> tuple[Any, Array]:
    """A row by feature names: all of them, so that a misspelt one is found and not read as a zero."""
    if not model.index_of:
        raise _bad_row(number, "unnamed_features", "the model's features have no names; send a list")
    if unknown := [name for name in row if name not in model.index_of]:
        raise _bad_row(number, "unknown_feature", f"the model has no feature {unknown[0][:64]!r}")
    if missing := [name for name in model.index_of if name not in row]:
        raise _bad_row(number, "missing_feature", f"the feature {missing[0]!r} is missing")
    return slice(None), _dense(model, [[row[name] for name in model.index_of]], number)[0]


def _first_bad_value(rows: list[list[Any]], first: int) -> Invalid:
    for number, row in enumerate(rows, first):
        for position, value in enumerate(row):
            field = f"instances[{number}][{position}]"
            if value is None:
                return invalid_field(field, "missing_value", "a value is missing")
            if type(value) not in (int, float) or abs(value) > sys.float_info.max:
                return invalid_field(field, "not_a_number", "must be a finite number")
    raise AssertionError("a row was refused for no reason")


def _bad_row(number: int, code: str, detail: str) -> Invalid:
    return invalid_field(f"instances[{number}]", code, detail)
