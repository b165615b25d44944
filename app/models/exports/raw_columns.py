"""A model in terms of raw columns: numeric and categorical columns, dates and texts, each with its weights.

    score = intercept + sum over numeric columns of weight x value, or of weight x fill + missing if it is missing
                      + sum over categorical columns of the weight of the category
                      + sum over date columns of weight x days, and the weights of weekday, month and hour
                      + sum over text columns of the weighted terms

For formats that read raw columns. A model without preprocessing has only numeric columns. A format states which of
dates and texts it can express; other columns, such as hashed ones, are refused by name.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from app.models.exports.subject import Subject, not_in
from app.preprocess.categorical import OneHot
from app.preprocess.dates import LEVELS, Dates
from app.preprocess.features import Encoder
from app.preprocess.pipeline import Pipeline
from app.preprocess.preprocess_error import called
from app.preprocess.terms import Terms
from app.tabular.frame import Kind
from app.tabular.types import Array

TRUTHS = {"true": 1.0, "false": 0.0}


@dataclass(frozen=True)
class Words:
    """A categorical column; weights have one row per score."""

    name: str
    levels: list[str]
    stored: Kind
    """Stored kind of the column: texts, or numbers or booleans that are used as categories."""
    weights: Array
    unknown: Array
    """Weight of an unknown category; NaN: predict refuses it."""
    missing: Array
    """Weight of a missing category; NaN: predict refuses it."""

    @property
    def is_text(self) -> bool:
        return self.stored in ("categorical", "text")

    @property
    def numbers(self) -> list[float]:
        """Return the categories of a column that is not text, as numbers."""
        return [TRUTHS[level] if self.stored == "boolean" else float(level) for level in self.levels]


@dataclass(frozen=True)
class DateColumn:
    """A date column; weights have one row per score."""

    name: str
    days: Array | None
    """Weight of a day since 1970, per score; None: the model does not use it."""
    fill: float
    """Number of days that replaces a missing date; NaN: predict refuses it."""
    levels: dict[str, Array]
    """Weights of the categories of `weekday`, `month` and `hour`, as far as the model uses them."""
    missing: Array
    """Additional weight of a missing date; NaN: predict refuses it."""


@dataclass(frozen=True)
class TextColumn:
    """A text column; weights have one row per score."""

    name: str
    terms: Terms
    weights: Array
    missing: Array
    """Weight of a missing text; NaN: predict refuses it."""


@dataclass(frozen=True)
class Table:
    names: list[str] | None
    """Names of all columns of the table; None: they have none."""
    n_columns: int
    places: Array
    """Positions of the numeric columns."""
    boolean: Array
    """Which of the numeric columns are boolean."""
    weights: Array
    """Weights: one row per score, one column per numeric column."""
    fill: Array
    """Value that replaces a missing number, per numeric column; NaN: predict refuses it."""
    missing: Array
    """Additional weight of a missing number, in the shape of `weights`."""
    words: list[Words]
    dates: list[DateColumn]
    texts: list[TextColumn]

    @classmethod
    def of(cls, subject: Subject, format_name: str, kinds: Collection[str] = ()) -> "Table":
        """Build the table of a model. `kinds`: those of `date` and `text` that the format can express.

        Raises Invalid if the format cannot express one of the model's columns.
        """
        coef, pipeline = subject.rows_of_weights[0], subject.pipeline
        if pipeline is None:
            width, names = coef.shape[1], subject.file.header.feature_names
            refused, nothing = np.full(width, np.nan), np.broadcast_to(0.0, coef.shape)
            return cls(names, width, np.arange(width), np.zeros(width, dtype=bool), coef, refused, nothing, [], [], [])
        for encoder in pipeline.encoders:
            obstacle = _obstacle(encoder, kinds)
            if obstacle is not None:
                name = called(pipeline.name(encoder.column))
                raise not_in(format_name, f"column {name} {obstacle}", _alternatives(encoder))
        return _table(pipeline, coef)

    @property
    def is_numeric(self) -> bool:
        """Return whether all columns are numeric, so that a row is a vector of numbers."""
        return not (self.words or self.dates or self.texts)

    @property
    def number_names(self) -> list[str]:
        """Return the names of the numeric columns; without names `x` and the column number."""
        places = self.places.tolist()
        return [f"x{place}" for place in places] if self.names is None else [self.names[place] for place in places]

    @property
    def used(self) -> Array:
        """Return which numeric columns have a nonzero weight in any score."""
        return np.asarray(((self.weights != 0.0) | (self.missing != 0.0)).any(axis=0))


def _table(pipeline: Pipeline, coef: Array) -> Table:
    starts = np.searchsorted(pipeline.column_of_features, np.arange(pipeline.n_columns + 1))
    numbers = pipeline.numbers
    words, dates, texts = [], [], []
    for encoder in pipeline.encoders:
        first, past = starts[encoder.column : encoder.column + 2]
        name, weights = pipeline.name(encoder.column), coef[:, first:past]
        if isinstance(encoder, OneHot):
            words.append(_words(encoder, name, weights))
        elif isinstance(encoder, Dates):
            dates.append(_dates(encoder, name, weights))
        else:
            assert isinstance(encoder, Terms)
            missing = _weight_of_missing(weights, encoder.has_missing, encoder.refuses_missing)
            texts.append(TextColumn(name, encoder, weights[:, : encoder.n_terms], missing))
    firsts = starts[numbers.columns]
    missing = np.zeros((len(coef), len(firsts)))
    missing[:, numbers.indicates] = coef[:, firsts[numbers.indicates] + 1]
    return Table(
        None if pipeline.names is None else list(pipeline.names),
        pipeline.n_columns,
        numbers.columns,
        numbers.boolean,
        coef[:, firsts],
        np.where(numbers.refuses_missing, np.nan, numbers.fill),
        missing,
        words,
        dates,
        texts,
    )


def _words(encoder: OneHot, name: str, weights: Array) -> Words:
    levels = encoder.levels.to_list()
    nothing, refused = np.zeros(len(weights)), np.full(len(weights), np.nan)
    unknown = weights[:, len(levels)] if encoder.has_other else nothing
    return Words(
        name,
        levels,
        encoder.stored,
        weights[:, : len(levels)],
        refused if encoder.refuses_unknown else unknown,
        _weight_of_missing(weights, encoder.has_missing, encoder.refuses_missing),
    )


def _dates(encoder: Dates, name: str, weights: Array) -> DateColumn:
    levels: dict[str, Array] = {}
    days, at = None, 0
    for part in encoder.parts:
        if part == "days":
            days, at = weights[:, at], at + 1
        else:
            levels[part] = weights[:, at : at + len(LEVELS[part])]
            at += len(LEVELS[part])
    missing = _weight_of_missing(weights, encoder.has_missing, encoder.refuses_missing)
    return DateColumn(name, days, np.nan if encoder.refuses_missing else encoder.fill, levels, missing)


def _weight_of_missing(weights: Array, has_missing: bool, refuses_missing: bool) -> Array:
    """Return the weight of a missing value, which is the last feature of a column; NaN: predict refuses it."""
    if refuses_missing:
        return np.full(len(weights), np.nan)
    return weights[:, -1] if has_missing else np.zeros(len(weights))


def _obstacle(encoder: Encoder, kinds: Collection[str]) -> str | None:
    """Return why a format with these kinds cannot express a column; None: it can."""
    if isinstance(encoder, OneHot):
        return None
    if isinstance(encoder, Terms):
        if encoder.vocabulary is None:
            return "holds texts with hashed terms"
        if encoder.stored not in ("categorical", "text"):
            return f"is {encoder.stored} and used as text"
    elif not isinstance(encoder, Dates):
        return "has hashed categories"
    return None if encoder.kind in kinds else f"holds {encoder.kind}s"


def _alternatives(encoder: Encoder) -> str:
    able = ["json", "npz", "safetensors", "mlflow"]
    if _obstacle(encoder, ("date", "text")) is None:
        able.append("onnx")
    if _obstacle(encoder, ("date",)) is None:
        able.append("sql")
    return f"use {', '.join(able[:-1])} or {able[-1]}"
