"""What a model asks of a table: numbers, and words of which each adds a weight. For formats that take raw columns.

    score = intercept + sum over numbers of weight x value, or of weight x fill + missing where there is none
                      + sum over words of the weight of the word

A model without preprocessing has numbers only. Dates, hashed levels and texts need a program, and are refused.
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
    """A column of levels; weights have a row a score."""

    name: str
    levels: list[str]
    stored: Kind
    """What the column holds: texts, or numbers or truth values that were taken for levels."""
    weights: Array
    unknown: Array
    """What a level that training did not have adds; NaN: predict refuses it."""
    missing: Array
    """What no level adds; NaN: predict refuses it."""

    @property
    def is_text(self) -> bool:
        return self.stored in ("categorical", "text")

    @property
    def numbers(self) -> list[float]:
        """The levels of a column that holds no text."""
        return [TRUTHS[level] if self.stored == "boolean" else float(level) for level in self.levels]


@dataclass(frozen=True)
class Table:
    names: list[str] | None
    """Of all columns of the table; None: they have none."""
    n_columns: int
    places: Array
    """Which columns are numbers."""
    boolean: Array
    """Which of the numbers are truth values."""
    weights: Array
    """A row a score, a column a number; as all that follows."""
    fill: Array
    """What a missing number is taken for; NaN: predict refuses it."""
    missing: Array
    """What a missing number adds beside that."""
    words: list[Words]

    @classmethod
    def of(cls, subject: Subject, format_name: str) -> "Table":
        """Raises Invalid if a column needs more than a format of columns can do."""
        coef, pipeline = subject.rows_of_weights[0], subject.pipeline
        if pipeline is None:
            width, names = coef.shape[1], subject.file.header.feature_names
            refused, nothing = np.full(width, np.nan), np.broadcast_to(0.0, coef.shape)
            return cls(names, width, np.arange(width), np.zeros(width, dtype=bool), coef, refused, nothing, [])
        for encoder in pipeline.encoders:
            if not isinstance(encoder, OneHot):
                name = called(pipeline.name(encoder.column))
                raise not_in(format_name, f"column {name} {_obstacle(encoder)}", "take json, npz or safetensors")
        return _table(pipeline, coef)

    @property
    def number_names(self) -> list[str]:
        """Where columns have no names: `x` and the number that predict knows them by."""
        places = self.places.tolist()
        return [f"x{place}" for place in places] if self.names is None else [self.names[place] for place in places]

    @property
    def used(self) -> Array:
        """Which of the numbers count in any score."""
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
    return {"text": "holds texts", "date": "holds dates"}.get(encoder.kind, "has hashed levels")
