"""Guesses the kind of a text column (boolean, date, categorical, text) and gives the reason as a sentence."""

from collections import Counter
from dataclasses import dataclass, field

from app.datasets.formats.table import plural
from app.tabular.frame import Kind

__all__ = ["Facts", "Guess", "guess", "is_stray"]

STRAY_SHARE = 0.01
"""Largest share of cells that are not numbers in a column that counts as numeric. Larger: more words are reported as
errors."""
SENTENCE_WORDS = 5.0
"""Average words per cell from which a column is text. Larger: more columns are categorical."""
PHRASE_WORDS = 1.5
"""Average words per cell from which a column is text if its cells mostly differ. Larger: more columns are
categorical."""
MANY_PHRASES = 20
"""Different values that a column of phrases (PHRASE_WORDS) must exceed to be text. Larger: more columns are
categorical."""
IDENTIFIERS = 20
"""Minimum different values of a column that is reported as an identifier. Larger: fewer reports."""

Pair = tuple[str, str] | tuple[()] | None


@dataclass
class Facts:
    """Facts about the cells of a column. Common markers of missing values count as cells."""

    present: int = 0
    missing: int = 0
    distinct: int | None = 0
    """Number of different values; None: too many to count."""
    repeats: bool = False
    """Whether a value occurs twice, as far as values were counted."""
    words: int = 0
    """Number of words of all cells, separated by white space."""
    numbers: int = 0
    """Number of cells that are numbers, where that was checked."""
    example: str | None = None
    """A cell that is not a number."""
    marks: Counter[str] = field(default_factory=Counter)
    pair: Pair = ()
    """Pair of words for true and false that all cells belong to; empty: no cell yet; None: they do not."""
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
    """Whether nearly all cells are numbers, so that the others are mistakes or missing values."""
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
    """Whether cells have several words and are mostly different. Longer texts are allowed to repeat more often."""
    many = facts.distinct is None
    if facts.words_a_cell >= SENTENCE_WORDS:
        return many or (facts.distinct or 0) > facts.present / 10
    return facts.words_a_cell > PHRASE_WORDS and (many or (facts.distinct or 0) > max(MANY_PHRASES, facts.present / 2))
