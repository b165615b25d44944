"""The scores as a sum over raw columns: numbers, categories and dates; `texts` adds those of texts.

A date is an input of type double: seconds since 1970-01-01 UTC, NaN for a missing one. ONNX has no type for dates and
no operator that parses one.
"""

import numpy as np

from app.models.exports.onnx_graph.graph import Graph
from app.models.exports.onnx_graph.texts import add_text
from app.models.exports.raw_columns import DateColumn, Table, Words
from app.preprocess.dates import DAY
from app.tabular.types import Array

MARCH_FIRST = 719_468
"""Days from 0000-03-01 to 1970-01-01. A year that starts in March has its leap day at the end."""
CYCLE = 146_097
"""Days of 400 years, after which the calendar repeats."""


def add_scores(graph: Graph, table: Table, intercept: Array) -> str:
    """Add the scores: [rows, scores per row]."""
    from onnx import TensorProto

    if table.is_numeric:
        graph.input("X", TensorProto.DOUBLE, table.n_columns)
        return _add_numbers(graph, "X", *_of_all_columns(table), intercept)
    parts = []
    if len(table.places):
        columns = [graph.input(name, TensorProto.DOUBLE) for name in table.number_names]
        matrix = graph.add("Concat", *(graph.add("Unsqueeze", name, graph.whole(1)) for name in columns), axis=1)
        parts.append(_add_numbers(graph, matrix, table.weights, table.fill, table.missing, intercept))
    else:
        parts.append(graph.constant(intercept[None]))
    for words in table.words:
        kind = TensorProto.STRING if words.is_text else TensorProto.DOUBLE
        column = graph.input(words.name, kind)
        parts.append((_add_categories if words.is_text else _add_levels)(graph, column, words))
    for date in table.dates:
        parts += _add_date(graph, graph.input(date.name, TensorProto.DOUBLE), date)
    for text in table.texts:
        parts += add_text(graph, graph.input(text.name, TensorProto.STRING), text)
    return graph.add("Sum", *parts)


def _of_all_columns(table: Table) -> tuple[Array, Array, Array]:
    """Return weights, fill values and weights of missing numbers for all columns; zeros for ignored ones."""
    if len(table.places) == table.n_columns:
        return table.weights, table.fill, table.missing
    weights = np.zeros((len(table.weights), table.n_columns))
    fill, missing = np.zeros(table.n_columns), np.zeros_like(weights)
    weights[:, table.places], fill[table.places], missing[:, table.places] = table.weights, table.fill, table.missing
    return weights, fill, missing


def _add_numbers(graph: Graph, matrix: str, weights: Array, fill: Array, missing: Array, intercept: Array) -> str:
    from onnx import TensorProto

    gaps, filled = "", matrix
    if not np.isnan(fill).all():
        gaps = graph.add("IsNaN", matrix)
        filled = graph.add("Where", gaps, graph.constant(fill[None]), matrix)
    factors = graph.constant(np.ascontiguousarray(weights.T))
    scores = graph.add("Gemm", filled, factors, graph.constant(intercept))
    if missing.any():
        counted = graph.add("Cast", gaps, to=TensorProto.DOUBLE)
        added = graph.add("MatMul", counted, graph.constant(np.ascontiguousarray(missing.T)))
        scores = graph.add("Add", scores, added)
    return scores


def _add_categories(graph: Graph, column: str, words: Words) -> str:
    """Map texts to category numbers and these to weights. Unknown and missing categories have the last numbers."""
    count = len(words.levels)
    numbers = {"": count + 1} | {level: number for number, level in enumerate(words.levels)}
    number = graph.add(
        "LabelEncoder",
        column,
        domain="ai.onnx.ml",
        keys_strings=list(numbers),
        values_int64s=list(numbers.values()),
        default_int64=count,
    )
    weights = np.vstack([words.weights.T, words.unknown, words.missing])
    return graph.add("Gather", graph.constant(weights), number, axis=0)


def _add_levels(graph: Graph, column: str, words: Words) -> str:
    """Compare a numeric column with each of its categories."""
    from onnx import TensorProto

    values = graph.add("Unsqueeze", column, graph.whole(1))
    equal = graph.add("Equal", values, graph.constant(np.array([words.numbers])))
    hits = graph.add("Cast", equal, to=TensorProto.DOUBLE)
    weighed = graph.add("MatMul", hits, graph.constant(np.ascontiguousarray(words.weights.T)))
    known = graph.add("Cast", graph.add("ReduceSum", hits, graph.whole(1), keepdims=1), to=TensorProto.BOOL)
    found = graph.add("Where", known, weighed, graph.constant(words.unknown[None]))
    return graph.add("Where", graph.add("IsNaN", values), graph.constant(words.missing[None]), found)


def _add_date(graph: Graph, column: str, date: DateColumn) -> list[str]:
    """Add the weighted parts of a date, given in seconds. A missing date has no weekday, month or hour."""
    from onnx import TensorProto

    gaps = graph.add("IsNaN", column)
    seconds = graph.add("Where", gaps, graph.constant(np.float64(0.0)), column)
    days = graph.add("Div", seconds, graph.constant(np.float64(DAY)))
    midnight = graph.add("Floor", days)
    day = graph.add("Cast", midnight, to=TensorProto.INT64)
    parts = []
    if date.days is not None:
        filled = graph.add("Where", gaps, graph.constant(np.float64(date.fill)), days)
        column_of_days = graph.add("Unsqueeze", filled, graph.whole(1))
        parts.append(graph.add("MatMul", column_of_days, graph.constant(date.days[None])))
    for part, weights in date.levels.items():
        if part == "weekday":
            level = graph.add("Mod", graph.add("Add", day, graph.whole(3)), graph.whole(7))
        elif part == "month":
            level, weights = _add_month(graph, day), np.roll(weights, -2, axis=1)  # from March on
        else:
            clock = graph.add("Sub", seconds, graph.add("Mul", midnight, graph.constant(np.float64(DAY))))
            hours = graph.add("Floor", graph.add("Div", clock, graph.constant(np.float64(3600.0))))
            level = graph.add("Cast", hours, to=TensorProto.INT64)
        count = weights.shape[1]
        chosen = graph.add("Where", gaps, graph.whole(count), level)
        table = np.vstack([weights.T, np.zeros(len(weights))])
        parts.append(graph.add("Gather", graph.constant(table), chosen, axis=0))
    if date.missing.any():
        number = graph.add("Cast", gaps, to=TensorProto.INT64)
        table = np.vstack([np.zeros_like(date.missing), date.missing])
        parts.append(graph.add("Gather", graph.constant(table), number, axis=0))
    return parts


def _add_month(graph: Graph, day: str) -> str:
    """Add the month of a day since 1970, counted from March = 0. All divisions are of numbers that are not negative."""

    def whole(operator: str, left: str, right: int) -> str:
        return graph.add(operator, left, graph.whole(right))

    place = whole("Mod", whole("Add", day, MARCH_FIRST), CYCLE)
    leaps = graph.add("Sub", whole("Div", place, 1460), whole("Div", place, 36_524))
    without = graph.add("Sub", graph.add("Sub", place, leaps), whole("Div", place, 146_096))
    year = whole("Div", without, 365)
    leap_days = graph.add("Sub", whole("Div", year, 4), whole("Div", year, 100))
    before = graph.add("Add", whole("Mul", year, 365), leap_days)
    day_of_year = graph.add("Sub", place, before)
    return whole("Div", whole("Add", whole("Mul", day_of_year, 5), 2), 153)
