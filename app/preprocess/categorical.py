"""Encodes categorical columns: one feature per category, or a fixed number of features that the hash of a category
selects."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from app.preprocess.features import MISSING, OTHER, CountTerms, Feature, one_entry_a_row, untouched
from app.preprocess.hashing import bucket
from app.preprocess.preprocess_error import PreprocessError, called
from app.preprocess.spec import Choice
from app.preprocess.values import Levels
from app.tabular.frame import Kind, Strings
from app.tabular.types import Floats


@dataclass(frozen=True)
class OneHot:
    """One feature per category, then one for all rare categories and one for missing values, if training had any."""

    column: int
    stored: Kind
    levels: Strings
    has_other: bool
    has_missing: bool
    refuses_unknown: bool
    refuses_missing: bool
    kind: Literal["categorical"] = "categorical"

    @property
    def width(self) -> int:
        return len(self.levels) + self.has_other + self.has_missing

    @cached_property
    def _number_of(self) -> dict[str, int]:
        return {level: number for number, level in enumerate(self.levels.to_list())}

    def encode(self, values: Levels, name: str, count: CountTerms) -> sp.csr_array:
        unknown = len(self.levels) if self.has_other else -1
        missing = self.width - 1 if self.has_missing else -1
        number_of = self._number_of
        # an empty cell is a missing value, unless the empty text was a category in training
        lookup = [number_of.get(level, unknown if level else missing) for level in values.names]
        if self.refuses_unknown:
            for code, level in enumerate(values.names):
                if level and level not in number_of and (values.codes == code).any():
                    row = int((values.codes == code).argmax())
                    message = f"row {row}, column {called(name)}: the category did not occur in training"
                    raise PreprocessError("unknown_level", message, name, row)
        return one_entry_a_row(np.array([*lookup, missing], dtype=np.int64)[values.codes], self.width)

    def solver_units(self) -> tuple[Floats, Floats]:
        return untouched(self.width)

    def feature(self, number: int, name: str) -> Feature:
        if number < len(self.levels):
            level = self.levels[number]
            return Feature(f"{name}={level}", name, level=level, unit="level")
        shown = OTHER if self.has_other and number == len(self.levels) else MISSING
        return Feature(f"{name}={shown}", name, unit="level")

    def summary(self) -> dict[str, Any]:
        return {"levels": len(self.levels), "pooled": self.has_other, "unknown": _policy(self.refuses_unknown)}


@dataclass(frozen=True)
class HashedLevels:
    """`dims` features; the hash of a category selects one. Missing values have a feature of their own, if training had
    any."""

    column: int
    stored: Kind
    dims: int
    has_missing: bool
    refuses_missing: bool
    kind: Literal["categorical"] = "categorical"

    @property
    def width(self) -> int:
        return self.dims + self.has_missing

    def encode(self, values: Levels, name: str, count: CountTerms) -> sp.csr_array:
        missing = self.dims if self.has_missing else -1
        lookup = [bucket(level, self.dims) for level in values.names]
        return one_entry_a_row(np.array([*lookup, missing], dtype=np.int64)[values.codes], self.width)

    def solver_units(self) -> tuple[Floats, Floats]:
        return untouched(self.width)

    def feature(self, number: int, name: str) -> Feature:
        shown = f"{name}#{number}" if number < self.dims else f"{name}={MISSING}"
        return Feature(shown, name, unit="level")

    def summary(self) -> dict[str, Any]:
        return {"hash_dims": self.dims}


def fit_levels(column: int, stored: Kind, values: Levels, choice: Choice) -> OneHot | HashedLevels:
    counts = np.bincount(values.codes[values.codes >= 0], minlength=len(values.names))
    has_missing = bool((values.codes < 0).any())
    refuses_missing = choice.missing == "error"
    if choice.categorical == "hash":
        return HashedLevels(column, stored, choice.hash_dims, has_missing, refuses_missing)
    kept = sorted(level for level, n in zip(values.names, counts.tolist(), strict=True) if n >= choice.min_count)
    return OneHot(
        column,
        stored,
        levels=Strings.of(kept),
        has_other=bool(((counts > 0) & (counts < choice.min_count)).any()),
        has_missing=has_missing,
        refuses_unknown=choice.unknown == "error",
        refuses_missing=refuses_missing,
    )


def _policy(refuses: bool) -> str:
    return "error" if refuses else "ignore"
