"""Jobs on a model that is there already, over HTTP, and the union of all types of jobs."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from app.errors import UNION_TAG
from app.jobs.schemas import Body, TrainRequest
from app.names import Labels, Text

Priority = Annotated[int, Field(ge=-1000, le=1000)]


class VerifyOptions(Body):
    """How a model is verified."""

    dataset_id: Text | None = Field(None, description="where the rows are now; null: the dataset it was trained on")
    priority: Priority = 0
    labels: Labels = Field(default_factory=dict)


class VerifyRequest(VerifyOptions):
    """Recompute a certificate: the primal value from weights and data, the bound from the stored dual point."""

    type: Literal["verify"]
    model: Text = Field(description="mdl_…, name, name:3 or name@alias")


OnModelRequest = VerifyRequest


def _type_of(value: Any) -> str:
    found = value.get("type", "train") if isinstance(value, dict) else getattr(value, "type", "train")
    return f"{UNION_TAG}{found}"


JobRequest = Annotated[
    Annotated[TrainRequest, Tag("type=train")] | Annotated[VerifyRequest, Tag("type=verify")],
    Discriminator(
        _type_of,
        custom_error_type="unknown_type",
        custom_error_message="type must be one of train, verify",
    ),
]
