"""Request and response schemas of webhooks."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from app.db.job_state import EVENT_TYPES, FINAL
from app.names import Text
from app.web.fields import CreatedAt

EVERY = ("*", "job.*")
ENDS = [f"job.{status}" for status in sorted(FINAL)]
TEST_TYPE = "webhook.test"
ERROR_OF_JOB = {"anyOf": [{"$ref": "#/components/schemas/JobError"}, {"type": "null"}]}


def _check_event(name: str) -> str:
    if name not in EVENT_TYPES and name not in EVERY:
        raise ValueError(f"must be * or one of {', '.join(sorted(EVENT_TYPES))}")
    return name


EventName = Annotated[
    Text, AfterValidator(_check_event), Field(json_schema_extra={"enum": [*EVERY, *sorted(EVENT_TYPES)]})
]
Address = Annotated[Text, Field(min_length=1, max_length=2048, json_schema_extra={"pattern": r"^https?://[^\x00]*$"})]


class WebhookRequest(BaseModel):
    """Request to send the events of jobs to an address."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"url": "https://example.com/jobs", "events": ["job.succeeded"]}]},
    )

    url: Address = Field(
        description="Address that receives the messages by POST: http or https, on the public internet."
    )
    events: Annotated[list[EventName], Field(min_length=1, max_length=50)] = Field(
        default=ENDS, description="Event types to send, or `*` for all. Default: the events that end a job."
    )


class Webhook(BaseModel):
    """A webhook: an address that receives events of jobs."""

    id: str = Field(description="Id of the webhook (`wh_…`).")
    url: str = Field(description="Address that receives the events.")
    events: list[str] = Field(description="Event types that are sent; `*`: all.")
    job_id: str | None = Field(
        description="Id of the job whose events are sent; null: the events of all jobs are sent."
    )
    created_at: CreatedAt
    disabled_at: datetime | None = Field(
        description="Time when the webhook was disabled, because the receiver responded with 410 Gone; null: it "
        "is active."
    )


class NewWebhook(Webhook):
    """A new webhook with its secret."""

    secret: str = Field(description="Key that signs the messages. Only this response shows it.")


DeliveryStatus = Literal["waiting", "sending", "delivered", "given_up"]


class Delivery(BaseModel):
    """The delivery of one event to one webhook."""

    id: str = Field(description="Id of the delivery (`dlv_…`).")
    event_id: str = Field(description="`webhook-id` of the message, the same in every attempt.")
    type: str = Field(description="Event type, or `webhook.test`.")
    status: DeliveryStatus = Field(description="State of the delivery.")
    attempt: int = Field(description="Number of attempts so far.")
    due_at: datetime | None = Field(description="Time of the next attempt; null: there will be none.")
    last_error: str | None = Field(description="Why the last attempt failed; null: none has failed.")
    created_at: CreatedAt
    delivered_at: datetime | None = Field(
        description="Time when the receiver accepted the message; null: it has not accepted it."
    )


class JobInMessage(BaseModel):
    """The job of an event, as it was when the event was written."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())

    id: str = Field(description="Id of the job (`job_…`).")
    type: str = Field(description="Job type, such as `train`.")
    status: str = Field(description="State of the job.")
    done: bool = Field(description="Whether the job has succeeded, failed or been cancelled.")
    progress: float = Field(description="Progress from 0 to 1.")
    dataset_id: str = Field(description="Id of the dataset (`ds_…`).")
    model: str = Field(description="Name of the model.")
    model_id: str | None = Field(description="Id of the model version (`mdl_…`); null: there is none yet.")
    relative_gap: float | None = Field(description="Relative gap; null: not known.")
    attempt: int = Field(description="Number of times that a worker has started the job.")
    error: Annotated[dict[str, Any] | None, WithJsonSchema(ERROR_OF_JOB)] = Field(
        description="Why the job failed; null: it has not."
    )
    labels: dict[str, str] = Field(description="Labels of the job.")
    event_id: str = Field(description="Id of the event (`evt_…`), the same as the header `webhook-id`.")
    event: dict[str, Any] = Field(description="Details of the event; their fields depend on `type`.")


class JobMessage(BaseModel):
    """An event of a job, as it is sent to webhooks."""

    type: str = Field(description="Event type, such as `job.succeeded`.")
    timestamp: datetime = Field(description="Time of the event (RFC 3339, UTC).")
    data: JobInMessage = Field(description="The job.")


class TestedWebhook(BaseModel):
    """The webhook that a test message is for."""

    webhook_id: str = Field(description="Id of the webhook (`wh_…`).")


class TestMessage(BaseModel):
    """The message that `POST /v1/webhooks/{webhook_id}/test` sends."""

    type: Literal["webhook.test"] = Field(description="Always `webhook.test`.")
    timestamp: datetime = Field(description="Time of the request (RFC 3339, UTC).")
    data: TestedWebhook = Field(description="The webhook.")


MESSAGES: dict[str, type[BaseModel]] = {**dict.fromkeys(sorted(EVENT_TYPES), JobMessage), TEST_TYPE: TestMessage}
"""Body of the message to webhooks for each event type."""
