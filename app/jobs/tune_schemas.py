"""The request body of a search: what to try, how to compare it, and what to prove."""

import math
from collections.abc import Mapping
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, StrictBool, Tag, create_model, model_validator

import solvers
from app.errors import UNION_TAG
from app.jobs.schemas import PREPROCESS, FoldCount, Positive, RunFields, TrainingSpec, TrainingTarget, parameter_type
from app.names import Text
from app.preprocess.spec import Preprocess
from app.web.validation import Body

TRIED = ("strategy", "loss", "p", "epsilon", "class_weight")
"""Parameters of the problem that can have several values. Each combination of them is searched."""
MAX_VALUES = 20
"""Maximum values of one parameter. Larger: more combinations in one job. Set by hand; no measurement is recorded."""
MAX_COMBINATIONS = 50
"""Maximum combinations of one job. Each costs a search over C. Larger: jobs that run longer. Set by hand; no
measurement is recorded."""
MAX_COSTS = 200
"""Maximum values of C in a list. Each costs a training for each fold. Larger: jobs that run longer. Set by hand; no
measurement is recorded."""
DEFAULT_FOLDS = 5
CERTIFIED_VALUES = 80
"""Values of C to estimate a proof by. Measured: 55 to 125 for an epsilon of 0.01 (docs/benchmarks/tuning.md)."""


class CostRange(Body):
    """A range of C."""

    min: Positive = Field(description="Smallest C.")
    max: Positive = Field(description="Largest C.")

    @model_validator(mode="after")
    def has_an_order(self) -> Self:
        if self.min >= self.max:
            raise ValueError(f"min must be smaller than max; they are {self.min:g} and {self.max:g}")
        return self


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def several(plain: Any) -> Any:
    """Return the type of a field that takes one value or a list of values."""
    listed = Annotated[list[plain], Field(min_length=1, max_length=MAX_VALUES)]
    return Annotated[listed, BeforeValidator(_as_list, json_schema_input_type=plain | listed)]


def _single_as_list(value: Any) -> Any:
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else value


def _kind_of_costs(value: Any) -> str:
    if isinstance(value, list):
        return f"{UNION_TAG}values"
    return f"{UNION_TAG}auto" if isinstance(value, str) else f"{UNION_TAG}range"


CostList = Annotated[list[Positive], Field(min_length=1, max_length=MAX_COSTS)]
Costs = Annotated[
    Annotated[CostRange, Tag("type=range")]
    | Annotated[CostList, Tag("type=values")]
    | Annotated[Literal["auto"], Tag("type=auto")],
    Discriminator(_kind_of_costs),
    BeforeValidator(_single_as_list, json_schema_input_type=Positive | CostRange | CostList | Literal["auto"]),
]


class Folds(Body):
    """How rows are held out."""

    folds: FoldCount | None = Field(None, description=f"Number of folds; null: {DEFAULT_FOLDS}.")
    group: StrictBool | None = Field(
        None, description="Keep the rows of a group in one fold; null: if the dataset has groups."
    )
    fold_column: Text | None = Field(
        None, description="Name of the column that holds the fold of each row. The upload must have named it `group`."
    )
    repeats: Annotated[int, Field(ge=1, le=20)] = Field(
        1, description="How often folds are drawn. The mean over all of them is compared."
    )

    @model_validator(mode="after")
    def are_given_once(self) -> Self:
        if self.fold_column is not None and (self.folds is not None or self.repeats != 1 or self.group is not None):
            raise ValueError("fold_column defines the folds; leave out folds, group and repeats")
        return self


def _as_folds(value: Any) -> Any:
    return {"folds": value} if isinstance(value, int) and not isinstance(value, bool) else value


def _kind_of_epsilon(value: Any) -> str:
    return f"{UNION_TAG}word" if isinstance(value, str) else f"{UNION_TAG}number"


Epsilon = Annotated[
    Annotated[float, Field(ge=0, allow_inf_nan=False), Tag("type=number")]
    | Annotated[Literal["1se"], Tag("type=word")],
    Discriminator(_kind_of_epsilon),
]


class Certify(Body):
    """The proof to search for: no C of the range is better than the best one by more than epsilon."""

    epsilon: Epsilon = Field(
        "1se", description="In units of the metric; `1se`: one standard error of the best C over the folds."
    )


def _tried_fields() -> dict[str, Any]:
    return {
        name: (
            several(parameter_type(name)) if name in TRIED else parameter_type(name),
            Field(
                [parameter.default] if name in TRIED else parameter.default,
                description=parameter.description + ("; one value, or a list of values to try" * (name in TRIED)),
            ),
        )
        for name, parameter in solvers.PARAMETERS.items()
        if name != "C"
    }


if TYPE_CHECKING:

    class TriedFields(TrainingTarget):
        """The parameters that app/jobs reads itself."""

        task: str
        bias: str
        loss: list[str]

    Preprocessings = list[Preprocess | None]
else:
    TriedFields = create_model("TriedFields", __base__=TrainingTarget, **_tried_fields())
    Preprocessings = several(Preprocess | None)


def _without_default(schema: dict[str, Any]) -> None:
    """Leave the default to the description: generators cannot use an object as the default of one of several types."""
    schema.pop("default", None)


class TuneSpec(RunFields, TriedFields):
    """What to search, and how. The request body of a search extends it."""

    C: Costs = Field(
        "auto",
        description="Values of C: a range {min, max}, a list, or `auto`: from 1e-3 to 1e3 in units of 1 / mean |x|^2. "
        "A range is searched coarsely, then finely around the best C.",
    )
    preprocess: Preprocessings = Field([None], description=f"{PREPROCESS} One value, or a list of values to try.")
    cross_validation: Annotated[Folds, BeforeValidator(_as_folds, json_schema_input_type=FoldCount | Folds)] = Field(
        Folds(),
        description=f"Number of folds, or how rows are held out. Default: {DEFAULT_FOLDS} folds.",
        json_schema_extra=_without_default,
    )
    metric: Text | None = Field(
        None,
        description="What to compare on the held-out rows. Classes: error, accuracy, balanced_error, "
        "balanced_accuracy, f1, precision, recall, roc_auc, pr_auc, matthews. Regression: mae, mse, rmse, r2. Ordinal: "
        "swapped_pairs, kendall_tau, ndcg. null: error, mae or swapped_pairs.",
    )
    certify: Certify | None = Field(
        None,
        description="Prove that the search is over. The result says what was proved; null: no proof, which is faster.",
    )
    rule: Literal["best", "1se"] = Field(
        "best", description="`best`: the best C. `1se`: the smallest C within one standard error of the best."
    )
    refit: StrictBool = Field(True, description="Train a model of all training rows with the best values.")
    outer_folds: FoldCount | None = Field(
        None,
        description="Repeat the whole search in this many outer folds, for an estimate that the search has not seen.",
    )

    @model_validator(mode="after")
    def are_few(self) -> Self:
        if (count := len(self.combinations())) > MAX_COMBINATIONS:
            raise ValueError(f"there are {count} combinations of values to try; the limit is {MAX_COMBINATIONS}")
        return self

    @property
    def folds(self) -> int:
        """Return the number of folds of one repeat; for a fold column, whose folds are not known yet, the default
        number."""
        return self.cross_validation.folds or DEFAULT_FOLDS

    def combinations(self) -> list[dict[str, Any]]:
        """Return the values of each combination. An exponent p is combined with the losses that use one."""
        names = (*TRIED, "preprocess")
        found: list[dict[str, Any]] = []
        for values in product(*(getattr(self, name) for name in names)):
            one = dict(zip(names, values, strict=True))
            if "hinge_p" in self.loss and one["loss"] != "hinge_p":
                one["p"] = None
            if one not in found:
                found.append(one)
        return found

    def training(self, combination: Mapping[str, Any], C: float = 1.0) -> TrainingSpec:
        """Return the training of this combination at C."""
        shared = {name: getattr(self, name) for name in TrainingSpec.model_fields if name in type(self).model_fields}
        folds = None if self.cross_validation.fold_column else self.folds
        return TrainingSpec.model_construct(**{**shared, **combination, "C": C, "cross_validation": folds})

    def costs(self) -> list[float]:
        """Return the values of C to check and to estimate the job by."""
        if isinstance(self.C, list):
            return sorted(self.C)
        return [1.0] if isinstance(self.C, str) else [self.C.min, self.C.max]

    def count_costs(self) -> int:
        """Estimate how many values of C are trained."""
        if isinstance(self.C, list):
            return len(self.C)
        decades = 6.0 if isinstance(self.C, str) else math.log10(self.C.max / self.C.min)
        return CERTIFIED_VALUES if self.certify else math.ceil(2.0 * decades) + 7
