"""Guesses the kind of a text column (numeric, boolean, date, categorical, text) and gives the reason as a sentence."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from app.datasets.formats.date_cells import DateFacts
from app.datasets.formats.number_cells import NumberFacts
from app.datasets.formats.table import ReadOptions, excerpt, plural
from app.tabular.cell_format import PLAIN, STYLES, CellFormat, DateOrder, Decimal, Thousands
from app.tabular.frame import Kind

__all__ = ["Conventions", "Evidence", "Facts", "Guess", "Stray", "guess", "guess_numbers", "is_numeric"]

NEARLY_ALL = 0.95
"""Smallest share of numbers (or of dates) in a column that is read as numeric (or as dates), with the other cells as
missing values and a warning that lists them. Larger: more columns of numbers are read as words. Below it, a column of
numbers and words is read as words, with a warning. Set by hand; no measurement is recorded."""
SENTENCE_WORDS = 5.0
"""Average words per cell from which a column is text. Larger: more columns are categorical. Set by hand; no measurement
is recorded."""
PHRASE_WORDS = 1.5
"""Average words per cell from which a column is text if its cells mostly differ. Larger: more columns are categorical.
Set by hand; no measurement is recorded."""
MANY_PHRASES = 20
"""Number of different values above which a column of phrases (PHRASE_WORDS) is text. Larger: more columns are
categorical. Set by hand; no measurement is recorded."""
IDENTIFIERS = 20
"""Minimum number of different values of a column that is reported as an identifier. Larger: fewer reports. Set by hand;
no measurement is recorded."""

SEPARATOR_NAMES = {",": "commas", ".": "dots", " ": "spaces", "'": "apostrophes"}

Pair = tuple[str, str] | tuple[()] | None


@dataclass(frozen=True)
class Conventions:
    """What the read options say about cells."""

    styles: tuple[tuple[Decimal, Thousands], ...] = STYLES
    """Formats of numbers that the options allow."""
    date_order: DateOrder | None = None
    prefers_comma: bool = False
    """Whether a number that is unclear, such as 1,234, has a decimal comma if no other column decides it."""
    kinds: Mapping[int, Kind] = field(default_factory=dict)
    """Kinds that the option `columns` sets, by feature number."""

    @classmethod
    def of(cls, options: ReadOptions, delimiter: str, kinds: Mapping[int, Kind]) -> "Conventions":
        styles = STYLES
        if options.decimal is not None:
            styles = tuple(style for style in styles if style[0] == options.decimal)
        if options.thousands is not None:
            wanted = {"none": "", "space": " ", "apostrophe": "'"}.get(options.thousands, options.thousands)
            styles = tuple(style for style in styles if style[1] in ("", wanted))
        order: DateOrder | None = options.date_order
        return cls(styles, order, options.decimal == "," or delimiter == ";", dict(kinds))


class Evidence(NamedTuple):
    """What the clear columns of a file say about the unclear ones."""

    prefers_comma: bool = False
    date_order: DateOrder | None = None


class Stray(NamedTuple):
    row: int
    """Number of the row of data, from 1."""
    cell: str


@dataclass
class Facts:
    """What is known about the cells of a text column, from which `guess` determines its kind. Common markers of missing
    values, such as `NA`, count as cells."""

    present: int = 0
    missing: int = 0
    distinct: int | None = 0
    """Number of different values; None if there are too many to count."""
    repeats: bool = False
    """Whether a value occurs twice among the cells that were counted."""
    words: int = 0
    """Total number of words in all cells. White space separates words."""
    typed: bool = False
    """Whether the file says that the cells are strings, and not numbers. CSV does not."""
    numbers: NumberFacts = field(default_factory=NumberFacts)
    dates: DateFacts = field(default_factory=DateFacts)
    not_numbers: list[Stray] = field(default_factory=list)
    """The first cells that are neither numbers nor markers of missing values."""
    not_dates: list[Stray] = field(default_factory=list)
    marks: Counter[str] = field(default_factory=Counter)
    pair: Pair = ()
    """The two words for true and false that all cells consist of, such as yes and no. Empty before the first cell; None
    if the cells are not such a pair."""

    @property
    def words_a_cell(self) -> float:
        return self.words / max(1, self.present)

    @property
    def real(self) -> int:
        """Number of cells that are not markers of missing values."""
        return self.present - self.marks.total()


@dataclass(frozen=True)
class Guess:
    kind: Kind
    reason: str
    format: CellFormat = PLAIN
    identifier_like: bool = False
    strays: int = 0
    """Number of cells that are read as missing because they do not have the kind of the column."""


def guess(facts: Facts, evidence: Evidence, forced: Kind | None = None) -> Guess:
    if forced in ("numeric", "date", "boolean"):
        return _forced(facts, evidence, forced)
    if forced is None and facts.real:
        if facts.pair:
            return Guess("boolean", f"every value is {facts.pair[0]} or {facts.pair[1]}")
        if facts.dates.dates and facts.dates.dates >= NEARLY_ALL * facts.real:
            return _dates(facts, evidence)
        if is_numeric(facts):
            return guess_numbers(facts, evidence.prefers_comma)
    told = "" if forced is None else "; the option `columns` sets the kind"
    if forced == "text" or (forced is None and _is_phrases(facts)):
        return Guess("text", f"text: {facts.words_a_cell:.1f} words per cell on average{told}")
    unique = forced is None and not facts.repeats and facts.present >= IDENTIFIERS
    if facts.distinct is None:
        return Guess("text", "too many distinct values to be categories", identifier_like=unique)
    reason = plural(facts.distinct, "distinct value") + told
    if facts.numbers.are_codes and not told:
        reason += f"; codes with leading zeros, such as {excerpt(facts.numbers.padded_example or '')}, are not numbers"
    return Guess("categorical", reason, identifier_like=unique)


def is_numeric(facts: Facts) -> bool:
    """Return whether nearly all cells are numbers in one format and one unit. Strings of a format with types are
    numbers only if they are written with a unit, a separator or a decimal comma."""
    numbers = facts.numbers
    if not numbers.numbers or numbers.are_codes or numbers.mixed_units:
        return False
    if facts.typed and numbers.plain >= numbers.numbers:
        return False
    return numbers.numbers >= NEARLY_ALL * facts.real


def guess_numbers(facts: Facts, prefers_comma: bool) -> Guess:
    """Return the format of a numeric column."""
    found = facts.numbers.format(prefers_comma)
    strays = facts.real - facts.numbers.numbers
    return Guess("numeric", _share(facts.numbers.numbers, facts, _style(found)), found, strays=max(0, strays))


def _dates(facts: Facts, evidence: Evidence) -> Guess:
    dates = facts.dates
    order = dates.chosen(evidence.date_order) if dates.needs_order else "ymd"
    strays = facts.real - dates.dates
    if not dates.needs_order:
        names = dates.shapes["day_name"] or dates.shapes["name_day"]
        told = "dates with the name of the month" if names else "ISO dates or times"
        reason = f"every value is {'an ISO date or time' if not names else 'a date with the name of its month'}"
        if strays or facts.marks:
            reason = _share(dates.dates, facts, told)
    else:
        told = "dates with the day first" if order == "dmy" else "dates with the month first"
        reason = _share(dates.dates, facts, told)
        if dates.example:
            reason += f", such as {excerpt(dates.example)}"
    return Guess("date", reason, CellFormat(date_order=order), strays=max(0, strays))


def _forced(facts: Facts, evidence: Evidence, kind: Kind) -> Guess:
    told = "; the option `columns` sets the kind"
    if kind == "boolean":
        strays = 0 if facts.pair else facts.real
        return Guess("boolean", f"{facts.real} cells{told}", strays=strays)
    found = guess_numbers(facts, evidence.prefers_comma) if kind == "numeric" else _dates(facts, evidence)
    return Guess(kind, found.reason + told, found.format, strays=found.strays)


def _share(count: int, facts: Facts, what: str) -> str:
    total = facts.present + facts.missing
    return f"{'all' if count == total else f'{count} of'} {total} cells are {what}"


def _style(format: CellFormat) -> str:
    parts = []
    if format.decimal == ",":
        parts.append("a decimal comma")
    if format.thousands:
        parts.append(f"{SEPARATOR_NAMES[format.thousands]} for thousands")
    if format.unit:
        parts.append(f"the unit {format.unit}")
    return "numbers" + (f" with {' and '.join(parts)}" if parts else "")


def _is_phrases(facts: Facts) -> bool:
    """Return whether cells have several words and mostly differ. The more words per cell, the more repeated cells are
    allowed."""
    many = facts.distinct is None
    if facts.words_a_cell >= SENTENCE_WORDS:
        return many or (facts.distinct or 0) > facts.present / 10
    return facts.words_a_cell > PHRASE_WORDS and (many or (facts.distinct or 0) > max(MANY_PHRASES, facts.present / 2))
