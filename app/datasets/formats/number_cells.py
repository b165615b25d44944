"""Recognises the format of the numbers of a text column from all its cells, and reads them with Arrow.

Every cell is counted for each style (decimal sign and thousands separator) in which it is a number. The style that fits
most cells wins. Two pairs of styles read the same cells as different numbers: 1,234 is 1234 or 1.234, and so is 1.234.
Then the decision is made from the other columns of the file (`prefers_comma`), and reported.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from app.datasets.formats.table import excerpt
from app.tabular.cell_format import AFTER, STYLES, CellFormat, Decimal, Thousands, number_pattern, separator_class
from app.tabular.types import Array

__all__ = ["NumberFacts", "read_numbers"]

SPACES = " \t\u00a0\u202f"
PLAIN: tuple[Decimal, Thousands] = (".", "")
PADDED = r"^[ \t]*0[0-9]+[ \t]*$"
"""Regular expression of an integer with leading zeros, which is a code and not a number."""
HAS_DIGIT = r"[0-9]"
LONGEST_BYTES = 96
"""Maximum bytes of a number in a text column. Longer cells are not numbers. cell_format.LONGEST characters fit into
it."""
DECIMAL = r"^[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$"
CURRENCY_CODES = {"€": "EUR", "$": "USD", "£": "GBP"}
MAX_UNITS = 8
"""Maximum number of different units that are counted per column. Two are already too many for a numeric column."""

Flags = npt.NDArray[np.bool_]


@dataclass
class NumberFacts:
    """How many cells of a column are numbers in each style. `allowed` are the styles that the read options allow."""

    allowed: tuple[tuple[Decimal, Thousands], ...] = STYLES
    fits: Counter[tuple[Decimal, Thousands]] = field(default_factory=Counter)
    plain: int = 0
    """Number of cells that are plain numbers such as -1.5e3."""
    padded: int = 0
    """Number of cells that are integers with leading zeros."""
    digits: int = 0
    """Number of cells of digits only."""
    padded_example: str | None = None
    example: str | None = None
    """A cell that is not a plain number, but a number in the winning style."""
    dotted: str | None = None
    """A cell that is a plain number with a dot."""
    units: Counter[str] = field(default_factory=Counter)
    """Cells by unit. Cells without a unit count as the unit ''; zeros do not count."""

    def add(self, values: Any, counts: Array) -> Flags:
        """Count cells. Returns which values are numbers in the style that fits best so far."""
        is_number = np.zeros(len(values), dtype=np.bool_)
        if not len(values):
            return is_number
        short = np.flatnonzero(_flags(pc.less_equal(pc.binary_length(values), LONGEST_BYTES)) & (counts > 0))
        some = values if len(short) == len(values) else values.take(pa.array(short))
        places = np.flatnonzero(_flags(pc.match_substring_regex(some, HAS_DIGIT)))
        if not len(places):
            return is_number
        if len(places) < len(some):
            some, short = some.take(pa.array(places)), short[places]
        bare = pc.utf8_trim(some, characters=SPACES)
        weights = counts[short]
        self._count_padded(bare, weights)
        fits = self._count_styles(bare, weights)
        is_number[short[fits]] = True
        return is_number

    def _count_padded(self, bare: Any, weights: Array) -> None:
        self.digits += int(weights[_flags(pc.match_substring_regex(bare, "^[0-9]+$"))].sum())
        padded = _flags(pc.match_substring_regex(bare, PADDED))
        if padded.any():
            self.padded += int(weights[padded].sum())
            self.padded_example = self.padded_example or bare[int(padded.argmax())].as_py()

    def _count_styles(self, bare: Any, weights: Array) -> Flags:
        """Count each style. If only the best style has fitted all cells so far and fits these, the others need not be
        counted: they cannot win any more."""
        total = int(weights.sum())
        best, second = self._leaders()
        found: dict[tuple[Decimal, Thousands], Flags] = {}
        if best is not None and second < self.fits[best]:
            found[best] = _flags(pc.match_substring_regex(bare, number_pattern(*best)))
            if found[best].all():
                self.fits[best] += total
                self._note(bare, weights, best, found[best])
                return found[best]
        for style in self.allowed:
            if style not in found:
                found[style] = _flags(pc.match_substring_regex(bare, number_pattern(*style)))
            self.fits[style] += int(weights[found[style]].sum())
        winner, _ = self._leaders()
        if winner is None:
            return np.zeros(len(weights), dtype=np.bool_)
        self._note(bare, weights, winner, found[winner])
        return found[winner]

    def _leaders(self) -> tuple[tuple[Decimal, Thousands] | None, int]:
        """Return the style that fits most cells (the first of equal ones), and the count of the next one."""
        ranked = sorted(self.allowed, key=lambda style: -self.fits[style])
        if not ranked or not self.fits[ranked[0]]:
            return None, 0
        return ranked[0], self.fits[ranked[1]] if len(ranked) > 1 else 0

    def _note(self, bare: Any, weights: Array, style: tuple[Decimal, Thousands], fits: Flags) -> None:
        plain = _flags(pc.match_substring_regex(bare, DECIMAL))
        self.plain += int(weights[plain].sum())
        if self.dotted is None and plain.any():
            dotted = plain & _flags(pc.match_substring(bare, "."))
            self.dotted = bare[int(dotted.argmax())].as_py() if dotted.any() else None
        others = fits & ~plain
        if not others.any():
            if plain.any() and len(self.units) <= 1:
                self._count_units(bare.filter(pa.array(plain)), weights[plain])
            return
        self.example = self.example or bare[int(others.argmax())].as_py()
        self._count_units(bare.filter(pa.array(fits)), weights[fits])

    def _count_units(self, bare: Any, weights: Array) -> None:
        nonzero = _flags(pc.match_substring_regex(bare, "[1-9]"))
        if not nonzero.any():
            return
        chosen, weights = bare.filter(pa.array(nonzero)), weights[nonzero]
        if not pc.any(pc.match_substring_regex(chosen, AFTER)).as_py():
            self.units[""] += int(weights.sum())
            return
        units = pc.utf8_upper(pc.struct_field(pc.extract_regex(chosen, f"(?P<unit>{AFTER})"), 0)).fill_null("")
        encoded = units.dictionary_encode()
        sums = np.bincount(encoded.indices.to_numpy(), weights=weights)
        for sign, count in zip(encoded.dictionary.to_pylist(), sums.tolist(), strict=True):
            unit = CURRENCY_CODES.get(sign, sign)
            if unit in self.units or len(self.units) < MAX_UNITS:
                self.units[unit] += int(count)

    @property
    def numbers(self) -> int:
        """Number of cells that are numbers in the style that fits most cells."""
        return max((self.fits[style] for style in self.allowed), default=0)

    @property
    def are_codes(self) -> bool:
        """Return whether all numbers are digits only and some have leading zeros, as in postal codes."""
        return self.padded > 0 and self.digits >= self.numbers

    @property
    def mixed_units(self) -> list[str]:
        """Units that cannot be in one numeric column: several currencies, or percent and plain numbers."""
        named = [unit for unit in self.units if unit]
        if len(named) > 1:
            return named
        return ["%", "no unit"] if named == ["%"] and self.units[""] else []

    def styles(self) -> list[tuple[Decimal, Thousands]]:
        """Return the styles that fit most cells."""
        most = self.numbers
        return [style for style in self.allowed if most and self.fits[style] == most]

    def uses_comma(self) -> bool:
        """Return whether the cells certainly have a decimal comma."""
        styles = self.styles()
        return bool(styles) and all(decimal == "," for decimal, _ in styles)

    def format(self, prefers_comma: bool) -> CellFormat:
        """Return the format of the column."""
        styles = self.styles()
        chosen = styles[0] if styles else PLAIN
        if len({decimal for decimal, _ in styles}) > 1:
            with_commas = [style for style in styles if style[0] == ("," if prefers_comma else ".")]
            chosen = with_commas[0] if with_commas else chosen
        unit = next((unit for unit in self.units if unit), None)
        return CellFormat(chosen[0], chosen[1], unit)

    def ambiguity(self, chosen: CellFormat) -> str | None:
        """Return a sentence about cells that another style reads as other numbers, or None."""
        others = [style for style in self.styles() if style[0] != chosen.decimal]
        for example in (self.example, self.dotted):
            if others and example is not None:
                other = CellFormat(others[0][0], others[0][1])
                readings = [shown(read_numbers(pa.array([example]), one)[0]) for one in (chosen, other)]
                if readings[0] != readings[1]:
                    return f"{excerpt(example)} was read as {readings[0]}, but can mean {readings[1]}"
        return None


def shown(number: float) -> str:
    return str(int(number)) if number == int(number) else repr(float(number))


def read_numbers(values: Any, format: CellFormat) -> Array:
    """Return the numbers of an Arrow array of strings; NaN for cells that are not numbers in this format."""
    bare = pc.utf8_trim(values, characters=SPACES)
    fits = pc.and_(
        pc.match_substring_regex(bare, number_pattern(format.decimal, format.thousands)),
        pc.less_equal(pc.binary_length(bare), LONGEST_BYTES),
    )
    if format == CellFormat():  # a plain column can still contain a few units, signs or parentheses
        plain = pc.match_substring_regex(bare, r"^[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?$")
        if pc.all(pc.or_(plain, pc.invert(fits))).as_py():
            return _cast(pc.if_else(fits, bare, pa.scalar(None, bare.type)))
    negative = pc.match_substring_regex(bare, r"^\(|^[^0-9]*[-\x{2212}\x{2013}]")
    text = pc.if_else(fits, bare, pa.scalar(None, bare.type))
    text = pc.replace_substring_regex(text, f"{AFTER}|[() \t\u00a0\u202f'\u2019]|^[^0-9.,]*[-+\u2212\u2013]", "")
    text = pc.replace_substring_regex(text, "^[-+\u2212\u2013]", "")
    if format.thousands in (",", "."):
        text = pc.replace_substring_regex(text, separator_class(format.thousands), "")
    if format.decimal == ",":
        text = pc.replace_substring(text, ",", ".")
    numbers = _cast(text)
    return np.where(_flags(negative), -numbers, numbers)


def _cast(text: Any) -> Array:
    # a float64 can be too large: Arrow gives infinity, which counts as no number
    numbers = pc.replace_substring_regex(text, r"^\+", "").cast(pa.float64()).to_numpy(zero_copy_only=False)
    found: Array = np.where(np.isfinite(numbers), numbers, np.nan)
    return found


def _flags(found: Any) -> Flags:
    flags: Flags = found.fill_null(False).to_numpy(zero_copy_only=False)
    return flags
