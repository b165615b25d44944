"""Words the warnings about text columns: cells that do not fit, numbers and dates that can be read in two ways, codes.

Every warning names the columns and says what to do.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from app.datasets.formats.column_roles import Source
from app.datasets.formats.guess import NEARLY_ALL, Facts, Guess, Stray
from app.datasets.formats.table import FileWarning, excerpt, plural
from app.tabular.frame import Kind

__all__ = [
    "LEFT_OUT_INDEX",
    "LEFT_OUT_INTEGERS",
    "LEFT_OUT_WORDS",
    "about",
    "left_out_warnings",
    "listed",
    "marks_warning",
    "word_warnings",
]

LEFT_OUT_INDEX = "left out: it numbers the rows"
LEFT_OUT_WORDS = "left out: a different value in every row, as an identifier has"
LEFT_OUT_INTEGERS = "left out: a different integer in every row, and the name of an identifier"
SHOWN_COLUMNS = 10
"""Maximum number of columns that the text of a warning names. Larger: longer warnings. Set by hand; no measurement is
recorded."""
SHOWN_SPELLINGS = 3
"""Maximum number of missing-value markers per column that a warning quotes. Larger: longer warnings. Set by hand; no
measurement is recorded."""
SHOWN_STRAYS = 5
"""Maximum number of cells per column that a warning quotes with their rows. Larger: longer warnings. Set by hand; no
measurement is recorded."""
LISTED_COLUMNS = 20
"""Maximum number of features in `FileWarning.features`. Larger: larger rows in the database. Equal to the number of
columns that an issue of the dataset lists."""


def marks_warning(marks: Mapping[int, Counter[str]], source: Source) -> list[FileWarning]:
    if not marks:
        return []
    told = (f"{source.shown_name(number)}: {_spellings(found)}" for number, found in marks.items())
    detail = f"Markers of missing values were found in {listed(told, len(marks))}."
    return [about("marked_missing", detail, list(marks))]


def word_warnings(
    facts: Mapping[int, Facts], verdicts: Mapping[int, Guess], kinds: Mapping[int, Kind], source: Source
) -> list[FileWarning]:
    """Return the warnings about text columns, by feature number. `kinds` has the kinds that the client set."""
    words = _Words(facts, verdicts, kinds, source)
    checks = (_strays, _mixtures, _number_formats, _date_orders, _mixed_orders, _units, _codes, _strings)
    return [warning for check in checks if (warning := check(words)) is not None]


class _Words:
    """The text columns of a file."""

    def __init__(
        self, facts: Mapping[int, Facts], verdicts: Mapping[int, Guess], kinds: Mapping[int, Kind], source: Source
    ) -> None:
        self.facts, self.verdicts, self.kinds, self._source = facts, verdicts, kinds, source

    def warn(self, code: str, about_columns: Callable[[int], str | None], wording: str) -> FileWarning | None:
        """Build a warning about the columns for which the function returns a text. `{}` in the wording is the list of
        columns."""
        told = {number: text for number in sorted(self.facts) if (text := about_columns(number)) is not None}
        if not told:
            return None
        shown = (
            f"{self._source.shown_name(number)}: {text}" if text else self._source.shown_name(number)
            for number, text in told.items()
        )
        return about(code, wording.format(listed(shown, len(told))), list(told))


def _strays(words: _Words) -> FileWarning | None:
    def told(number: int) -> str | None:
        verdict, facts = words.verdicts[number], words.facts[number]
        if not verdict.strays:
            return None
        strays = facts.not_dates if verdict.kind == "date" else facts.not_numbers
        more = verdict.strays - min(len(strays), SHOWN_STRAYS)
        return _cells(strays, SHOWN_STRAYS) + (f" and {more} more" if more > 0 else "")

    return words.warn(
        "stray_cells",
        told,
        "Cells that do not have the kind of nearly all others were read as missing values in {}. If they mean no "
        "value, name them in missing. To read a column as words, set columns=<name>:categorical.",
    )


def _mixtures(words: _Words) -> FileWarning | None:
    def told(number: int) -> str | None:
        facts, numbers = words.facts[number], words.facts[number].numbers
        is_words = words.verdicts[number].kind in ("categorical", "text") and number not in words.kinds
        if not is_words or facts.typed or numbers.mixed_units or not 0 < numbers.numbers < facts.real:
            return None
        shown = _cells(facts.not_numbers, SHOWN_SPELLINGS)
        others = f", the others words such as {shown}" if shown else ""
        return f"{numbers.numbers} of {plural(facts.present, 'cell')} are numbers{others}"

    return words.warn(
        "mixed_column",
        told,
        "Numbers and words are mixed, and all read as text, in {}. If the words mean no value, name them in missing. "
        "To read all words as missing values, set columns=<name>:numeric.",
    )


def _number_formats(words: _Words) -> FileWarning | None:
    def told(number: int) -> str | None:
        verdict = words.verdicts[number]
        return words.facts[number].numbers.ambiguity(verdict.format) if verdict.kind == "numeric" else None

    return words.warn(
        "number_format_guessed", told, "The format of the numbers is unclear in {}. Set decimal or thousands."
    )


def _date_orders(words: _Words) -> FileWarning | None:
    def told(number: int) -> str | None:
        verdict, dates = words.verdicts[number], words.facts[number].dates
        if verdict.kind != "date" or not dates.is_ambiguous:
            return None
        first = "day" if verdict.format.date_order == "dmy" else "month"
        return f"{excerpt(dates.example or '')} was read with the {first} first"

    return words.warn(
        "date_order_guessed", told, "No cell shows whether the day or the month is first in {}. Set date_order."
    )


def _mixed_orders(words: _Words) -> FileWarning | None:
    def told(number: int) -> str | None:
        certain = words.facts[number].dates.certain
        return "" if certain["dmy"] and certain["mdy"] and number not in words.kinds else None

    return words.warn(
        "date_orders_mixed",
        told,
        "Some dates have the day first, and others the month, in {}. Write all dates in one order, or set date_order.",
    )


def _units(words: _Words) -> FileWarning | None:
    def told(number: int) -> str | None:
        units = words.facts[number].numbers.mixed_units
        is_numeric = words.facts[number].numbers.numbers >= NEARLY_ALL * words.facts[number].real
        return ", ".join(units) if units and is_numeric and number not in words.kinds else None

    return words.warn(
        "mixed_units",
        told,
        "Numbers with different units were read as words in {}. Convert them to one unit, or set "
        "columns=<name>:numeric to ignore the units.",
    )


def _codes(words: _Words) -> FileWarning | None:
    def told(number: int) -> str | None:
        facts, numbers = words.facts[number], words.facts[number].numbers
        is_code = numbers.are_codes and numbers.numbers >= NEARLY_ALL * facts.real and number not in words.kinds
        return excerpt(numbers.padded_example or "") if is_code and not facts.typed else None

    return words.warn(
        "codes_kept",
        told,
        "Numbers with leading zeros are codes and were read as words in {}. If they are quantities, set "
        "columns=<name>:numeric.",
    )


def _strings(words: _Words) -> FileWarning | None:
    def told(number: int) -> str | None:
        facts, numbers = words.facts[number], words.facts[number].numbers
        is_words = words.verdicts[number].kind in ("categorical", "text") and number not in words.kinds
        is_numbers = facts.real > 0 and numbers.numbers >= NEARLY_ALL * facts.real and not numbers.are_codes
        return "" if facts.typed and is_words and is_numbers and not numbers.mixed_units else None

    return words.warn(
        "numbers_as_strings",
        told,
        "The file has numbers as strings, which were read as words, in {}. If they are quantities, set "
        "columns=<name>:numeric.",
    )


def left_out_warnings(left_out: Mapping[int, str], source: Source) -> list[FileWarning]:
    """Return the warnings about columns that were left out, with the reason."""
    indexes = [number for number in sorted(left_out) if left_out[number] == LEFT_OUT_INDEX]
    others = sorted(set(left_out).difference(indexes))
    cure = "To keep one, set columns=<name>:feature."
    found = []
    if indexes:
        names = listed(map(source.shown_name, indexes), len(indexes))
        found.append(FileWarning("index_left_out", f"Columns that number the rows were left out: {names}. {cure}"))
    if others:
        names = listed(map(source.shown_name, others), len(others))
        found.append(FileWarning("identifier_left_out", f"Identifiers were left out: {names}. {cure}"))
    return found


def about(code: str, detail: str, numbers: Sequence[int]) -> FileWarning:
    return FileWarning(code, detail, tuple(numbers[:LISTED_COLUMNS]), len(numbers))


def listed(told: Iterable[str], count: int) -> str:
    shown = [one for one, _ in zip(told, range(SHOWN_COLUMNS), strict=False)]
    more = f" and {count - len(shown)} more" if count > len(shown) else ""
    return f"{plural(count, 'column')} ({'; '.join(shown)}{more})"


def _cells(strays: Sequence[Stray], count: int) -> str:
    return ", ".join(f"row {stray.row} {excerpt(stray.cell)}" for stray in strays[:count])


def _spellings(marks: Counter[str]) -> str:
    shown = [f"{count} {excerpt(spelling)}" for spelling, count in marks.most_common(SHOWN_SPELLINGS)]
    return " and ".join([*shown, "others"] if len(marks) > SHOWN_SPELLINGS else shown)
