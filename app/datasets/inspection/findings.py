"""The fields of an issue, and the facts of a dataset that the checks need."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from app.datasets.inspection.stored_blocks import Integers

LISTED = 20
"""Maximum number of rows or columns that an issue lists. Larger: larger rows in the database and responses. Set by
hand; no measurement is recorded."""
TINY_CLASS = 5
"""Minimum rows of a class. A smaller class is reported. The check for columns that reveal the label needs the same
number. Larger: more reports of small classes, fewer of revealing columns. Set by hand; no measurement is recorded."""

Finding = dict[str, Any]


@dataclass(frozen=True)
class Facts:
    """Facts from the database row of a dataset, as plain data that can be sent to a child process."""

    classes: list[dict[str, Any]]
    feature_names: list[str] | None
    warnings: list[dict[str, Any]]
    labels_are_text: bool
    kinds: list[str] | None = None
    """Kinds of the features; None if all are numeric."""

    def name(self, column: int) -> str:
        return self.feature_names[column] if self.feature_names else str(column)

    def of_kind(self, columns: Integers, *kinds: str) -> npt.NDArray[np.bool_]:
        """Return for each of these features whether it has one of these kinds."""
        if self.kinds is None:
            return np.full(len(columns), "numeric" in kinds)
        return np.array([self.kinds[column] in kinds for column in columns.tolist()], dtype=np.bool_)


def finding(severity: str, code: str, detail: str, remedy: str, **places: Any) -> Finding:
    return {"severity": severity, "code": code, "detail": detail, "remedy": remedy, **places}


def columns_of(numbers: Sequence[int] | Integers, facts: Facts, count: int | None = None) -> dict[str, Any]:
    """Return the names of the first LISTED of these columns, and their number, as fields of an issue. `count` is given
    if `numbers` does not have all affected columns."""
    names = [facts.name(int(number)) for number in numbers[:LISTED]]
    return {"count": len(numbers) if count is None else count, "columns": names}
