"""Choose the task of a job (requested, or suggested by the labels) and check that the labels fit it."""

from typing import NamedTuple

from app.db.tables import DatasetRow
from app.errors import invalid_field

NUMBER_TASKS = ("ordinal", "regression")
CLASS_TASKS = ("binary", "multiclass")


class TaskChoice(NamedTuple):
    task: str
    reason: str


def choose_task(asked: str, dataset: DatasetRow) -> TaskChoice:
    """Return the task, and the reason for it as a sentence for the client."""
    if asked != "auto":
        return TaskChoice(asked, f"{asked} was requested")
    count = len(dataset.classes)
    if not count:
        return TaskChoice("regression", "the labels are numbers, but not integers with at most 100 different values")
    task = "binary" if count == 2 else "multiclass"
    if dataset.label_names is not None:
        return TaskChoice(task, f"the labels are {count} text classes")
    return TaskChoice(task, f"the labels are integers with {count} different values, which are treated as classes")


def check_labels(task: str, dataset: DatasetRow, field: str) -> None:
    """Refuse text labels for a task that needs numbers. A solver gets only class codes, so it cannot check this."""
    if task in NUMBER_TASKS and dataset.label_names is not None:
        detail = f"task {task} needs numeric labels, and the labels of this dataset are text; upload numbers as labels"
        raise invalid_field(field, "labels_are_text", detail)
