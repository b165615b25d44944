"""Collects the cells of features, determines the kind of each feature, and stores the cells by kind."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from app.datasets.formats.column_roles import Source
from app.datasets.formats.column_warnings import (
    LEFT_OUT_INTEGERS,
    LEFT_OUT_WORDS,
    about,
    left_out_warnings,
    listed,
    marks_warning,
    word_warnings,
)
from app.datasets.formats.column_watch import ColumnWatch
from app.datasets.formats.guess import Conventions, Evidence, Guess, is_numeric
from app.datasets.formats.table import ColumnSummary, FileError, FileWarning, InvalidFile
from app.datasets.formats.words import LevelBudget, WordCells, WordColumn, text_chunks
from app.tabular.types import Array

if TYPE_CHECKING:
    from app.datasets.formats.collect import Sink

__all__ = ["LEFT_OUT", "Features"]

MAX_TEXT_COLUMNS = 100
"""Maximum columns of free text in a file. Larger: more open files, two per column. Set by hand; no measurement is
recorded."""
LEFT_OUT = "ignored"
"""Prefix of the arrays of columns that are left out. A model that was trained with such a column can still read it."""

Marks = Mapping[int, Counter[str]]


class Features:
    """The features of a file by number, collected block by block. `clear` removes the cells and keeps the kinds that
    were found."""

    def __init__(self, sink: "Sink") -> None:
        self._sink = sink
        self.conventions = Conventions()
        self._verdicts: dict[int, Guess] = {}
        self._with_levels: set[int] = set()  # columns that begin with numbers or dates, but are words
        self.limit_texts: Callable[[int], None] = lambda n_bytes: None
        self.clear()

    def clear(self) -> None:
        self._columns: dict[int, WordColumn] = {}
        self._missing: Counter[int] = Counter()
        self._marks: dict[int, Counter[str]] = {}
        self._text_bytes: Counter[int] = Counter()
        self._budget = LevelBudget()
        self._left_out: dict[int, str] = {}
        self._sorted_out: list[int] = []
        self.spoilt = False  # true once stored cells have a wrong kind, so that storing more is useless

    @property
    def plain(self) -> bool:
        """Return whether all features are numbers without missing values."""
        return not (self._columns or self._missing)

    def add(self, X: Array, words: Mapping[int, WordCells], missing: Mapping[int, int], marks: Marks) -> None:
        """Add the text cells of a block and the counts of its missing values. Fills the columns of X of the text
        cells."""
        self._missing.update(missing)
        for number, spellings in marks.items():
            self._marks.setdefault(number, Counter()).update(spellings)
        for number, cells in words.items():
            if number not in self._columns:
                self._columns[number] = WordColumn(
                    self._verdicts.get(number),
                    self._budget,
                    self.conventions,
                    number,
                    may_be_numbers=cells.may_be_numbers,
                    counts_levels=number in self._with_levels,
                )
            column = self._columns[number]
            X[:, number] = column.add(cells)
            self.spoilt = self.spoilt or column.spoilt
            if column.kind == "text" and not self.spoilt:
                self._append_texts(number, cells)

    def _append_texts(self, number: int, cells: WordCells) -> None:
        name = f"text.{number}"
        if number not in self._text_bytes:
            if len(self._text_bytes) == MAX_TEXT_COLUMNS:  # each needs two open files
                detail = f"The file has more than {MAX_TEXT_COLUMNS} columns of free text; name some of them in ignore."
                raise InvalidFile([FileError(None, None, "too_many_texts", detail)])
            self._sink.append(f"{name}.offsets", np.zeros(1, dtype=np.int64))
        for text, lengths in text_chunks(cells):
            self.limit_texts(self._text_bytes.total() + len(text))
            self._sink.append(f"{name}.offsets", self._text_bytes[number] + np.cumsum(lengths))
            self._sink.append(f"{name}.bytes", text)
            self._text_bytes[number] += len(text)

    def settled(self) -> bool:
        """Return whether all cells are stored by their final kind and format. If not, the file must be read again."""
        evidence = self._evidence()
        self._verdicts = {number: column.verdict(evidence) for number, column in self._columns.items()}
        for number, column in self._columns.items():
            if column.lacks_levels and self._verdicts[number].kind not in ("numeric", "date"):
                self._with_levels.add(number)
                del self._verdicts[number]
        return all(
            number in self._verdicts and column.is_stored_as(self._verdicts[number])
            for number, column in self._columns.items()
        )

    @property
    def has_comma(self) -> bool:
        """Return whether a column certainly has a decimal comma."""
        return any(_is_certain(column, ",") for column in self._columns.values())

    def _evidence(self) -> Evidence:
        columns = self._columns.values()
        orders = {column.facts.dates.certain_order for column in columns} - {None}
        order = orders.pop() if len(orders) == 1 else None
        has_comma = self.has_comma
        if has_comma or any(_is_certain(column, ".") for column in columns):
            return Evidence(has_comma, order)
        return Evidence(self.conventions.prefers_comma, order)

    def identifiers(self, watch: ColumnWatch) -> dict[int, str]:
        """Return the features that are identifiers, with the reason: a different word in every row, or a different
        integer in every row and the name of an identifier. Numbers under another name can be a trend."""
        found = {number: LEFT_OUT_INTEGERS for number in watch.identifiers if number not in self._columns}
        for number, verdict in self._verdicts.items():
            if verdict.identifier_like:
                found[number] = LEFT_OUT_WORDS
        return found

    def finish(self, left_out: Mapping[int, str]) -> int | None:
        """Sort and number the categories, and move the features to leave out into arrays of their own. Returns the
        number of cells that are neither zero nor missing, or None if it has not changed."""
        self._left_out, self._sorted_out = dict(left_out), sorted(left_out)
        ranks: dict[int, Array] = {}
        for number, column in self._columns.items():
            if column.kind == "categorical":
                levels = column.levels
                order = sorted(range(len(levels)), key=levels.__getitem__)
                self._store_levels(number, [levels[code] for code in order])
                if order != list(range(len(order))):
                    ranks[number] = np.argsort(order).astype(np.float64)
        for number in sorted(self._text_bytes):
            for part in ("bytes", "offsets"):
                if self._array(number, "text") != f"text.{number}":
                    self._sink.rename(f"text.{number}.{part}", f"{self._array(number, 'text')}.{part}")
        return self._rewrite(ranks) if ranks or left_out else None

    def _array(self, number: int, what: str) -> str:
        """Return the name of an array of a feature. Features that are left out are numbered apart."""
        before = bisect_left(self._sorted_out, number)
        if number in self._left_out:
            return f"{LEFT_OUT}.{what}.{before}"
        return f"{what}.{number - before}"

    def _store_levels(self, number: int, levels: list[str]) -> None:
        encoded = [level.encode() for level in levels]
        offsets = np.concatenate([[0], np.cumsum([len(level) for level in encoded], dtype=np.int64)])
        name = self._array(number, "levels")
        self._sink.store(f"{name}.bytes", np.frombuffer(b"".join(encoded), dtype=np.uint8))
        self._sink.store(f"{name}.offsets", offsets.astype(np.int64))

    def _rewrite(self, ranks: dict[int, Array]) -> int:
        count, left_out = 0, self._sorted_out

        def change(X: Array) -> Array:
            nonlocal count
            for number, rank in ranks.items():
                present = ~np.isnan(X[:, number])
                X[present, number] = rank[X[present, number].astype(np.int64)]
            if left_out:
                self._sink.append(f"{LEFT_OUT}.X", np.ascontiguousarray(X[:, left_out]))
                X = np.ascontiguousarray(np.delete(X, left_out, axis=1))
            count += int(np.count_nonzero(X) - np.count_nonzero(np.isnan(X)))
            return X

        self._sink.rewrite("X", change)
        return count

    def describe(self, source: Source, n_rows: int) -> list[ColumnSummary]:
        return [self._describe(number, source, n_rows) for number in range(len(source.roles.features))]

    def _describe(self, number: int, source: Source, n_rows: int) -> ColumnSummary:
        described = self._described(number, source, n_rows)
        if reason := self._left_out.get(number):
            return replace(described, role="ignored", reason=reason)
        return described

    def _described(self, number: int, source: Source, n_rows: int) -> ColumnSummary:
        name = source.feature_name(number)
        missing = self._missing[number]
        if column := self._columns.get(number):
            guess = self._verdicts[number]
            levels = column.facts.distinct if guess.kind == "categorical" else None
            missing = column.facts.missing + self._marks_of(number).total() + guess.strays
            form = guess.format.to_dict() or None
            return ColumnSummary(name, "feature", guess.kind, missing, levels, guess.reason, form)
        if number in source.typed:
            kind, reason = source.typed[number]
            return ColumnSummary(name, "feature", kind, missing, None, reason)
        reason = f"all {n_rows} cells are numbers"
        if missing:
            reason = f"{n_rows - missing} of {n_rows} cells are numbers, and the others are missing"
        return ColumnSummary(name, "feature", "numeric", missing, None, reason)

    def _marks_of(self, number: int) -> Counter[str]:
        """Count the texts of a column that were read as missing values."""
        column = self._columns.get(number)
        if column is None:
            return self._marks.get(number, Counter())
        return column.facts.marks if column.kind in ("numeric", "boolean", "date") else Counter()

    def warnings(self, source: Source) -> list[FileWarning]:
        marked = {
            number: found for number in sorted({*self._marks, *self._columns}) if (found := self._marks_of(number))
        }
        facts = {number: column.facts for number, column in self._columns.items()}
        warnings = marks_warning(marked, source)
        warnings += word_warnings(facts, self._verdicts, self.conventions.kinds, source)
        unique = [
            number
            for number in sorted(self._columns)
            if self._verdicts[number].identifier_like and not source.is_chosen(number) and number not in self._left_out
        ]
        if unique:
            names = listed(map(source.shown_name, unique), len(unique))
            detail = f"Every cell is different in {names}. An identifier does not help to predict; name it in ignore."
            warnings.append(about("identifier_like", detail, unique))
        return [*map(self._renumbered, warnings), *left_out_warnings(self._left_out, source)]

    def _renumbered(self, warning: FileWarning) -> FileWarning:
        """Number the features of a warning as they are stored, without those that are left out."""
        kept = [number for number in warning.features if number not in self._left_out]
        numbers = [number - bisect_left(self._sorted_out, number) for number in kept]
        return replace(warning, features=tuple(numbers))


def _is_certain(column: WordColumn, decimal: str) -> bool:
    """Return whether a column is numeric and only formats with this decimal sign fit it."""
    facts = column.facts
    return is_numeric(facts) and {style[0] for style in facts.numbers.styles()} == {decimal}
