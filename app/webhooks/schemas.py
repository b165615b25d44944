"""The shapes of webhooks over HTTP."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from app.db.job_state import EVENT_TYPES, FINAL
from app.names import Text

EVERY = ("*", "job.*")
ENDS = [f"job.{status}" for status in sorted(FINAL)]
TEST_TYPE = "webhook.test"


def _check_event(name: str) -> str:
    if name not in EVENT_TYPES and name not in EVERY:
        raise ValueError(f"must be * or one of {', '.join(sorted(EVENT_TYPES))}")
    return name


EventName = Annotated[Text, AfterValidator(_check_event)]


class WebhookRequest(BaseModel):
    """An address that wants to be told of events."""

    model_config = ConfigDict(extra="forbid")

    url: Annotated[Text, Field(min_length=1, max_length=2048, description="http or https, on the public internet")]
    events: Annotated[list[EventName], Field(min_length=1, max_length=50)] = Field(
        default=ENDS, description="types of events, or `*`; default: the end of a job"
    )


class Webhook(BaseModel):
    id: str
    url: str
    events: list[str]
    job_id: str | None = Field(description="the one job whose events it is told; null: of all jobs")
    created_at: datetime
    disabled_at: datetime | None = Field(description="since when it is not told any more: it answered 410")


class NewWebhook(Webhook):
    secret: str = Field(description="what its messages are signed with; it is not shown again")


class Delivery(BaseModel):
    """One event for one address."""

    id: str
    event_id: str = Field(description="the message's `webhook-id`, the same in every attempt")
    type: str
    status: Literal["waiting", "sending", "delivered", "given_up"]
    attempt: int
    due_at: datetime | None = Field(description="when it is tried next; null: never again")
    last_error: str | None
    created_at: datetime
    delivered_at: datetime | None
