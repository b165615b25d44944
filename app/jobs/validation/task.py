"""Which task a job has: the one that was asked for, or the one that the labels suggest; and what it needs of them."""

from typing import NamedTuple

from app.db.tables import DatasetRow
from app.errors import invalid_field

NUMBER_TASKS = ("ordinal", "regression")
CLASS_TASKS = ("binary", "multiclass")


class TaskChoice(NamedTuple):
    task: str
    reason: str


def choose_task(asked: str, dataset: DatasetRow) -> TaskChoice:
    """The task with the reason for it, in words for the client."""
    if asked != "auto":
        return TaskChoice(asked, f"{asked} was asked for")
    count = len(dataset.classes)
    if not count:
        return TaskChoice("regression", "the labels are numbers, and not at most 100 different whole ones")
    task = "binary" if count == 2 else "multiclass"
    if dataset.label_names is not None:
        return TaskChoice(task, f"the labels are {count} text classes")
    return TaskChoice(task, f"the labels are {count} different whole numbers, which are taken for classes")


def check_labels(task: str, dataset: DatasetRow, field: str) -> None:
    """Refuse text where a task needs numbers; a solver that sees codes could not tell."""
    if task in NUMBER_TASKS and dataset.label_names is not None:
        detail = f"task {task} needs labels that are numbers, and those of this dataset are text"
        raise invalid_field(field, "labels_are_text", detail)
