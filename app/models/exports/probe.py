"""The rows on which an export is compared with predict: random rows of many magnitudes, and edge cases."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.errors import Invalid
from app.models import linear
from app.models.exports.raw_columns import Table, Words
from app.models.exports.subject import Subject
from app.tabular.types import Array

MAX_ROWS = 64
"""Maximum rows of the comparison. Larger: slower exports. Set by hand; no measurement is recorded."""
MAX_VALUES = 1 << 22
"""Maximum numbers in the rows of the comparison, so that wide models are compared on fewer rows. Larger: more memory,
slower exports. Set by hand; no measurement is recorded."""
SEED = 20_000
"""Seed of the random rows. A fixed seed makes the comparison repeatable."""


@dataclass(frozen=True)
class Probe:
    features: Any
    """Features of the rows: dense, or CSR."""
    numbers: Array | None
    """The same rows as a table of numbers, NaN: missing; None: the model has other columns, too."""
    columns: dict[str, list[Any]]
    """The same rows by column, for a model with categorical columns; empty: it has none, or other kinds."""
    expected: Array
    """Scores of predict for these rows."""


def probe_of(subject: Subject) -> Probe:
    pipeline, model = subject.pipeline, subject.file
    features: Any
    numbers, columns, column_of = None, {}, None
    if pipeline is None:
        features = numbers = _number_rows(model.header.n_features, model.coef)
    else:
        column_of = None if pipeline.is_plain else pipeline.column_of_features
        table = _expressible(subject)
        if table is None:
            features = _number_rows(model.header.n_features, model.coef)
        elif table.words:
            columns = _raw_columns(table)
            features, _ = pipeline.apply(columns, MAX_ROWS)
        else:
            numbers = _raw_numbers(table)
            features = pipeline.numbers.encode(numbers[:, table.places])
    expected = linear.scores(features, model.coef, model.intercept, column_of)
    return Probe(features, numbers, columns, expected)


def linear_scores(arrays: Mapping[str, Array], features: Any) -> Array:
    """Compute scores from the arrays as a reader of the file would: with BLAS, in any order of summation."""
    return np.asarray(features @ arrays["coef"].T + arrays["intercept"])


def largest_difference(expected: Array, found: Array) -> float:
    """Return the largest difference between scores: absolute if the expected score is at most 1, else relative.

    If a format gives one score for several classes, it is compared with the largest expected score, as in predict.
    """
    if expected.ndim > found.ndim:
        expected = expected.max(axis=1)
    return float(np.max(np.abs(found - expected) / np.maximum(1.0, np.abs(expected))))


def _expressible(subject: Subject) -> Table | None:
    try:
        return Table.of(subject, "")
    except Invalid:
        return None


def _number_rows(width: int, coef: Array) -> Array:
    """Return rows of zeros, ones, the feature with the largest weight alone; then random rows, half of them sparse."""
    count = max(6, min(MAX_ROWS, MAX_VALUES // width))
    generator = np.random.default_rng(SEED)
    rows = generator.standard_normal((count, width))
    rows[4:] *= 10.0 ** generator.uniform(-6, 6, size=(count - 4, 1))
    rows[5::2] *= generator.random((len(rows[5::2]), width)) < 0.2
    rows[0], rows[1], rows[2] = 0.0, 1.0, 0.0
    rows[2, np.abs(np.atleast_2d(coef)).max(axis=0).argmax()] = -1.0
    return rows


def _raw_numbers(table: Table) -> Array:
    """Return a number for every column, including ignored ones; missing values where they are allowed."""
    rows = _number_rows(table.n_columns, np.ones(table.n_columns))
    truths = table.places[table.boolean]
    rows[:, truths] = rows[:, truths] > 0
    gaps = np.zeros(rows.shape, dtype=bool)
    gaps[:, table.places[~np.isnan(table.fill)]] = True
    gaps &= np.add.outer(np.arange(len(rows)), np.arange(table.n_columns)) % 7 == 3
    return np.where(gaps, np.nan, rows)


def _raw_columns(table: Table) -> dict[str, list[Any]]:
    numbers = _raw_numbers(table)
    if len(numbers) < MAX_ROWS:  # few rows of a wide table: repeat them for more combinations with categories
        numbers = np.resize(numbers, (MAX_ROWS, table.n_columns))
    columns: dict[str, list[Any]] = {}
    for place, name in zip(table.places.tolist(), table.number_names, strict=True):
        columns[name] = [None if np.isnan(value) else value for value in numbers[:, place].tolist()]
    generator = np.random.default_rng(SEED)
    for words in table.words:
        choices = _choices(words)
        columns[words.name] = [choices[k] for k in generator.integers(0, len(choices), MAX_ROWS)]
    return columns


def _choices(words: Words) -> list[Any]:
    """Return known categories, an unknown one and a missing one, as far as the model allows them."""
    choices: list[Any] = list(words.levels if words.is_text else words.numbers)
    if words.stored != "boolean" and not np.isnan(words.unknown).any():
        choices.append("no level has this name" if words.is_text else -0.123456789)
    if not np.isnan(words.missing).any():
        choices.append(None)
    return choices
