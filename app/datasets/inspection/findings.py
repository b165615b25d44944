"""What the data doctor says of a dataset, and what it knows before it looks at the rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from app.datasets.inspection.stored_blocks import Integers

LISTED = 20
TINY_CLASS = 5

Finding = dict[str, Any]


@dataclass(frozen=True)
class Facts:
    """What the row of a dataset knows; plain data that travels to a child."""

    classes: list[dict[str, Any]]
    feature_names: list[str] | None
    warnings: list[dict[str, Any]]
    labels_are_text: bool
    kinds: list[str] | None = None
    """Of the features; None: all are numbers."""

    def name(self, column: int) -> str:
        return self.feature_names[column] if self.feature_names else str(column)

    def of_kind(self, columns: Integers, *kinds: str) -> npt.NDArray[np.bool_]:
        """Which of these features are of one of these kinds."""
        if self.kinds is None:
            return np.full(len(columns), "numeric" in kinds)
        return np.array([self.kinds[column] in kinds for column in columns.tolist()], dtype=np.bool_)


def finding(severity: str, code: str, detail: str, remedy: str, **places: Any) -> Finding:
    return {"severity": severity, "code": code, "detail": detail, "remedy": remedy, **places}


def columns_of(numbers: Sequence[int] | Integers, facts: Facts, count: int | None = None) -> dict[str, Any]:
    """The first of some columns by name, and how many there are: as many as are given, unless it is said."""
    names = [facts.name(int(number)) for number in numbers[:LISTED]]
    return {"count": len(numbers) if count is None else count, "columns": names}
