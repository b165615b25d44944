"""Encodes date columns: the number of days since 1970, and weekday, month and hour as categories."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from app.preprocess.features import MISSING, CountTerms, Feature, csr, one_entry_a_row, side_by_side, untouched
from app.preprocess.spec import DatePart
from app.tabular.frame import Kind
from app.tabular.types import Floats

DAY = 86400.0
"""Seconds per day."""
LEVELS: dict[str, tuple[str, ...]] = {
    "weekday": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "month": (
        *("January", "February", "March", "April", "May", "June"),
        *("July", "August", "September", "October", "November", "December"),
    ),
    "hour": tuple(f"{hour:02}h" for hour in range(24)),
}


@dataclass(frozen=True)
class Dates:
    """The features of a date column: those of its parts in order, `days` since 1970 first, then one for missing values
    if requested."""

    column: int
    parts: tuple[DatePart, ...]
    fill: float
    """Number of days that replaces a missing date. A missing date has no weekday, month or hour."""
    shift: float
    scale: float
    has_missing: bool
    refuses_missing: bool
    kind: Literal["date"] = "date"
    stored: Kind = "date"

    @property
    def width(self) -> int:
        return sum(len(LEVELS.get(part, ("",))) for part in self.parts) + self.has_missing

    def encode(self, values: Floats, name: str, count: CountTerms) -> sp.csr_array:
        present = ~np.isnan(values)
        blocks = [self._part(part, values, present) for part in self.parts]
        if self.has_missing:
            blocks.append(one_entry_a_row(np.where(present, -1, 0), 1))
        return side_by_side(blocks, len(values))

    def _part(self, part: DatePart, seconds: Floats, present: npt.NDArray[np.bool_]) -> sp.csr_array:
        if part == "days":
            days = np.where(present, seconds / DAY, self.fill)
            n = len(days)
            return csr(days, np.zeros(n, dtype=np.int32), np.arange(n + 1), (n, 1))
        levels = np.full(len(seconds), -1, dtype=np.int64)
        levels[present] = _level(part, seconds[present])
        return one_entry_a_row(levels, len(LEVELS[part]))

    def solver_units(self) -> tuple[Floats, Floats]:
        shift, scale = untouched(self.width)
        if "days" in self.parts:
            at = sum(len(LEVELS[part]) for part in self.parts[: self.parts.index("days")])
            shift[at], scale[at] = self.shift, self.scale
        return shift, scale

    def feature(self, number: int, name: str) -> Feature:
        for part in self.parts:
            levels = LEVELS.get(part)
            if levels is None and number == 0:
                return Feature(name, name, unit="day")
            if levels is not None and number < len(levels):
                return Feature(f"{name}={levels[number]}", name, level=levels[number], unit="level")
            number -= 1 if levels is None else len(levels)
        return Feature(f"{name}={MISSING}", name, unit="level")

    def summary(self) -> dict[str, Any]:
        return {"parts": list(self.parts), "fill": self.fill, "shift": self.shift, "scale": self.scale}


def has_times(seconds: Floats) -> bool:
    """Return whether any date has a time other than midnight."""
    return bool((np.mod(seconds[~np.isnan(seconds)], DAY) != 0).any())


def _level(part: DatePart, seconds: Floats) -> npt.NDArray[np.int64]:
    days = np.floor(seconds / DAY).astype(np.int64)
    if part == "weekday":
        return (days + 3) % 7  # 1970-01-01 was a Thursday
    if part == "month":
        return days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) % 12
    return np.floor(np.mod(seconds, DAY) / 3600.0).astype(np.int64)
