"""The headline metric: the one figure by which a list compares models.

Classes: `accuracy`, or `balanced_accuracy` if the classes are imbalanced. Numbers: `r2`. Ranks: `swapped_pairs`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from app.tabular.types import Array

SMALL_SHARE = 0.5
"""Classes are imbalanced if the rarest one has less than this fraction of the rows that it would have if all classes
were equal: 25 % for two classes, 5 % for ten. Larger: more sets count as imbalanced. Set by hand; no measurement is
recorded."""
HEADLINES = {"binary": "accuracy", "multiclass": "accuracy", "regression": "r2", "ordinal": "swapped_pairs"}
"""The headline metric of each task, if its classes are not imbalanced."""
LOWER_IS_BETTER = frozenset({"swapped_pairs"})
PARTS = ("test", "folds", "train")
"""Rows that a headline can be measured on, the best first."""


def is_imbalanced(counts: Array) -> bool:
    """Whether the rarest class has few rows. `counts`: rows of each class."""
    total = counts.sum()
    return len(counts) > 1 and bool(counts.min() < SMALL_SHARE * total / len(counts))


def headline_of(
    task: str, figures: Mapping[str, Mapping[str, Any] | None], *, imbalanced: bool
) -> dict[str, Any] | None:
    """Return {name, value, rows} of the first part that has the metric. `figures`: metrics by the names in PARTS."""
    name = "balanced_accuracy" if imbalanced else HEADLINES[task]
    for part in PARTS:
        value = (figures.get(part) or {}).get(name)
        if value is not None:
            return {"name": name, "value": value, "rows": part}
    return None


def is_worse(name: str, value: float, than: float) -> bool:
    """Whether one value of a headline metric is worse than another, by more than rounding."""
    difference = value - than if name in LOWER_IS_BETTER else than - value
    return bool(difference > 16 * np.finfo(np.float64).eps * max(1.0, abs(than)))
