"""Response schemas of the results of jobs that train. Results of other job types are declared with their type."""

from pydantic import BaseModel, Field

from app.models.metrics.schemas import CalibrationReport, CrossValidation, Figures, Metrics, TunedThreshold
from app.models.schemas import Certificate, Headline, TrainingRun, Warned


class JobResult(Figures):
    """Result of a succeeded job. Fields can be added."""


class StoredFile(BaseModel):
    """A file that a job wrote."""

    sha256: str = Field(description="SHA-256 of the file.")
    bytes: int = Field(description="Size of the file in bytes.")


class Chosen(Figures):
    """Values that a search chose: C, the loss, and the other values that were tried."""

    C: float = Field(description="Value of C.")
    loss: str | None = Field(None, description="Loss of the combination.")
    variant: int | None = Field(None, description="Number of the combination, from 0.")


class BestTrial(Chosen):
    """The best values, and their metric."""

    mean: float | None = Field(description="Mean of the metric over the folds; null: there were no folds.")
    std: float | None = Field(description="Sample standard deviation over the folds; null: fewer than two.")


class SearchTrial(BestTrial):
    """One value of C that was tried, in one combination of the other values."""

    lower_bound: float | None = Field(None, description="Proven lower bound of the exact models' metric.")
    upper_bound: float | None = Field(None, description="Proven upper bound of the exact models' metric.")
    relative_gap: float | None = Field(description="Largest relative gap of the folds; null: none was proved.")
    seconds: float = Field(description="Seconds of all folds.")


class SearchCertificate(Figures):
    """The proof of a search: no C of the range is better than `best` by more than `epsilon_reached`."""

    range: list[float] = Field(description="Smallest and largest C.")
    epsilon: float = Field(description="The epsilon that was asked for.")
    epsilon_reached: float = Field(description="The epsilon that is proved.")
    best: float = Field(description="Proven figure of the best C, at worst.")
    C: float = Field(description="The C with that figure.")
    lower_bound: float = Field(description="No C of the range has a smaller figure.")
    upper_bound: float = Field(description="No C of the range has a larger figure.")
    steps: list[list[float]] = Field(description="[C_low, C_high, lower, upper]: bounds of the figure in between.")
    decided: int | None = Field(description="Held-out rows with one possible label in the weakest step; null: numbers.")
    undecided: int | None = Field(description="The other held-out rows there; null: numbers.")
    proven: bool = Field(description="Whether `epsilon_reached` is at most `epsilon`.")
    values: int = Field(description="Values of C at which all folds were trained.")


class OuterFolds(Figures):
    """The metric on rows that the whole search did not see."""

    mean: float = Field(description="Mean over the outer folds.")
    std: float | None = Field(description="Sample standard deviation over the outer folds.")
    values: list[float] = Field(description="The metric of each outer fold.")
    chosen: list[Chosen] = Field(description="What the search on the other rows chose.")


class SearchReport(JobResult):
    """What a search compared, and what it found."""

    metric: str = Field(description="Metric that was compared.")
    best: BestTrial = Field(description="The chosen values.")
    trials: list[SearchTrial] = Field([], description="All values that were tried. The card of a model has them not.")
    certificate: SearchCertificate | None = Field(description="Proof of the search; null: none, see `reason`.")
    reason: str | None = Field(description="Why this C, or why there is no proof or a weaker one; null: as requested.")
    folds: int = Field(description="Number of folds.")
    seconds: float = Field(description="Seconds of the search.")


class TrainResult(JobResult):
    """Result of a training. `GET /v1/models/{ref}` shows the model itself."""

    status: str = Field(description="How it ended: `converged`, `stopped`, or the limit that ended it.")
    converged: bool = Field(description="Whether the certified relative gap is at most `tol`.")
    task: str = Field(description="Task that was trained: `binary`, `multiclass`, `ordinal` or `regression`.")
    task_reason: str = Field(description="Why this task, in a sentence.")
    strategy: str | None = Field(description="Multiclass strategy; null: the task has none.")
    solver: str = Field(description="Solver that ran.")
    solver_reason: str = Field(description="Why this solver, in a sentence.")
    certificate: Certificate = Field(description="Optimality certificate.")
    headline: Headline | None = Field(None, description="The metric that lists show; null: it is not defined.")
    metrics: Metrics = Field(
        description="Metrics on the training rows and, with a split, the test rows; `baseline`: of a constant model."
    )
    threshold: TunedThreshold | None = Field(None, description="Tuned decision threshold; null: it is 0.")
    cross_validation: CrossValidation | None = Field(description="Cross-validation; null: there was none.")
    calibration: CalibrationReport | None = Field(description="Calibration; null: no probabilities.")
    training: TrainingRun = Field(description="Facts of the training run.")
    warnings: list[Warned] = Field(description="Automatic decisions and likely mistakes.")
    tuning: SearchReport | None = Field(None, description="The search that chose C; null: the request named it.")


class TuneResult(SearchReport):
    """Result of a search. With `refit`, the fields of a training follow."""

    rule: str = Field(description="Rule that chose: `best` or `1se`.")
    outer: OuterFolds | None = Field(description="Nested cross-validation; null: there was none.")
    finished: bool = Field(description="Whether the search ran to its end.")
    path: StoredFile = Field(description="The path as an Arrow stream; `GET /v1/jobs/{id}/path` returns it.")
    model_certificate: Certificate | None = Field(None, description="Certificate of the model; null: no `refit`.")
    converged: bool | None = Field(None, description="Whether the model reached `tol`; null: no `refit`.")
    headline: Headline | None = Field(None, description="The metric that lists show; null: no `refit`.")
    metrics: Metrics | None = Field(None, description="Metrics of the model; null: no `refit`.")
    threshold: TunedThreshold | None = Field(None, description="Tuned decision threshold; null: it is 0.")
    training: TrainingRun | None = Field(None, description="Facts of the model's training; null: no `refit`.")


class RacerReport(Figures):
    """How a solver did in a race."""

    solver: str = Field(description="Name of the solver.")
    status: str = Field(description="How it ended: `converged`, `stopped`, a limit, or `failed`.")
    detail: str | None = Field(None, description="Why it failed; null: it did not.")
    seconds: float | None = Field(description="Seconds of solving; null: it failed.")
    relative_gap: float | None = Field(description="Certified relative gap; null: it failed, or none is known.")


class RaceResult(TrainResult):
    """Result of a race: that of the winner's training, and how all solvers did."""

    winner: str = Field(description="Solver whose model was stored.")
    race: list[RacerReport] = Field(description="All solvers, in the order of finish.")
