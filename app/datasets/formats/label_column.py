"""Reads the labels of a file block by block: numbers, numbers in a format such as 1.234,5, or words."""

from typing import Any

import numpy as np
import pyarrow as pa

from app.datasets.formats.guess import Conventions, Facts, Guess, Stray, guess_numbers, is_numeric
from app.datasets.formats.labels import (
    MAX_NUMERIC_CLASSES,
    Encoded,
    NumberCounts,
    Verdict,
    WordCounts,
    check_storable,
)
from app.datasets.formats.number_cells import NumberFacts, read_numbers
from app.datasets.formats.table import FileError, FileWarning, InvalidFile, ReadOptions, excerpt
from app.tabular.cells import is_mark
from app.tabular.types import Array

__all__ = ["LabelColumn"]

NEARLY_DISTINCT = 0.5
"""Largest share of different labels among the rows of a text target. A target with more is an identifier or a free text
and not a class. Larger: more targets that cannot be learnt are accepted. Set by hand; no measurement is recorded."""
FEW_LABELS = 20
"""Number of different labels up to which NEARLY_DISTINCT does not apply. Larger: as above."""
LISTED_STRAYS = 5


class LabelColumn:
    """The target of a file. `clear` removes the labels and keeps what was found out about their format."""

    def __init__(self) -> None:
        self.conventions = Conventions()
        self.drops_missing = False
        self.may_be_numbers = False
        self.forced: str | None = None
        self._assumed: Guess | None = None
        self._is_words = False
        self._expects_commas = False
        self.clear()

    def prepare(
        self, options: ReadOptions, conventions: Conventions, forced: str | None, *, may_be_numbers: bool
    ) -> None:
        """Set what the read options say. `forced` is the kind that the option `columns` sets for the target."""
        self.conventions, self.forced, self.may_be_numbers = conventions, forced, may_be_numbers
        self.drops_missing = options.on_missing_target == "drop"

    def expect_commas(self) -> None:
        """Read labels as text, because other columns have a decimal comma: then the label 1.234 can mean 1234."""
        self._expects_commas = True

    def clear(self) -> None:
        self._counts: NumberCounts | WordCounts | None = None
        self._facts = Facts(typed=not self.may_be_numbers, numbers=NumberFacts(self.conventions.styles))
        self._strays: list[Stray] = []
        self._n_rows = 0
        self.n_dropped = 0

    def add(self, target: Array | Encoded) -> tuple[Array, Array | None]:
        """Add labels. Returns y, and which rows to keep; None: all of them."""
        is_missing: Array
        if isinstance(target, tuple):
            values, codes = target
            if self._numbers_wanted(values, codes):
                assert self._assumed is not None
                target = read_numbers(pa.array(values, pa.string()), self._assumed.format)[codes]
                is_missing = np.isnan(target)
                self._note_strays(values, codes, is_missing)
        else:
            is_missing = np.isnan(target)
        keep = None
        if not isinstance(target, tuple) and is_missing.any():
            keep = ~is_missing
            target = target[keep]
            self.n_dropped += int(np.count_nonzero(is_missing))
        self._n_rows += len(target[1]) if isinstance(target, tuple) else len(target)
        return self._count(target), keep

    def _count(self, target: Array | Encoded) -> Array:
        if isinstance(target, tuple):
            self._counts = self._counts or WordCounts()
            assert isinstance(self._counts, WordCounts)
            return self._counts.encode(target)
        self._counts = self._counts or NumberCounts()
        assert isinstance(self._counts, NumberCounts)
        self._counts.add(target)
        return target

    def _numbers_wanted(self, values: Any, codes: Array) -> bool:
        """Return whether labels that are text are numbers in some format. The first block decides; if it is wrong, the
        file is read again."""
        if self._is_words or self.forced == "categorical" or not all(isinstance(one, str) for one in values):
            return False
        check_storable(values)
        counts = np.bincount(codes, minlength=len(values))
        marks = np.array([is_mark(one) for one in values], dtype=np.bool_) if len(values) else np.zeros(0, np.bool_)
        self._facts.present += int(counts[~marks].sum())
        self._facts.numbers.add(pa.array(values, pa.string()), np.where(marks, 0, counts))
        if self._assumed is None and self._counts is None and self._is_number_column(len(values)):
            self._assumed = guess_numbers(self._facts, self._prefers_comma)
        return self._assumed is not None

    @property
    def _prefers_comma(self) -> bool:
        return self._expects_commas or self.conventions.prefers_comma

    def _is_number_column(self, n_values: int) -> bool:
        facts = self._facts
        if self.forced == "numeric":
            return True
        if not is_numeric(facts):
            return False
        has_format = facts.numbers.plain < facts.numbers.numbers
        return has_format or self._expects_commas or (self.may_be_numbers and n_values > MAX_NUMERIC_CLASSES)

    def _note_strays(self, values: Any, codes: Array, is_missing: Array) -> None:
        for row in np.flatnonzero(is_missing)[: LISTED_STRAYS - len(self._strays)].tolist():
            self._strays.append(Stray(self._n_rows + row + 1, values[int(codes[row])]))

    def settled(self) -> bool:
        """Return whether the labels are stored as what they are. If not, the file must be read again."""
        if self._assumed is None:
            return True
        final = guess_numbers(self._facts, self._prefers_comma)
        is_right = self.forced == "numeric" or is_numeric(self._facts)
        if is_right and final.format == self._assumed.format:
            return True
        self._is_words, self._assumed = not is_right, final if is_right else None
        return False

    @property
    def words(self) -> list[str] | None:
        """Return the sorted labels, or None if they are numbers."""
        return sorted(self._counts.words) if isinstance(self._counts, WordCounts) else None

    @property
    def ranks(self) -> Array | None:
        """Return the position of each code's label in sorted order; None if that is the code itself."""
        if not isinstance(self._counts, WordCounts):
            return None
        ranks = self._counts.ranks()
        return None if np.array_equal(ranks, np.arange(len(ranks))) else ranks

    @property
    def format(self) -> Guess | None:
        return self._assumed

    def judge(self, name: str | None) -> Verdict:
        """Return the classes, the task and warnings. Raises InvalidFile for labels that are not numbers, unlike nearly
        all others, and for text labels that nearly all differ."""
        assert self._counts is not None, "a table has rows"
        called = "The target" if name is None else f"The target {excerpt(name)}"
        if self._strays and not self.drops_missing:
            cure = "correct it, or leave such rows out with on_missing_target=drop"
            told = (f"{called} has {excerpt(stray.cell)} in row {stray.row}" for stray in self._strays)
            details = [f"{one}, but nearly all other labels are numbers; {cure}." for one in told]
            raise InvalidFile([FileError(None, None, "not_a_number", detail) for detail in details])
        pairs, hint, warnings = self._counts.judge()
        are_words = isinstance(self._counts, WordCounts) and self.forced != "categorical"
        if are_words and len(pairs) > max(FEW_LABELS, NEARLY_DISTINCT * self._n_rows):
            detail = (
                f"{called} has {len(pairs)} different texts in {self._n_rows} rows, such as "
                f"{excerpt(str(pairs[0][0]))}: they cannot be classes. Set target to another column, or "
                "columns=<name>:categorical if these are classes."
            )
            raise InvalidFile([FileError(None, None, "too_many_classes", detail)])
        if self._assumed and (unclear := self._facts.numbers.ambiguity(self._assumed.format)):
            detail = f"{called} has labels whose format is unclear: {unclear}. Set decimal or thousands."
            warnings = [*warnings, FileWarning("number_format_guessed", detail)]
        if self.n_dropped:
            detail = f"{self.n_dropped} rows without a label were left out, as on_missing_target=drop asks."
            warnings = [*warnings, FileWarning("rows_dropped", detail)]
        if marks := [(label, count) for label, count in pairs if isinstance(label, str) and is_mark(label)]:
            shown = ", ".join(f"{count} {excerpt(str(label))}" for label, count in marks)
            detail = (
                f"{called} has labels that often mean a missing value: {shown}. If they do, name them in missing and "
                "set on_missing_target=drop."
            )
            warnings = [*warnings, FileWarning("labels_like_missing", detail)]
        return pairs, hint, warnings
