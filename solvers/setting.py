"""The definition of a training problem apart from its numbers, checked and with every "auto" decided.

`Setting` is all that is needed to say whether a solver can do the work, so it can be checked before any
data is read. The mathematical meaning of each choice is in docs/solvers.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from .checks import one_of, real_number, whole_number
from .errors import InvalidProblem

__all__ = ["BIASES", "LOSSES_OF_TASK", "Setting", "check_class_weight", "resolve_setting"]

TASKS = ("auto", "binary", "multiclass", "ordinal", "regression")
STRATEGIES = ("ovr", "crammer_singer")
BIASES = ("none", "regularized", "free")
C_SCALES = ("sum", "mean")
MAX_BIAS_SCALE = 1e100  # its square is summed up over the rows
LOSSES_OF_TASK = {  # the first is what "auto" means
    "binary": ("hinge", "squared_hinge", "hinge_p"),
    "multiclass": ("hinge", "squared_hinge", "hinge_p"),
    "ordinal": ("pair_hinge",),
    "regression": ("epsilon_insensitive", "squared_epsilon_insensitive"),
}


@dataclass(frozen=True)
class Setting:
    """One problem statement, of which only the numbers of X, y and the weights are missing."""

    n_rows: int
    n_features: int
    n_classes: int | None
    sparse: bool
    task: str
    strategy: str
    loss: str
    exponent: float
    """The p of the loss: 1 for hinge, 2 for squared hinge, between them for hinge_p."""
    C: float
    c_scale: str
    bias: str
    bias_scale: float
    epsilon: float

    @property
    def of_one_class(self) -> "Setting":
        """One class against the rest of them."""
        return replace(self, task="binary", n_classes=2)


def resolve_setting(
    *,
    n_rows: int,
    n_features: int,
    n_classes: int | None,
    sparse: bool,
    task: str,
    strategy: str,
    loss: str,
    p: float | None,
    C: float,
    c_scale: str,
    bias: str,
    bias_scale: float,
    epsilon: float,
) -> Setting:
    """The setting that was asked for, or the first thing that is wrong with it."""
    whole_number(n_rows, "n_rows", InvalidProblem, low=1)
    whole_number(n_features, "n_features", InvalidProblem, low=1)
    if n_classes is not None and n_classes < 2:
        raise InvalidProblem("y", "has only one class; rows of at least two classes are needed")
    task = _resolve_task(task, n_classes)
    strategy = one_of(strategy, "strategy", InvalidProblem, STRATEGIES)
    loss, exponent = _resolve_loss(loss, p, task)
    bias = one_of(bias, "bias", InvalidProblem, BIASES)
    return Setting(
        n_rows=n_rows,
        n_features=n_features,
        n_classes=n_classes,
        sparse=sparse,
        task=task,
        strategy=strategy,
        loss=loss,
        exponent=exponent,
        C=real_number(C, "C", InvalidProblem, above=0.0),
        c_scale=one_of(c_scale, "c_scale", InvalidProblem, C_SCALES),
        bias="none" if task == "ordinal" else bias,  # a bias cancels out of every pair
        bias_scale=real_number(bias_scale, "bias_scale", InvalidProblem, above=0.0, high=MAX_BIAS_SCALE),
        epsilon=real_number(epsilon, "epsilon", InvalidProblem, low=0.0),
    )


def check_class_weight(class_weight: object) -> Mapping[object, float] | str | None:
    """The table's weights as floats; whether its labels exist is known only with the data."""
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced"):
        return class_weight
    if not isinstance(class_weight, Mapping):
        raise InvalidProblem("class_weight", "must be 'balanced' or a table from label to weight")
    return {
        label: real_number(weight, f"class_weight[{label!r:.60}]", InvalidProblem, low=0.0)
        for label, weight in class_weight.items()
    }


def _resolve_task(task: str, n_classes: int | None) -> str:
    task = one_of(task, "task", InvalidProblem, TASKS)
    if task == "auto":
        if n_classes is None:
            return "regression"
        return "binary" if n_classes == 2 else "multiclass"
    if task in ("binary", "multiclass") and n_classes is None:
        raise InvalidProblem("task", f"{task} needs class labels, and these labels are real numbers")
    if task == "binary" and n_classes != 2:
        raise InvalidProblem("task", f"binary needs labels of exactly two classes; there are {n_classes}")
    return task


def _resolve_loss(loss: str, p: float | None, task: str) -> tuple[str, float]:
    known = [name for losses in LOSSES_OF_TASK.values() for name in losses]
    loss = one_of(loss, "loss", InvalidProblem, ["auto", *dict.fromkeys(known)])
    possible = LOSSES_OF_TASK[task]
    if loss == "auto":
        loss = possible[0]
    elif loss not in possible:
        raise InvalidProblem("loss", f"{loss} does not fit task {task}; use {' or '.join(possible)}")
    if loss == "hinge_p":
        if p is None:
            raise InvalidProblem("p", "is needed with loss hinge_p: a number from 1 to 2")
        return loss, real_number(p, "p", InvalidProblem, low=1.0, high=2.0)
    if p is not None:
        raise InvalidProblem("p", f"has a meaning with loss hinge_p only; leave it out with {loss}")
    return loss, 2.0 if loss.startswith("squared") else 1.0
