"""The rows on which an export is compared with predict: random rows of many magnitudes, and edge cases."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np

from app.models import linear
from app.models.exports.raw_columns import Table
from app.models.exports.subject import Subject
from app.preprocess.categorical import OneHot
from app.preprocess.dates import Dates
from app.preprocess.features import Encoder
from app.preprocess.numeric import Numbers
from app.preprocess.pipeline import Pipeline
from app.preprocess.terms import Terms
from app.tabular.date_text import EPOCH
from app.tabular.frame import Strings
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
    """The same rows by column as predict takes them, for a model with other columns than numbers; else empty."""
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
        if pipeline.encoders:
            columns = _raw_columns(pipeline)
            features, _ = pipeline.apply(columns, len(next(iter(columns.values()))))
        else:
            table = Table.of(subject, "")
            numbers = _raw_numbers(table.n_columns, pipeline.numbers)
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


def _raw_numbers(n_columns: int, numbers: Numbers) -> Array:
    """Return a number for every column, including ignored ones; missing values where they are allowed."""
    rows = _number_rows(n_columns, np.ones(n_columns))
    truths = numbers.columns[numbers.boolean]
    rows[:, truths] = rows[:, truths] > 0
    gaps = np.zeros(rows.shape, dtype=bool)
    gaps[:, numbers.columns[~numbers.refuses_missing]] = True
    gaps &= np.add.outer(np.arange(len(rows)), np.arange(n_columns)) % 7 == 3
    return np.where(gaps, np.nan, rows)


def _raw_columns(pipeline: Pipeline) -> dict[str, list[Any]]:
    """Return values of all columns that the model uses, as predict takes them. Wide models have fewer rows."""
    count = max(6, min(MAX_ROWS, MAX_VALUES // pipeline.n_features))
    numbers = _raw_numbers(pipeline.n_columns, pipeline.numbers)
    numbers = np.resize(numbers, (count, pipeline.n_columns))
    columns: dict[str, list[Any]] = {}
    for column in pipeline.numbers.columns.tolist():
        values = numbers[:, column].tolist()
        columns[pipeline.name(column)] = [None if np.isnan(value) else value for value in values]
    generator = np.random.default_rng(SEED)
    for encoder in pipeline.encoders:
        choices = _choices(encoder, generator)
        if not encoder.refuses_missing:
            choices.append(None)
        places = generator.integers(0, len(choices), count)
        columns[pipeline.name(encoder.column)] = [choices[place] for place in places]
    return columns


def _choices(encoder: Encoder, generator: np.random.Generator) -> list[Any]:
    """Return values of a column: known ones, and an unknown one if the model allows it."""
    known: list[Any]
    if isinstance(encoder, Dates):
        return _dates(generator)
    if encoder.stored == "boolean":
        return [True, False]
    if encoder.stored == "numeric":
        known = [float(level) for level in encoder.levels.to_list()] if isinstance(encoder, OneHot) else [0.0, 7.0, 2.5]
        unknown: Any = -0.123456789
    elif isinstance(encoder, Terms):
        return [_text(encoder.vocabulary or [], generator) for _ in range(MAX_ROWS)]
    else:
        known, unknown = encoder.levels.to_list() if isinstance(encoder, OneHot) else [], "no level has this name"
    return known if isinstance(encoder, OneHot) and encoder.refuses_unknown else [*known, unknown]


def _dates(generator: np.random.Generator) -> list[str]:
    """Return edge cases of the calendar, then random times of the years 1 to 9999 and of recent years."""
    chosen = ["1970-01-01", "1969-12-31T23:59:59Z", "1900-02-28", "2000-02-29T00:00:00Z", "2024-12-31T12:30:00Z"]
    early, late = generator.integers(-62_135_596_800, 253_402_300_800, 16), generator.integers(0, 2_000_000_000, 16)
    seconds = np.concatenate([early, late]).tolist()
    return chosen + [(EPOCH + timedelta(seconds=moment)).isoformat() for moment in seconds]


def _text(known: Strings | list[str], generator: np.random.Generator) -> str:
    """Return a text of known and unknown words in mixed case, with punctuation. It is not empty: ONNX has no missing
    texts, so an empty one stands for them."""
    words = []
    for _ in range(int(generator.integers(1, 9))):
        word = known[int(generator.integers(0, len(known)))] if len(known) and generator.random() < 0.8 else "Größe_7"
        words.append([word, word.upper(), word.capitalize()][int(generator.integers(0, 3))])
        words.append([" ", ", ", "-", " a ", "! \u0130"][int(generator.integers(0, 5))])
    return "".join(words)
