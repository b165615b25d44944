"""The job type `race`: several solvers on one problem at the same time; the first to reach `tol` makes the model."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, WithJsonSchema
from sqlalchemy.orm import Session

from app.db.tables import DatasetRow
from app.errors import AppError, Invalid, invalid_field
from app.jobs.admission import Admission, Needs
from app.jobs.result_schemas import RaceResult
from app.jobs.schemas import JobOptions, TrainingFields, TrainingSpec
from app.jobs.training_jobs import training_type
from app.jobs.validation import preprocessing, training
from app.names import TEXT_PATTERN, Text
from app.storage import BlobStore

MOST_SOLVERS = 8
"""Maximum solvers of a race. Larger: more memory, and less of the processor for each of them. Set by hand; no
measurement is recorded."""

OPTIONS_BY_SOLVER = {
    "type": "object",
    "additionalProperties": {"type": "object", "additionalProperties": True},
    "propertyNames": {"pattern": TEXT_PATTERN},
}
"""JSON schema of `solver_options`. pydantic would write `patternProperties`, which generators of clients ignore."""


class RaceRequest(JobOptions, TrainingFields):
    """Train with several solvers at the same time. The first to reach `tol` makes the model; the others are stopped."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "race",
                    "dataset_id": "ds_…",
                    "model": "radar",
                    "loss": "squared_hinge",
                    "solvers": ["dcd", "newton"],
                }
            ]
        }
    )

    type: Literal["race"] = Field(description="Job type.")
    solvers: Annotated[list[Text], Field(min_length=2, max_length=MOST_SOLVERS)] = Field(
        description="Names of 2 to 8 different solvers of `GET /v1/solvers`; `auto` is one of them."
    )
    solver_options: Annotated[dict[Text, dict[str, Any]], WithJsonSchema(OPTIONS_BY_SOLVER)] = Field(
        default_factory=dict, description="Options of the solvers, by the name of the solver."
    )

    def training(self, solver: str) -> TrainingSpec:
        """Return the training that one of the solvers does."""
        fields = {name: getattr(self, name) for name in TrainingFields.model_fields}
        return TrainingSpec(**fields, solver=solver, solver_options=self.solver_options.get(solver, {}))

    def trainings(self) -> list[TrainingSpec]:
        return [self.training(solver) for solver in self.solvers]


def _needs(session: Session, request: RaceRequest, dataset: DatasetRow, admission: Admission) -> Needs:
    """Estimate the race: all solvers run at the same time."""
    first, *others = request.trainings()
    return admission.needs(session, first, dataset, others)


def _refusals(session: Session, request: RaceRequest, dataset: DatasetRow, blobs: BlobStore) -> Iterator[AppError]:
    """Yield the reasons to refuse a race: those of its problem once, then those of each solver."""
    for number, solver in enumerate(request.solvers):
        if solver in request.solvers[:number]:
            detail = f"{solver[:60]} is named twice; every solver runs once"
            yield invalid_field(f"solvers.{number}", "duplicate_solver", detail)
    for solver in request.solver_options:
        if solver not in request.solvers:
            field = f"solver_options.{solver[:60]}"
            yield invalid_field(field, "unknown_solver", "this solver is not in the race; add it to solvers")
    yield from training.refusals(session, request.training("auto"), dataset, blobs)
    spec = preprocessing.resolve(request, dataset)
    for number, one in enumerate(request.trainings()):
        try:
            training.check_solver(one, dataset, spec)
        except Invalid as refusal:
            yield from _of_solver(number, one.solver, refusal)


def _of_solver(number: int, solver: str, refusal: Invalid) -> Iterator[Invalid]:
    """Translate the refusal of one solver. Errors of the problem itself are left out: the check without a solver
    reports them."""
    for error in refusal.errors or ():
        if solver == "auto" and error.code == "unsupported_problem":
            continue
        field, _, option = (error.field or "").partition(".")
        if field == "solver_options":
            yield invalid_field(f"solver_options.{solver}.{option}".rstrip("."), error.code, error.detail)
        elif error.code in ("unknown_solver", "unsupported_problem"):
            yield invalid_field(f"solvers.{number}", error.code, error.detail)


JOB_TYPE = training_type(RaceRequest, _refusals, _needs, result=RaceResult, settle=training.with_settled_start)
