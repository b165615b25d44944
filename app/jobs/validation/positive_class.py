"""Checks `positive_class` and `threshold` of a request: both need two classes."""

from collections.abc import Sequence
from typing import Any

from app.datasets.schemas import Label
from app.errors import invalid_field

MOST_LISTED = 10
"""Maximum classes that a refusal lists. Larger: longer messages. Set by hand; no measurement is recorded."""


def place_of(label: Label, classes: Sequence[Label]) -> int | None:
    """Return the position of a label, or of the only label that is written like it; None: there is none."""
    if label in classes:
        return list(classes).index(label)
    spelled = [str(one) for one in classes]
    return spelled.index(str(label)) if spelled.count(str(label)) == 1 else None


def check_positive_class(label: Label | None, task: str, classes: Sequence[Label]) -> None:
    """Raise Invalid for a label that is none of the two classes. No classes: they are not known before the worker
    reads the rows."""
    if label is None:
        return
    if task != "binary":
        raise invalid_field("positive_class", "not_binary", f"task {task} has no positive class; omit positive_class")
    if classes and place_of(label, classes) is None:
        shown = ", ".join(repr(one)[:60] for one in classes[:MOST_LISTED])
        raise invalid_field("positive_class", "unknown_class", f"{label!r:.60} is not one of the classes {shown}")


def check_threshold(threshold: Any, task: str) -> None:
    """Raise Invalid for a threshold that the task cannot have."""
    if threshold is not None and task != "binary":
        detail = f"task {task} has no decision threshold, only two classes have one; omit threshold"
        raise invalid_field("threshold", "not_binary", detail)
