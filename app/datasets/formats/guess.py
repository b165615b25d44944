"""What a column of words is: true or false, dates, categories or free text. The rule, and the reason in a sentence."""

from collections import Counter
from dataclasses import dataclass, field

from app.datasets.formats.table import plural
from app.tabular.frame import Kind

__all__ = ["Facts", "Guess", "guess", "is_stray"]

STRAY_SHARE = 0.01
SENTENCE_WORDS = 5.0
PHRASE_WORDS = 1.5
MANY_PHRASES = 20
IDENTIFIERS = 20

Pair = tuple[str, str] | tuple[()] | None


@dataclass
class Facts:
    """Of one column, counted over cells. Well-known marks for a value that is not there are counted with the others."""

    present: int = 0
    missing: int = 0
    distinct: int | None = 0
    """None: more than are told apart."""
    repeats: bool = False
    """Whether a value came twice, as long as they were told apart."""
    words: int = 0
    """Of all cells together, as white space parts them."""
    numbers: int = 0
    """Cells that spell one, where that is looked at."""
    example: str | None = None
    """A cell that does not."""
    marks: Counter[str] = field(default_factory=Counter)
    pair: Pair = ()
    """The words for true and false that all other cells are of; empty before the first one, None: they are not."""
    dates: bool = True
    """Whether all other cells are dates."""

    @property
    def words_a_cell(self) -> float:
        return self.words / max(1, self.present)


@dataclass(frozen=True)
class Guess:
    kind: Kind
    reason: str
    identifier_like: bool = False


def is_stray(facts: Facts) -> bool:
    """Whether the column holds numbers, but for cells so few that they are mistakes or stand for no value."""
    strays = facts.present - facts.numbers - facts.marks.total()
    return facts.numbers > 0 and 0 < strays <= max(1, STRAY_SHARE * (facts.numbers + strays))


def guess(facts: Facts) -> Guess:
    if facts.present > facts.marks.total():
        if facts.pair:
            return Guess("boolean", f"every value is {facts.pair[0]} or {facts.pair[1]}")
        if facts.dates:
            return Guess("date", "every value is an ISO date or time")
    if _is_phrases(facts):
        return Guess("text", f"words: {facts.words_a_cell:.1f} a cell on average")
    unique = not facts.repeats and facts.present >= IDENTIFIERS
    if facts.distinct is None:
        return Guess("text", "too many distinct values to be categories", unique)
    return Guess("categorical", plural(facts.distinct, "distinct value"), unique)


def _is_phrases(facts: Facts) -> bool:
    """Cells of several words, most of them different; sentences may repeat more often."""
    many = facts.distinct is None
    if facts.words_a_cell >= SENTENCE_WORDS:
        return many or (facts.distinct or 0) > facts.present / 10
    return facts.words_a_cell > PHRASE_WORDS and (many or (facts.distinct or 0) > max(MANY_PHRASES, facts.present / 2))
