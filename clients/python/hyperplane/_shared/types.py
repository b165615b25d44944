"""Types of the answers about jobs, models and the service. Fields that they do not name are kept (see `Answer`)."""

from datetime import datetime
from typing import Any

from hyperplane._shared.answers import Answer
from hyperplane._shared.dataset_types import Fault, FileWarning, Label

__all__ = [
    "Alias",
    "AliasChange",
    "AliasTarget",
    "Certificate",
    "Delivery",
    "Estimate",
    "Evaluation",
    "Headline",
    "JobError",
    "JobResult",
    "JobState",
    "JobSummary",
    "Metrics",
    "Model",
    "ModelSummary",
    "NewWebhook",
    "Prediction",
    "Predictions",
    "Session",
    "Solver",
    "System",
    "Trace",
    "TracePoint",
    "Validation",
    "Webhook",
    "Weights",
]


class Certificate(Answer):
    """A proven bound on how far a model's objective can be from the best possible one."""

    primal: float
    dual_bound: float | None
    gap: float | None
    relative_gap: float | None
    method: str
    claimed: bool

    def __str__(self) -> str:
        if "primal" not in self:  # of a search
            return f"lower bound {self.get('lower_bound')}, proven: {self.get('proven')}"
        if self.relative_gap is None:
            return f"objective {self.primal:.6g}, no proven bound"
        return f"objective {self.primal:.6g}, at most {self.relative_gap:.1e} (relative) above the optimum"


class Metrics(Answer):
    """Metrics on the training rows and on the test rows; each has the figures of its task."""

    train: Answer
    test: Answer


class JobError(Answer):
    """Why a job failed."""

    code: str
    message: str
    param: str | None


class JobResult(Answer):
    """What a job found. Which fields there are depends on its type."""

    status: str
    solver: str
    certificate: Certificate
    metrics: Metrics
    warnings: list[FileWarning]


class JobSummary(Answer):
    """A job in a list."""

    id: str
    type: str
    status: str
    done: bool
    progress: float
    dataset_id: str
    model: str
    model_id: str | None
    passes: int
    relative_gap: float | None
    eta_seconds: float | None
    error: JobError | None
    labels: dict[str, str]
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class JobState(JobSummary):
    """The fields of a job."""

    queue_position: int | None
    attempt: int
    iterations: int
    primal: float | None
    dual_bound: float | None
    result: JobResult | None
    spec: dict[str, Any]
    lineage: dict[str, Any]
    webhook: "NewWebhook | None"

    @property
    def certificate(self) -> Certificate | None:
        """The certificate of the result."""
        found = (self["result"] or {}).get("certificate")
        return Certificate(found) if found else None

    @property
    def metrics(self) -> Metrics | None:
        """The metrics of the result."""
        found = (self["result"] or {}).get("metrics")
        return Metrics(found) if found else None


class TracePoint(Answer):
    """A point of the convergence curve."""

    seconds: float
    iterations: int
    passes: int
    primal: float | None
    dual_bound: float | None
    relative_gap: float | None
    test_error: float | None


class Trace(Answer):
    """The convergence curve of a job."""

    job_id: str
    tol: float | None
    data: list[TracePoint]


class Estimate(Answer):
    """What a job would need."""

    seconds: float | None
    peak_bytes: int


class Validation(Answer):
    """Whether a job would be accepted, and what it would need."""

    valid: bool
    estimate: Estimate | None
    errors: list[Fault]


class Headline(Answer):
    """The metric by which a model is shown in lists."""

    name: str
    value: float
    rows: str


class ModelSummary(Answer):
    """A version of a model in a list."""

    id: str
    name: str
    version: int
    task: str
    solver: str
    converged: bool
    relative_gap: float | None
    headline: Headline | None
    created_at: datetime
    deleted_at: datetime | None
    purged_at: datetime | None


class Model(ModelSummary):
    """A version of a model."""

    strategy: str | None
    classes: list[Label]
    n_features: int
    params: dict[str, Any]
    certificate: Certificate | None
    metrics: Metrics
    curves: Answer | None
    warnings: list[FileWarning]
    training: Answer
    lineage: Answer
    aliases: list[str]

    def _repr_html_(self) -> str:
        from hyperplane._shared.html import model_html

        return model_html(self)


class Weights(Answer):
    """The weights of a model, or with `top` the strongest of each class."""

    model: str
    task: str
    coef: list[Any]
    intercept: Any
    classes: list[Any]
    feature_names: list[str] | None


class Prediction(Answer):
    """The outputs of one row."""

    label: Label
    score: float


class Predictions(Answer):
    """The outputs of all rows, and the version that gave them."""

    model: str
    name: str
    version: int
    predictions: list[Prediction]

    @property
    def labels(self) -> list[Label]:
        """The label of each row."""
        return [one["label"] for one in self["predictions"]]

    @property
    def scores(self) -> list[float]:
        """The score of each row."""
        return [one["score"] for one in self["predictions"]]


class Evaluation(Answer):
    """The metrics of a model on a dataset."""

    id: str
    model_id: str
    dataset_id: str
    job_id: str
    rows: int
    failed_rows: int
    metrics: Answer
    created_at: datetime


class AliasTarget(Answer):
    """A version that an alias serves, and its share of the requests."""

    version: int
    weight: float


class Alias(Answer):
    """A name for a version: `model@alias`."""

    name: str
    alias: str
    revision: int
    version: int
    targets: list[AliasTarget]
    shadow: int | None
    updated_at: datetime


class AliasChange(Answer):
    """A former state of an alias."""

    revision: int
    targets: list[AliasTarget] | None
    shadow: int | None
    created_at: datetime


class Webhook(Answer):
    """An address that receives events."""

    id: str
    url: str
    events: list[str]
    job_id: str | None
    created_at: datetime
    disabled_at: datetime | None


class NewWebhook(Webhook):
    """A webhook with its secret, which is shown once."""

    secret: str


class Delivery(Answer):
    """An event on its way to a webhook."""

    id: str
    event_id: str
    type: str
    status: str
    attempt: int
    last_error: str | None
    created_at: datetime


class Solver(Answer):
    """A solver of the service."""

    name: str
    tasks: list[str]
    losses: list[str]
    biases: list[str]
    options: dict[str, Any]
    paper: str
    notes: str


class System(Answer):
    """The state of the service."""

    version: str
    database: str
    datasets: int
    models: int
    jobs: Answer
    training: Answer
    storage: Answer
    readiness: Answer


class Session(Answer):
    """A session of the dashboard."""

    required: bool
    signed_in: bool
    key_id: str | None
    scopes: list[str]
    csrf_token: str | None
    expires_at: datetime | None
