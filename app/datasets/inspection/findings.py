"""The form of an issue, and the facts of a dataset that the checks need."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from app.datasets.inspection.stored_blocks import Integers

LISTED = 20
"""Maximum rows or columns that an issue lists."""
TINY_CLASS = 5
"""A class with fewer rows than this is reported as too small. Larger: more reports."""

Finding = dict[str, Any]


@dataclass(frozen=True)
class Facts:
    """Facts from the row of a dataset: plain data that is sent to a child process."""

    classes: list[dict[str, Any]]
    feature_names: list[str] | None
    warnings: list[dict[str, Any]]
    labels_are_text: bool
    kinds: list[str] | None = None
    """Kinds of the features; None: all are numeric."""

    def name(self, column: int) -> str:
        return self.feature_names[column] if self.feature_names else str(column)

    def of_kind(self, columns: Integers, *kinds: str) -> npt.NDArray[np.bool_]:
        """Return those of these features that have one of these kinds."""
        if self.kinds is None:
            return np.full(len(columns), "numeric" in kinds)
        return np.array([self.kinds[column] in kinds for column in columns.tolist()], dtype=np.bool_)


def finding(severity: str, code: str, detail: str, remedy: str, **places: Any) -> Finding:
    return {"severity": severity, "code": code, "detail": detail, "remedy": remedy, **places}


def columns_of(numbers: Sequence[int] | Integers, facts: Facts, count: int | None = None) -> dict[str, Any]:
    """Return the names of the first of these columns, and their number (default: all that are given)."""
    names = [facts.name(int(number)) for number in numbers[:LISTED]]
    return {"count": len(numbers) if count is None else count, "columns": names}
