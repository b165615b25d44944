"""The definition of a training problem without its data: its parameters, and the spec that they resolve to.

`Parameters` declares every parameter once: its name, type, default, range and meaning. `train`, `check`, `estimate` and
`certify` take them by these names, and the HTTP API derives its fields from them.

`ProblemSpec` contains all that decides whether a solver supports a problem, so this can be checked before any data is
read. docs/solvers.md defines each choice mathematically.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, TypedDict, Unpack, get_args, get_type_hints

from solvers.checks import one_of, real_number, whole_number
from solvers.errors import InvalidProblem
from solvers.problem.losses import losses_of, registered
from solvers.problem.losses.loss import Loss

__all__ = [
    "BIASES",
    "JOINT_LOGISTIC",
    "PARAMETERS",
    "Parameter",
    "Parameters",
    "ProblemSpec",
    "check_class_weight",
    "resolve_spec",
]

TASKS = ("auto", "binary", "multiclass", "ordinal", "regression")
STRATEGIES = ("ovr", "crammer_singer", "multinomial")
JOINT_LOGISTIC = "multinomial"
"""The strategy that trains all classes jointly with the logistic loss. `crammer_singer` does so with the hinge
losses."""
BIASES = ("none", "regularized", "free")
C_SCALES = ("sum", "mean")


@dataclass(frozen=True)
class Parameter:
    """One parameter of the problem: its default, its accepted values, and its meaning."""

    default: Any
    description: str
    words: tuple[str, ...] | Callable[[], tuple[str, ...]] = ()
    """The accepted words, or a function that lists them; empty for a number or a table."""
    low: float | None = None
    above: float | None = None
    """The exclusive lower limit."""
    high: float | None = None

    @property
    def choices(self) -> tuple[str, ...]:
        """The accepted words; empty for a number or a table."""
        return self.words() if callable(self.words) else self.words

    def checked(self, name: str, value: Any) -> Any:
        """Return the word or number as given, or raise the error that says what is accepted."""
        if self.choices:
            return one_of(value, name, InvalidProblem, self.choices)
        low = float("-inf") if self.low is None else self.low
        high = float("inf") if self.high is None else self.high
        return real_number(value, name, InvalidProblem, low=low, high=high, above=self.above)


def _loss_names() -> tuple[str, ...]:
    return ("auto", *dict.fromkeys(name for task in TASKS for name in losses_of(task)))


class Parameters(TypedDict, total=False):
    """The parameters of a problem, as keyword arguments of every function that takes a problem."""

    task: Annotated[
        str, Parameter("auto", "what to learn; auto: decided from the labels, and the result says why", TASKS)
    ]
    strategy: Annotated[
        str, Parameter("ovr", "several classes: one problem per class (ovr), or one joint problem", STRATEGIES)
    ]
    loss: Annotated[str, Parameter("auto", "the loss function; auto: the first loss of the task", _loss_names)]
    p: Annotated[float | None, Parameter(None, "the exponent of loss hinge_p; null otherwise", low=1.0, high=2.0)]
    C: Annotated[float, Parameter(1.0, "the weight of the losses against the regulariser", above=0.0)]
    c_scale: Annotated[str, Parameter("sum", "whether C weighs the sum of the losses or their mean", C_SCALES)]
    bias: Annotated[
        str, Parameter("regularized", "the intercept: none, penalised like a weight, or not penalised (free)", BIASES)
    ]
    bias_scale: Annotated[
        float,
        # The square of this number is summed over the rows; the sum must not overflow.
        Parameter(1.0, "the value of the constant feature for a regularised bias", above=0.0, high=1e100),
    ]
    epsilon: Annotated[float, Parameter(0.1, "regression: errors up to this size cost nothing", low=0.0)]
    class_weight: Annotated[
        Mapping[Any, float] | str | None,
        Parameter(None, "factors of C by class: a table from label to factor, or `balanced`"),
    ]


def _declared() -> Mapping[str, Parameter]:
    hints = get_type_hints(Parameters, include_extras=True)
    return MappingProxyType({name: get_args(hint)[1] for name, hint in hints.items()})


PARAMETERS = _declared()
"""The declarations of `Parameters` by name."""


@dataclass(frozen=True)
class ProblemSpec:
    """A problem definition in which every "auto" is replaced by a choice. It lacks only the values of X, y and the
    weights."""

    n_rows: int
    n_features: int
    n_classes: int | None
    sparse: bool
    task: str
    strategy: str
    loss: str
    p: float | None
    """The exponent of a loss that has one; None for others."""
    C: float
    c_scale: str
    bias: str
    bias_scale: float
    epsilon: float

    @cached_property
    def loss_function(self) -> Loss:
        """The loss object for the name of the loss."""
        loss = registered()[self.loss]
        return loss(self.p) if loss.takes_p else loss()  # type: ignore[call-arg]

    @property
    def of_one_class(self) -> "ProblemSpec":
        """The spec of one class against the rest."""
        return replace(self, task="binary", n_classes=2)


def resolve_spec(
    *, n_rows: int, n_features: int, n_classes: int | None, sparse: bool, **parameters: Unpack[Parameters]
) -> ProblemSpec:
    """Return the spec of these parameters for data of this shape, or raise the first error in them."""
    if unknown := parameters.keys() - PARAMETERS.keys():
        raise TypeError(f"unexpected keyword argument {min(unknown)!r}; a problem has {', '.join(PARAMETERS)}")
    whole_number(n_rows, "n_rows", InvalidProblem, low=1)
    whole_number(n_features, "n_features", InvalidProblem, low=1)
    if n_classes is not None and n_classes < 2:
        raise InvalidProblem("y", "has only one class; rows of at least two classes are needed")
    values: dict[str, Any] = {name: parameter.default for name, parameter in PARAMETERS.items()} | dict(parameters)
    task = _resolve_task(PARAMETERS["task"].checked("task", values["task"]), n_classes)
    strategy = PARAMETERS["strategy"].checked("strategy", values["strategy"])
    loss = PARAMETERS["loss"].checked("loss", values["loss"])
    if loss == "auto" and task == "multiclass" and strategy == JOINT_LOGISTIC:
        loss = "logistic"
    loss, p = _resolve_loss(loss, values["p"], task)
    if task == "multiclass":
        _check_strategy(strategy, loss)
    plain = {name: values[name] for name in ("strategy", "bias", "C", "c_scale", "bias_scale", "epsilon")}
    checked = {name: PARAMETERS[name].checked(name, value) for name, value in plain.items()}
    if task == "ordinal":
        checked["bias"] = "none"  # a bias cancels out of every pair
    return ProblemSpec(n_rows, n_features, n_classes, sparse, task=task, loss=loss, p=p, **checked)


def check_class_weight(class_weight: object) -> Mapping[object, float] | str | None:
    """Return the class weights as floats. Whether the labels of the table exist is checked later, with the data."""
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced"):
        return class_weight
    if not isinstance(class_weight, Mapping):
        raise InvalidProblem("class_weight", "must be 'balanced' or a table from label to weight")
    return {
        label: real_number(weight, f"class_weight[{label!r:.60}]", InvalidProblem, low=0.0)
        for label, weight in class_weight.items()
    }


def _resolve_task(task: str, n_classes: int | None) -> str:
    if task == "auto":
        if n_classes is None:
            return "regression"
        return "binary" if n_classes == 2 else "multiclass"
    if task in ("binary", "multiclass") and n_classes is None:
        raise InvalidProblem(
            "task", f"{task} needs class labels, but these labels are real numbers; use task regression or ordinal"
        )
    if task == "binary" and n_classes != 2:
        raise InvalidProblem("task", f"binary needs labels of exactly two classes; there are {n_classes}")
    return task


def _check_strategy(strategy: str, loss: str) -> None:
    if strategy == JOINT_LOGISTIC and loss != "logistic":
        raise InvalidProblem("strategy", f"{strategy} needs loss logistic, not {loss}; use ovr or crammer_singer")
    if strategy == "crammer_singer" and loss == "logistic":
        raise InvalidProblem("strategy", f"{strategy} does not fit loss logistic; use ovr or {JOINT_LOGISTIC}")


def _resolve_loss(loss: str, p: float | None, task: str) -> tuple[str, float | None]:
    possible = losses_of(task)
    if loss == "auto":
        loss = possible[0]
    elif loss not in possible:
        raise InvalidProblem("loss", f"{loss} does not fit task {task}; use {' or '.join(possible)}")
    if registered()[loss].takes_p:
        if p is None:
            raise InvalidProblem("p", f"is needed with loss {loss}: a number from 1 to 2")
        return loss, PARAMETERS["p"].checked("p", p)
    if p is not None:
        raise InvalidProblem("p", f"is only used with loss hinge_p; leave it out with {loss}")
    return loss, None
