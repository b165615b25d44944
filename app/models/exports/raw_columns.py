"""A model in terms of raw columns: numeric columns, and categorical columns with a weight per category.

    score = intercept + sum over numeric columns of weight x value, or of weight x fill + missing if it is missing
                      + sum over categorical columns of the weight of the category

For formats that read raw columns. A model without preprocessing has only numeric columns. Dates, hashed categories and
texts have no such form and are refused.
"""

from dataclasses import dataclass

import numpy as np

from app.models.exports.subject import Subject, not_in
from app.preprocess.categorical import OneHot
from app.preprocess.features import Encoder
from app.preprocess.pipeline import Pipeline
from app.preprocess.preprocess_error import called
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

    @classmethod
    def of(cls, subject: Subject, format_name: str) -> "Table":
        """Build the table of a model. Raises Invalid if the table cannot express one of its columns."""
        coef, pipeline = subject.rows_of_weights[0], subject.pipeline
        if pipeline is None:
            width, names = coef.shape[1], subject.file.header.feature_names
            refused, nothing = np.full(width, np.nan), np.broadcast_to(0.0, coef.shape)
            return cls(names, width, np.arange(width), np.zeros(width, dtype=bool), coef, refused, nothing, [])
        for encoder in pipeline.encoders:
            if not isinstance(encoder, OneHot):
                name = called(pipeline.name(encoder.column))
                raise not_in(format_name, f"column {name} {_obstacle(encoder)}", "use json, npz or safetensors")
        return _table(pipeline, coef)

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
    numbers, words = pipeline.numbers, []
    for encoder in pipeline.encoders:
        assert isinstance(encoder, OneHot)
        first, past = starts[encoder.column : encoder.column + 2]
        words.append(_words(encoder, pipeline.name(encoder.column), coef[:, first:past]))
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
    )


def _words(encoder: OneHot, name: str, weights: Array) -> Words:
    levels = encoder.levels.to_list()
    nothing, refused = np.zeros(len(weights)), np.full(len(weights), np.nan)
    unknown = weights[:, len(levels)] if encoder.has_other else nothing
    missing = weights[:, -1] if encoder.has_missing else nothing
    return Words(
        name,
        levels,
        encoder.stored,
        weights[:, : len(levels)],
        refused if encoder.refuses_unknown else unknown,
        refused if encoder.refuses_missing else missing,
    )


def _obstacle(encoder: Encoder) -> str:
    return {"text": "holds texts", "date": "holds dates"}.get(encoder.kind, "has hashed categories")
