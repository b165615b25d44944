"""Collects the cells of features, determines the kind of each feature, stores the cells by kind, and words the
warnings."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from app.datasets.formats.column_roles import Source
from app.datasets.formats.guess import is_stray
from app.datasets.formats.table import ColumnSummary, FileError, FileWarning, InvalidFile, excerpt, plural
from app.datasets.formats.words import LevelBudget, WordCells, WordColumn, text_chunks
from app.tabular.frame import Kind
from app.tabular.types import Array

if TYPE_CHECKING:
    from app.datasets.formats.collect import Sink

__all__ = ["Features"]

MAX_TEXT_COLUMNS = 100
"""Maximum columns of free text in a file. Larger: more open files, two per column. Set by hand; no measurement is
recorded."""
SHOWN_COLUMNS = 10
"""Maximum number of columns that the text of a warning names. Larger: longer warnings. Set by hand; no measurement is
recorded."""
SHOWN_SPELLINGS = 3
"""Maximum number of missing-value markers per column that a warning quotes. Larger: longer warnings. Set by hand; no
measurement is recorded."""
LISTED_COLUMNS = 20
"""Maximum number of features in `FileWarning.features`. Larger: larger rows in the database. Equal to the number of
columns that an issue of the dataset lists."""

Marks = Mapping[int, Counter[str]]


class Features:
    """The features of a file by number, collected block by block. `clear` removes the cells and keeps the kinds that
    were found."""

    def __init__(self, sink: "Sink") -> None:
        self._sink = sink
        self._kinds: dict[int, Kind] = {}
        self.limit_texts: Callable[[int], None] = lambda n_bytes: None
        self.clear()

    def clear(self) -> None:
        self._columns: dict[int, WordColumn] = {}
        self._missing: Counter[int] = Counter()
        self._marks: dict[int, Counter[str]] = {}
        self._text_bytes: Counter[int] = Counter()
        self._budget = LevelBudget()
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
                self._columns[number] = WordColumn(self._kinds.get(number), self._budget, cells.may_be_numbers)
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
        """Return whether all cells are stored by their final kind. If not, the file must be read again."""
        self._kinds = {number: column.verdict.kind for number, column in self._columns.items()}
        return all(column.kind == self._kinds[number] for number, column in self._columns.items())

    @property
    def strays(self) -> list[int]:
        """Return the numeric columns in which a few cells are not numbers."""
        return [number for number, column in self._columns.items() if is_stray(column.facts)]

    def finish(self) -> int | None:
        """Sort and number the categories. Returns the number of cells that are neither zero nor missing, or None if it
        has not changed."""
        ranks: dict[int, Array] = {}
        for number, column in self._columns.items():
            if column.kind == "categorical":
                levels = column.levels
                order = sorted(range(len(levels)), key=levels.__getitem__)
                self._store_levels(number, [levels[code] for code in order])
                if order != list(range(len(order))):
                    ranks[number] = np.argsort(order).astype(np.float64)
        return self._rewrite(ranks) if ranks else None

    def _store_levels(self, number: int, levels: list[str]) -> None:
        encoded = [level.encode() for level in levels]
        offsets = np.concatenate([[0], np.cumsum([len(level) for level in encoded], dtype=np.int64)])
        self._sink.store(f"levels.{number}.bytes", np.frombuffer(b"".join(encoded), dtype=np.uint8))
        self._sink.store(f"levels.{number}.offsets", offsets.astype(np.int64))

    def _rewrite(self, ranks: dict[int, Array]) -> int:
        count = 0

        def change(X: Array) -> Array:
            nonlocal count
            for number, rank in ranks.items():
                present = ~np.isnan(X[:, number])
                X[present, number] = rank[X[present, number].astype(np.int64)]
            count += int(np.count_nonzero(X) - np.count_nonzero(np.isnan(X)))
            return X

        self._sink.rewrite("X", change)
        return count

    def describe(self, source: Source, n_rows: int) -> list[ColumnSummary]:
        return [self._describe(number, source, n_rows) for number in range(len(source.roles.features))]

    def _describe(self, number: int, source: Source, n_rows: int) -> ColumnSummary:
        name = source.feature_name(number)
        missing = self._missing[number]
        if column := self._columns.get(number):
            guess = column.verdict
            levels = column.facts.distinct if guess.kind == "categorical" else None
            missing = column.facts.missing + self._marks_of(number).total()
            return ColumnSummary(name, "feature", guess.kind, missing, levels, guess.reason)
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
        return column.facts.marks if column.kind in ("boolean", "date") else Counter()

    def warnings(self, source: Source) -> list[FileWarning]:
        found = []
        marked = [number for number in sorted({*self._marks, *self._columns}) if self._marks_of(number)]
        if marked:
            told = (f"{source.shown_name(number)}: {_spellings(self._marks_of(number))}" for number in marked)
            detail = f"Markers of missing values were found in {_listed(told, len(marked))}."
            found.append(_about("marked_missing", detail, marked))
        columns = sorted(self._columns.items())
        mixed = [number for number, column in columns if column.kind == "categorical" and column.facts.numbers]
        if mixed:
            told = (f"{source.shown_name(number)}: {self._mixture(number)}" for number in mixed)
            detail = (
                f"Numbers and words are mixed, and all read as text, in {_listed(told, len(mixed))}. "
                "If the words mean no value, name them in missing."
            )
            found.append(_about("mixed_column", detail, mixed))
        unique = [number for number, column in columns if column.verdict.identifier_like]
        if unique:
            names = _listed(map(source.shown_name, unique), len(unique))
            detail = f"Every cell is different in {names}. An identifier does not help to predict; name it in ignore."
            found.append(_about("identifier_like", detail, unique))
        return found

    def _mixture(self, number: int) -> str:
        facts = self._columns[number].facts
        example = f", the others words such as {excerpt(facts.example)}" if facts.example else ""
        return f"{facts.numbers} of {plural(facts.present, 'cell')} are numbers{example}"


def _about(code: str, detail: str, numbers: Sequence[int]) -> FileWarning:
    return FileWarning(code, detail, tuple(numbers[:LISTED_COLUMNS]), len(numbers))


def _spellings(marks: Counter[str]) -> str:
    shown = [f"{count} {excerpt(spelling)}" for spelling, count in marks.most_common(SHOWN_SPELLINGS)]
    return " and ".join([*shown, "others"] if len(marks) > SHOWN_SPELLINGS else shown)


def _listed(told: Iterable[str], count: int) -> str:
    shown = [one for one, _ in zip(told, range(SHOWN_COLUMNS), strict=False)]
    more = f" and {count - len(shown)} more" if count > len(shown) else ""
    return f"{plural(count, 'column')} ({'; '.join(shown)}{more})"
