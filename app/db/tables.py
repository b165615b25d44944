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
    # Hash of bytes and read options. For an invalid file it is the row's id, so that the bytes can be uploaded again.
    fingerprint: Mapped[str] = mapped_column(String(64), unique=True)
    format: Mapped[str] = mapped_column(String(16))
    sha256: Mapped[str] = mapped_column(String(64))
    bytes: Mapped[int]
    options: Mapped[dict[str, Any] | None] = mapped_column(Json)  # read options; None: all defaults
    # From here to `warnings`: the results of reading the file; empty until the dataset is ready.
    n_rows: Mapped[int]
    n_features: Mapped[int]
    nnz: Mapped[int]
    storage: Mapped[str] = mapped_column(String(8))
    task_hint: Mapped[str] = mapped_column(String(16))
    arrays: Mapped[dict[str, Any]]  # array name > sha256 of its .npy blob
    label_names: Mapped[list[Any] | None] = mapped_column(Json)  # text labels by their code in y
    classes: Mapped[list[Any]]
    columns: Mapped[list[Any]]
    warnings: Mapped[list[Any]]
    labels: Mapped[dict[str, Any]]
    attempt: Mapped[int] = mapped_column(
        default=0
    )  # number of attempts to read it in the background; also the fencing number
    lease_expires_at: Mapped[datetime | None]  # while processing: time when another process can take it over
    error: Mapped[dict[str, Any] | None] = mapped_column(Json)  # why it is invalid: code, message, errors
    expires_at: Mapped[datetime | None]  # time when an invalid dataset is deleted
    statistics: Mapped[str | None] = mapped_column(String(64))  # sha256 of the .npy blob, once computed
    issues: Mapped[list[Any] | None] = mapped_column(Json)  # result of the data checks, once requested
    created_at: Mapped[datetime]


class UploadRow(Base):
    """A resumable upload. `received` bytes are durable on disk."""

    __tablename__ = "uploads"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    format: Mapped[str] = mapped_column(String(16))
    options: Mapped[dict[str, Any]]
    name: Mapped[str | None] = mapped_column(String(128))
    labels: Mapped[dict[str, Any]]
    length: Mapped[int | None]
    received: Mapped[int] = mapped_column(default=0)
    dataset_id: Mapped[str | None] = mapped_column(String(40))  # the dataset that it became
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime] = mapped_column(index=True)


class JobRow(Base):
    __tablename__ = "jobs"
    # The order of claims. Not a partial index: SQLite does not use one when the status is a parameter.
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
    peak_bytes: Mapped[int] = mapped_column(default=0)  # estimated memory in bytes, for admission; 0: not known
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
    job_id: Mapped[str | None] = mapped_column(ForeignKey("jobs.id"), unique=True)  # None: imported
    proof: Mapped[str | None] = mapped_column(String(64))  # sha256 of the dual point of its certificate
    blob: Mapped[str] = mapped_column(String(64))
    task: Mapped[str] = mapped_column(String(16))
    solver: Mapped[str] = mapped_column(String(32))
    converged: Mapped[bool]
    # The document that GET returns: certificate, metrics, training, lineage. Deferred: predict does not need it.
    card: Mapped[dict[str, Any]] = mapped_column(deferred=True)
    created_at: Mapped[datetime]
    deleted_at: Mapped[datetime | None]
    purged_at: Mapped[datetime | None]  # its files are deleted; only the card is left


class AliasRow(Base):
    """An alias of a model: one version, or several by weight, and optionally a shadow version."""

    __tablename__ = "aliases"

    name: Mapped[str] = mapped_column(ForeignKey("model_names.name"), primary_key=True)
    alias: Mapped[str] = mapped_column(String(128), primary_key=True)
    revision: Mapped[int]
    targets: Mapped[list[Any]]  # {version, weight}
    shadow: Mapped[int | None]  # a version
    updated_at: Mapped[datetime]


class AliasChangeRow(Base):
    """The revisions of an alias. The revision that deletes it has no targets."""

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
    """Owners of blobs: which row needs which file. Written in the transaction of that row."""

    __tablename__ = "blob_owners"

    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    owner_id: Mapped[str] = mapped_column(String(40), primary_key=True, index=True)
    bytes: Mapped[int]


class StoreRow(Base):
    """The id of the blob store of this database; at most one row (app/storage/identity.py)."""

    __tablename__ = "store"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)  # always 1
    id: Mapped[str] = mapped_column(String(40))  # content of the file store.id


class KeyRow(Base):
    __tablename__ = "keys"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    name: Mapped[str | None] = mapped_column(String(128))
    secret_sha256: Mapped[str] = mapped_column(String(64))
    scopes: Mapped[list[Any]]
    created_at: Mapped[datetime]
    revoked_at: Mapped[datetime | None]


class SessionRow(Base):
    """A browser that is signed in with a key. It ends at its time, by a sign-out, or with the key."""

    __tablename__ = "sessions"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    key_id: Mapped[str] = mapped_column(ForeignKey("keys.id"), index=True)
    secret_sha256: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime] = mapped_column(index=True)


class IdempotencyRow(Base):
    """An idempotency key and the response to its request. Written in the transaction of the change."""

    __tablename__ = "idempotency_keys"

    caller: Mapped[str] = mapped_column(String(40), primary_key=True)  # id of the API key; empty: no key needed
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    request_sha256: Mapped[str] = mapped_column(String(64))  # hash of method, path, query, some headers and body
    status: Mapped[int | None]  # None: still running
    answer: Mapped[dict[str, Any] | None] = mapped_column(Json)  # headers and document
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
    """The outbox: an event to send to an address. Written in the transaction of the event."""

    __tablename__ = "deliveries"
    __table_args__ = (Index("ix_deliveries_due", "status", "due_at"),)

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    webhook_id: Mapped[str] = mapped_column(ForeignKey("webhooks.id", ondelete="CASCADE"), index=True)
    event_id: Mapped[str] = mapped_column(String(40))
    payload: Mapped[dict[str, Any]]
    status: Mapped[str] = mapped_column(String(16))  # waiting, delivered, given_up
    attempt: Mapped[int] = mapped_column(default=0)
    due_at: Mapped[datetime]  # while sending: time when another process can send it
    last_error: Mapped[str | None] = mapped_column(String(512))
    created_at: Mapped[datetime]
    delivered_at: Mapped[datetime | None]
