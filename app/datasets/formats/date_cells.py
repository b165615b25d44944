"""Recognises the dates of a text column and their order (day or month first) from all its cells, and reads them."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from app.tabular.cell_format import DateOrder
from app.tabular.date_text import LONGEST_DATE, LONGEST_SECOND, MONTHS, PIVOT_YEAR, SHAPES
from app.tabular.types import Array

__all__ = ["DateFacts", "read_dates"]

ORDERED = ("numeric", "short")
"""Shapes whose day and month only `date_order` distinguishes."""
LOOKS_LIKE_DATE = r"^[ \t]*(?:[0-9]{1,4}[-/. ]|[A-Za-zäÄ]{3,9}\.? [0-9])"
SECONDS_A_DAY = 86_400

Flags = npt.NDArray[np.bool_]


@dataclass
class DateFacts:
    """How many cells of a column are dates in each order. `order` is the read option, or None."""

    order: DateOrder | None = None
    fits: Counter[str] = field(default_factory=Counter)
    """Cells that are dates if the day is first (dmy), or if the month is first (mdy). Dates whose order is clear count
    for both."""
    certain: Counter[str] = field(default_factory=Counter)
    """Cells that are dates in only one of the two orders."""
    marks: Counter[str] = field(default_factory=Counter)
    """Signs between day and month of the cells that need an order."""
    example: str | None = None
    """A cell that is a date in both orders, with different meanings."""
    shapes: Counter[str] = field(default_factory=Counter)

    def add(self, values: Any, counts: Array) -> Flags:
        """Count cells. Returns which values are dates in the order that fits best so far."""
        is_date = np.zeros(len(values), dtype=np.bool_)
        looks = _flags(pc.match_substring_regex(values, LOOKS_LIKE_DATE)) if len(values) else is_date
        looks &= counts > 0
        looks &= _flags(pc.less_equal(pc.utf8_length(values), LONGEST_DATE)) if len(values) else is_date
        places = np.flatnonzero(looks)
        if not len(places):
            return is_date
        some = values.take(pa.array(places))
        weights = counts[places]
        found = {order: ~np.isnan(read_dates(some, order)) for order in ("dmy", "mdy")}
        for order, fits in found.items():
            self.fits[order] += int(weights[fits].sum())
        self.certain["dmy"] += int(weights[found["dmy"] & ~found["mdy"]].sum())
        self.certain["mdy"] += int(weights[found["mdy"] & ~found["dmy"]].sum())
        self._count_marks(some, weights, found["dmy"] & found["mdy"])
        is_date[places[found[self.chosen(None)]]] = True
        return is_date

    def _count_marks(self, values: Any, weights: Array, both: Flags) -> None:
        bare = pc.utf8_trim(values, characters=" \t")
        for shape, pattern in SHAPES.items():
            matched = _flags(pc.match_substring_regex(bare, pattern))
            self.shapes[shape] += int(weights[matched].sum())
            if shape in ORDERED and matched.any():
                chosen = bare.filter(pa.array(matched))
                for mark in "/.-":
                    if pc.any(pc.match_substring(chosen, mark)).as_py():
                        self.marks[mark] += len(chosen)
                if self.example is None and (matched & both).any():
                    parts = pc.extract_regex(bare.filter(pa.array(matched & both)), pattern)
                    first, second = (_field(parts, name) for name in ("first", "second_part"))
                    differ = _flags(pc.not_equal(first, second))
                    if differ.any():
                        self.example = bare.filter(pa.array(matched & both))[int(differ.argmax())].as_py()

    @property
    def dates(self) -> int:
        """Number of cells that are dates in the best order."""
        return self.fits[self.chosen(None)]

    @property
    def needs_order(self) -> bool:
        return any(self.shapes[shape] for shape in ORDERED)

    def chosen(self, elsewhere: DateOrder | None) -> DateOrder:
        """Return the order of the column. `elsewhere`: the certain order of another column of the file."""
        if self.order in ("dmy", "mdy"):
            return self.order
        if self.fits["dmy"] != self.fits["mdy"]:
            return "dmy" if self.fits["dmy"] > self.fits["mdy"] else "mdy"
        if elsewhere is not None:
            return elsewhere
        return "mdy" if self.marks["/"] > self.marks["."] + self.marks["-"] else "dmy"

    @property
    def certain_order(self) -> DateOrder | None:
        """Return the order if a cell proves it and none contradicts it."""
        if bool(self.certain["dmy"]) == bool(self.certain["mdy"]):
            return None
        return "dmy" if self.certain["dmy"] else "mdy"

    @property
    def is_ambiguous(self) -> bool:
        """Return whether the order is a guess. Dots between the parts mean that the day is first."""
        by_dots = not (self.marks["/"] or self.marks["-"])
        return self.example is not None and self.order is None and self.certain_order is None and not by_dots


def read_dates(values: Any, order: DateOrder) -> Array:
    """Return the seconds since 1970 of an Arrow array of strings; NaN for cells that are not dates."""
    bare = pc.utf8_trim(values, characters=" \t")
    seconds = np.full(len(values), np.nan)
    left = np.flatnonzero(_flags(pc.less_equal(pc.utf8_length(bare), LONGEST_DATE)))
    for shape, pattern in SHAPES.items():
        if not len(left):
            break
        some = bare if len(left) == len(values) else bare.take(pa.array(left))
        parts = pc.extract_regex(some, pattern)
        matched = ~_flags(parts.is_null())
        if matched.any():
            chosen = parts if matched.all() else parts.filter(pa.array(matched))
            seconds[left[matched]] = _seconds(shape, chosen, order)
            left = left[~matched]
    return seconds


def _seconds(shape: str, parts: Any, order: DateOrder) -> Array:
    year = _integers(parts, "year")
    if shape == "short":
        year = year + np.where(year >= PIVOT_YEAR, 1900, 2000)
    if shape in ORDERED:
        if order == "ymd":
            return np.full(len(year), np.nan)
        first, second = _integers(parts, "first"), _integers(parts, "second_part")
        day, month = (first, second) if order == "dmy" else (second, first)
    elif shape == "ymd":
        day, month = _integers(parts, "day"), _integers(parts, "month")
    else:
        day = _integers(parts, "day")
        names = pc.utf8_lower(_field(parts, "name"))
        known = pa.array(list(MONTHS))
        month = np.array(list(MONTHS.values()))[pc.index_in(names, value_set=known).to_numpy(zero_copy_only=False)]
    sound = (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1)
    months = np.where(sound, (year - 1970) * 12 + month - 1, 0)
    first_days = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    lengths = (months + 1).astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) - first_days
    clock = _clock(parts)
    return np.where(sound & (day <= lengths), (first_days + day - 1) * float(SECONDS_A_DAY) + clock, np.nan)


def _clock(parts: Any) -> Array:
    """Return the seconds since midnight UTC; NaN if the time does not exist."""
    has_time = _flags(pc.not_equal(_field(parts, "hour"), ""))
    if not has_time.any():
        return np.zeros(len(parts))
    hour, minute = _integers(parts, "hour"), _integers(parts, "minute")
    texts = pc.replace_substring(pc.utf8_slice_codeunits(_field(parts, "second"), 0, LONGEST_SECOND), ",", ".")
    second = _filled(texts).cast(pa.float64()).to_numpy(zero_copy_only=False)
    half = pc.utf8_lower(_field(parts, "half"))
    is_half = _flags(pc.not_equal(half, ""))
    sound = (minute <= 59) & (second < 60) & np.where(is_half, (hour >= 1) & (hour <= 12), hour <= 23)
    hour = np.where(is_half, hour % 12 + 12 * _flags(pc.equal(half, "p")), hour)
    zone = _field(parts, "zone")
    signed = _flags(pc.match_substring_regex(zone, "^[-+]"))
    digits = pc.if_else(pa.array(signed), pc.replace_substring_regex(zone, "[^0-9]", ""), "0000")
    offset = digits.cast(pa.int64()).to_numpy(zero_copy_only=False)
    hours, minutes = offset // 100, offset % 100
    sound &= (hours <= 23) & (minutes <= 59)
    east = np.where(_flags(pc.starts_with(zone, "-")), -1, 1)
    clock = hour * 3600 + minute * 60 + second - east * (hours * 3600 + minutes * 60)
    return np.where(has_time, np.where(sound, clock, np.nan), 0.0)


def _field(parts: Any, name: str) -> Any:
    """Return a group of a pattern by name. An absent optional group is an empty text."""
    return pc.struct_field(parts, [name]).fill_null("")


def _integers(parts: Any, name: str) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = _filled(_field(parts, name)).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return found


def _filled(texts: Any) -> Any:
    return pc.if_else(pc.equal(texts, ""), "0", texts)


def _flags(found: Any) -> Flags:
    flags: Flags = np.asarray(found.fill_null(False).to_numpy(zero_copy_only=False), dtype=np.bool_)
    return flags
