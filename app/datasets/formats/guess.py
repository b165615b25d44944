"""Guesses the kind of a text column (boolean, date, categorical, text) and gives the reason as a sentence."""

from collections import Counter
from dataclasses import dataclass, field

from app.datasets.formats.table import plural
from app.tabular.frame import Kind

__all__ = ["Facts", "Guess", "guess", "is_stray"]

STRAY_SHARE = 0.01
"""Largest share of cells that are not numbers in a column that counts as numeric. Larger: more words are reported as
errors, and fewer columns become text. Set by hand; no measurement is recorded."""
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

Pair = tuple[str, str] | tuple[()] | None


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
    numbers: int = 0
    """Number of cells that are numbers, among the cells that were checked for it."""
    example: str | None = None
    """A cell that is not a number."""
    marks: Counter[str] = field(default_factory=Counter)
    pair: Pair = ()
    """The two words for true and false that all cells consist of, such as yes and no. Empty before the first cell; None
    if the cells are not such a pair."""
    dates: bool = True
    """Whether all cells are dates."""

    @property
    def words_a_cell(self) -> float:
        return self.words / max(1, self.present)


@dataclass(frozen=True)
class Guess:
    kind: Kind
    reason: str
    identifier_like: bool = False


def is_stray(facts: Facts) -> bool:
    """Return whether nearly all cells are numbers, so that the others are mistakes or missing values."""
    strays = facts.present - facts.numbers - facts.marks.total()
    return facts.numbers > 0 and 0 < strays <= max(1, STRAY_SHARE * (facts.numbers + strays))


def guess(facts: Facts) -> Guess:
    if facts.present > facts.marks.total():
        if facts.pair:
            return Guess("boolean", f"every value is {facts.pair[0]} or {facts.pair[1]}")
        if facts.dates:
            return Guess("date", "every value is an ISO date or time")
    if _is_phrases(facts):
        return Guess("text", f"text: {facts.words_a_cell:.1f} words per cell on average")
    unique = not facts.repeats and facts.present >= IDENTIFIERS
    if facts.distinct is None:
        return Guess("text", "too many distinct values to be categories", unique)
    return Guess("categorical", plural(facts.distinct, "distinct value"), unique)


def _is_phrases(facts: Facts) -> bool:
    """Return whether cells have several words and mostly differ. The more words per cell, the more repeated cells are
    allowed."""
    many = facts.distinct is None
    if facts.words_a_cell >= SENTENCE_WORDS:
        return many or (facts.distinct or 0) > facts.present / 10
    return facts.words_a_cell > PHRASE_WORDS and (many or (facts.distinct or 0) > max(MANY_PHRASES, facts.present / 2))
