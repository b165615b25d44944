"""Request and response schemas of webhooks."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from app.db.job_state import EVENT_TYPES, FINAL
from app.names import Text
from app.web.fields import CreatedAt

EVERY = ("*", "job.*")
ENDS = [f"job.{status}" for status in sorted(FINAL)]
TEST_TYPE = "webhook.test"


def _check_event(name: str) -> str:
    if name not in EVENT_TYPES and name not in EVERY:
        raise ValueError(f"must be * or one of {', '.join(sorted(EVENT_TYPES))}")
    return name


EventName = Annotated[
    Text, AfterValidator(_check_event), Field(json_schema_extra={"enum": [*EVERY, *sorted(EVENT_TYPES)]})
]
Address = Annotated[Text, Field(min_length=1, max_length=2048, json_schema_extra={"pattern": r"^https?://[^\x00]*$"})]


class WebhookRequest(BaseModel):
    """An address that receives events of jobs."""

    model_config = ConfigDict(extra="forbid")

    url: Address = Field(description="Address to POST to: http or https, on the public internet.")
    events: Annotated[list[EventName], Field(min_length=1, max_length=50)] = Field(
        default=ENDS, description="Event types to send, or `*` for all; default: the end of a job."
    )


class Webhook(BaseModel):
    """A registered address."""

    id: str = Field(description="Id of the webhook (`wh_…`).")
    url: str = Field(description="Address that receives the events.")
    events: list[str] = Field(description="Event types that are sent; `*`: all.")
    job_id: str | None = Field(description="Job whose events are sent; null: those of all jobs.")
    created_at: CreatedAt
    disabled_at: datetime | None = Field(
        description="Time since when nothing is sent, because the receiver answered 410 Gone; null: it is active."
    )


class NewWebhook(Webhook):
    """A webhook just created, with its secret."""

    secret: str = Field(description="Key that signs the messages. Only this response shows it.")


DeliveryStatus = Literal["waiting", "sending", "delivered", "given_up"]


class Delivery(BaseModel):
    """One event for one address."""

    id: str = Field(description="Id of the delivery (`dlv_…`).")
    event_id: str = Field(description="`webhook-id` of the message, the same in every attempt.")
    type: str = Field(description="Event type, or `webhook.test`.")
    status: DeliveryStatus = Field(description="State of the delivery.")
    attempt: int = Field(description="Number of attempts so far.")
    due_at: datetime | None = Field(description="Time of the next attempt; null: there will be none.")
    last_error: str | None = Field(description="Why the last attempt failed; null: none has failed.")
    created_at: CreatedAt
    delivered_at: datetime | None = Field(description="Time when the receiver accepted it; null: it has not.")
