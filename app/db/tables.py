"""The tables. The migrations in `alembic/versions` create them; a test compares both."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, ForeignKey, Index, MetaData, String, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from app.db.engine import UtcDateTime

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

Json = JSON().with_variant(JSONB(), "postgresql")


class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map = {  # noqa: RUF012
        datetime: UtcDateTime(),
        dict[str, Any]: Json,
        list[Any]: Json,
        int: BigInteger(),
    }


class DatasetRow(Base):
    __tablename__ = "datasets"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    name: Mapped[str | None] = mapped_column(String(128), index=True)
    status: Mapped[str] = mapped_column(String(16))
    # Hash of bytes, read options and name. An invalid dataset has its own id here, so that the same bytes can be
    # uploaded again.
    fingerprint: Mapped[str] = mapped_column(String(64), unique=True)
    format: Mapped[str] = mapped_column(String(16))
    sha256: Mapped[str] = mapped_column(String(64))
    bytes: Mapped[int]
    options: Mapped[dict[str, Any] | None] = mapped_column(Json)  # read options; None if all are defaults
    # The fields from here to `warnings` are the results of parsing the file. They are empty until the dataset is ready.
    n_rows: Mapped[int]
    n_features: Mapped[int]
    nnz: Mapped[int]
    storage: Mapped[str] = mapped_column(String(8))
    task_hint: Mapped[str] = mapped_column(String(16))
    arrays: Mapped[dict[str, Any]]  # array name to SHA-256 of its .npy blob
    label_names: Mapped[list[Any] | None] = mapped_column(Json)  # text of each label, by its code in y
    classes: Mapped[list[Any]]
    columns: Mapped[list[Any]]
    warnings: Mapped[list[Any]]
    labels: Mapped[dict[str, Any]]
    attempt: Mapped[int] = mapped_column(
        default=0
    )  # number of attempts to parse the file in the background; also the fencing token
    # while processing: time from which another process can take the dataset over
    lease_expires_at: Mapped[datetime | None]
    error: Mapped[dict[str, Any] | None] = mapped_column(Json)  # why the dataset is invalid: code, message, errors
    expires_at: Mapped[datetime | None]  # time when an invalid dataset is deleted
    statistics: Mapped[str | None] = mapped_column(String(64))  # SHA-256 of the .npy blob, once computed
    issues: Mapped[list[Any] | None] = mapped_column(Json)  # issues found in the data, once requested
    created_at: Mapped[datetime]


class UploadRow(Base):
    """A resumable upload. Its first `received` bytes are durably stored."""

    __tablename__ = "uploads"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    format: Mapped[str] = mapped_column(String(16))
    options: Mapped[dict[str, Any]]
    name: Mapped[str | None] = mapped_column(String(128))
    labels: Mapped[dict[str, Any]]
    length: Mapped[int | None]
    received: Mapped[int] = mapped_column(default=0)
    dataset_id: Mapped[str | None] = mapped_column(String(40))  # the dataset made from the complete upload
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime] = mapped_column(index=True)


class JobRow(Base):
    __tablename__ = "jobs"
    # The order in which jobs are claimed. It is no partial index, because SQLite does not use one if the status is a
    # parameter.
    __table_args__ = (Index("ix_jobs_queue", "status", text("priority DESC"), "id"),)

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    type: Mapped[str] = mapped_column(String(16))
    status: Mapped[str] = mapped_column(String(16))
    dataset_id: Mapped[str] = mapped_column(String(40), index=True)  # kept after the dataset is deleted
    model_name: Mapped[str] = mapped_column(String(128))
    spec: Mapped[dict[str, Any]]
    labels: Mapped[dict[str, Any]]
    priority: Mapped[int]
    attempt: Mapped[int] = mapped_column(default=0)
    worker_deaths: Mapped[int] = mapped_column(default=0)
    fence: Mapped[int] = mapped_column(default=0)
    lease_owner: Mapped[str | None] = mapped_column(String(40))
    lease_expires_at: Mapped[datetime | None]
    request: Mapped[str | None] = mapped_column(
        String(8)
    )  # pending request of a client to the running job: cancel, finish, pause
    peak_bytes: Mapped[int] = mapped_column(default=0)  # estimated memory in bytes, for admission; 0 if unknown
    checkpoint: Mapped[str | None] = mapped_column(String(64))  # sha256 of the checkpoint blob
    snapshot: Mapped[str | None] = mapped_column(String(64))  # sha256 of the interim model file
    progress: Mapped[float] = mapped_column(default=0.0)
    eta_seconds: Mapped[float | None]
    iterations: Mapped[int] = mapped_column(default=0)
    passes: Mapped[int] = mapped_column(default=0)
    primal: Mapped[float | None]
    dual_bound: Mapped[float | None]
    relative_gap: Mapped[float | None]
    trace: Mapped[list[Any]] = mapped_column(default=list, deferred=True)
    model_id: Mapped[str | None] = mapped_column(String(40))
    result: Mapped[dict[str, Any] | None] = mapped_column(Json)
    error: Mapped[dict[str, Any] | None] = mapped_column(Json)
    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]


class EventRow(Base):
    __tablename__ = "events"
    __table_args__ = (Index(None, "job_id", "id"),)  # finds a page of a job's events without reading all of them

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"))
    type: Mapped[str] = mapped_column(String(32))
    data: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]


class ModelNameRow(Base):
    """The version counter of a model name. A version number is never reused."""

    __tablename__ = "model_names"

    name: Mapped[str] = mapped_column(String(128), primary_key=True)
    last_version: Mapped[int]


class ModelRow(Base):
    __tablename__ = "models"
    __table_args__ = (UniqueConstraint("name", "version"),)

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    name: Mapped[str] = mapped_column(ForeignKey("model_names.name"))
    version: Mapped[int]
    job_id: Mapped[str | None] = mapped_column(ForeignKey("jobs.id"), unique=True)  # None if the model was imported
    proof: Mapped[str | None] = mapped_column(String(64))  # SHA-256 of the blob with the dual point of the certificate
    blob: Mapped[str] = mapped_column(String(64))
    task: Mapped[str] = mapped_column(String(16))
    solver: Mapped[str] = mapped_column(String(32))
    converged: Mapped[bool]
    # The document that GET returns: certificate, metrics, training, lineage. Loaded only on access, because predict
    # does not need it.
    card: Mapped[dict[str, Any]] = mapped_column(deferred=True)
    created_at: Mapped[datetime]
    deleted_at: Mapped[datetime | None]
    purged_at: Mapped[datetime | None]  # time when the files were deleted; only the card is left


class AliasRow(Base):
    """An alias of a model: one version, or several by weight, and optionally a shadow version."""

    __tablename__ = "aliases"

    name: Mapped[str] = mapped_column(ForeignKey("model_names.name"), primary_key=True)
    alias: Mapped[str] = mapped_column(String(128), primary_key=True)
    revision: Mapped[int]
    targets: Mapped[list[Any]]  # objects with `version` and `weight`
    shadow: Mapped[int | None]  # number of the shadow version
    updated_at: Mapped[datetime]


class AliasChangeRow(Base):
    """A revision of an alias. The revision that deletes the alias has no targets."""

    __tablename__ = "alias_changes"

    name: Mapped[str] = mapped_column(String(128), primary_key=True)
    alias: Mapped[str] = mapped_column(String(128), primary_key=True)
    revision: Mapped[int] = mapped_column(primary_key=True)
    targets: Mapped[list[Any] | None] = mapped_column(Json)
    shadow: Mapped[int | None]
    created_at: Mapped[datetime]


class EvaluationRow(Base):
    """A stored evaluation of a model on a dataset."""

    __tablename__ = "evaluations"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    model_id: Mapped[str] = mapped_column(ForeignKey("models.id"), index=True)
    dataset_id: Mapped[str] = mapped_column(String(40))
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), unique=True)
    report: Mapped[dict[str, Any]]  # rows, metrics, curves
    created_at: Mapped[datetime]


class BlobOwnerRow(Base):
    """An owner of a blob: a row that needs the file. Written in the same transaction as that row."""

    __tablename__ = "blob_owners"

    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    owner_id: Mapped[str] = mapped_column(String(40), primary_key=True, index=True)
    bytes: Mapped[int]


class StoreRow(Base):
    """The id of the blob store of this database; at most one row (app/storage/identity.py)."""

    __tablename__ = "store"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)  # always 1
    id: Mapped[str] = mapped_column(String(40))  # content of the file store.id in the data folder


class KeyRow(Base):
    __tablename__ = "keys"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    name: Mapped[str | None] = mapped_column(String(128))
    secret_sha256: Mapped[str] = mapped_column(String(64))
    scopes: Mapped[list[Any]]
    created_at: Mapped[datetime]
    revoked_at: Mapped[datetime | None]


class SessionRow(Base):
    """The session of a browser that signed in with an API key. It ends when it expires, at sign-out, or when the key is
    revoked."""

    __tablename__ = "sessions"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    key_id: Mapped[str] = mapped_column(ForeignKey("keys.id"), index=True)
    secret_sha256: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime] = mapped_column(index=True)


class IdempotencyRow(Base):
    """An idempotency key and the response to its request. Written in the same transaction as the change."""

    __tablename__ = "idempotency_keys"

    # id of the API key; empty if the request had none
    caller: Mapped[str] = mapped_column(String(40), primary_key=True)
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    request_sha256: Mapped[str] = mapped_column(String(64))  # hash of method, path, query, some headers and body
    status: Mapped[int | None]  # HTTP status; None while the request is running
    answer: Mapped[dict[str, Any] | None] = mapped_column(Json)  # headers and body of the response
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime] = mapped_column(index=True)


class WebhookRow(Base):
    """An address that receives events."""

    __tablename__ = "webhooks"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    url: Mapped[str] = mapped_column(String(2048))
    events: Mapped[list[Any]]
    secret: Mapped[str] = mapped_column(String(128))  # stored in plain text, because it signs messages
    job_id: Mapped[str | None] = mapped_column(ForeignKey("jobs.id"), index=True)  # None: events of all jobs
    created_at: Mapped[datetime]
    disabled_at: Mapped[datetime | None]


class DeliveryRow(Base):
    """An event to send to a webhook: a row of the outbox. Written in the same transaction as the event."""

    __tablename__ = "deliveries"
    __table_args__ = (Index("ix_deliveries_due", "status", "due_at"),)

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    webhook_id: Mapped[str] = mapped_column(ForeignKey("webhooks.id", ondelete="CASCADE"), index=True)
    event_id: Mapped[str] = mapped_column(String(40))
    payload: Mapped[dict[str, Any]]
    status: Mapped[str] = mapped_column(String(16))  # waiting, delivered, given_up
    attempt: Mapped[int] = mapped_column(default=0)
    due_at: Mapped[datetime]  # time of the next attempt; while sending, time from which another process can send it
    last_error: Mapped[str | None] = mapped_column(String(512))
    created_at: Mapped[datetime]
    delivered_at: Mapped[datetime | None]
