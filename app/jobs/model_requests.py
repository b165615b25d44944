"""Jobs on a model that is there already, over HTTP, and the union of all types of jobs."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag

from app.errors import UNION_TAG
from app.jobs.schemas import TrainRequest
from app.names import Labels, Text
from app.web.validation import Body
from app.webhooks.schemas import WebhookRequest

Output = Literal[
    "label", "rank", "score", "probability", "probabilities", "scores", "score_error_bound", "label_certain"
]
Priority = Annotated[int, Field(ge=-1000, le=1000)]


class Options(Body):
    """What every job on a model can be told."""

    priority: Priority = 0
    labels: Labels = Field(default_factory=dict)
    webhook: WebhookRequest | None = Field(None, description="an address that is told of this job only")


class VerifyOptions(Options):
    """How a model is verified."""

    dataset_id: Text | None = Field(None, description="where the rows are now; null: the dataset it was trained on")


class EvaluateOptions(Options):
    """On what a model is evaluated."""

    dataset_id: Text


class OnModel(Body):
    model: Text = Field(description="mdl_…, name, name:3 or name@alias")


class VerifyRequest(OnModel, VerifyOptions):
    """Recompute a certificate: the primal value from weights and data, the bound from the stored dual point."""

    type: Literal["verify"]


class EvaluateRequest(OnModel, EvaluateOptions):
    """Judge a model on a dataset; the report is stored."""

    type: Literal["evaluate"]


class PredictRequest(OnModel, EvaluateOptions):
    """Predict every row of a dataset into a file."""

    model_config = ConfigDict(populate_by_name=True)

    type: Literal["predict"]
    format: Literal["csv", "ndjson", "parquet", "arrow"] = "csv"
    wanted: Annotated[list[Output], Field(min_length=1)] | None = Field(
        None, alias="return", description="as in predict, without contributions; null: label and score"
    )


OnModelRequest = VerifyRequest | EvaluateRequest | PredictRequest


def _type_of(value: Any) -> str:
    found = value.get("type", "train") if isinstance(value, dict) else getattr(value, "type", "train")
    return f"{UNION_TAG}{found}"


JobRequest = Annotated[
    Annotated[TrainRequest, Tag("type=train")]
    | Annotated[VerifyRequest, Tag("type=verify")]
    | Annotated[EvaluateRequest, Tag("type=evaluate")]
    | Annotated[PredictRequest, Tag("type=predict")],
    Discriminator(
        _type_of,
        custom_error_type="unknown_type",
        custom_error_message="its type must be one of train, verify, evaluate, predict",
    ),
]
