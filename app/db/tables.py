"""The tables. Migrations in `alembic/versions` create them; a test compares the two."""

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
    # Bytes and reading options together. An invalid file's is its row's id: the same bytes may be tried again.
    fingerprint: Mapped[str] = mapped_column(String(64), unique=True)
    format: Mapped[str] = mapped_column(String(16))
    sha256: Mapped[str] = mapped_column(String(64))
    bytes: Mapped[int]
    options: Mapped[dict[str, Any] | None] = mapped_column(Json)  # of the reader; None: all defaults
    # From here to `warnings`: what the reader found; empty until the dataset is ready.
    n_rows: Mapped[int]
    n_features: Mapped[int]
    nnz: Mapped[int]
    storage: Mapped[str] = mapped_column(String(8))
    task_hint: Mapped[str] = mapped_column(String(16))
    arrays: Mapped[dict[str, Any]]  # array name > sha256 of its .npy blob
    label_names: Mapped[list[Any] | None] = mapped_column(Json)  # what y's codes mean, for text labels
    classes: Mapped[list[Any]]
    columns: Mapped[list[Any]]
    warnings: Mapped[list[Any]]
    labels: Mapped[dict[str, Any]]
    attempt: Mapped[int] = mapped_column(default=0)  # how often reading it in the background began; also the fence
    lease_expires_at: Mapped[datetime | None]  # while processing: when another process may take it over
    error: Mapped[dict[str, Any] | None] = mapped_column(Json)  # why it is invalid: code, message, errors
    expires_at: Mapped[datetime | None]  # when an invalid dataset is forgotten
    statistics: Mapped[str | None] = mapped_column(String(64))  # sha256 of the .npy blob, once computed
    issues: Mapped[list[Any] | None] = mapped_column(Json)  # what the data doctor found, once asked
    created_at: Mapped[datetime]


class UploadRow(Base):
    """A file that arrives in parts. `received` bytes of it are durable on disk."""

    __tablename__ = "uploads"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    format: Mapped[str] = mapped_column(String(16))
    options: Mapped[dict[str, Any]]
    name: Mapped[str | None] = mapped_column(String(128))
    labels: Mapped[dict[str, Any]]
    length: Mapped[int | None]
    received: Mapped[int] = mapped_column(default=0)
    dataset_id: Mapped[str | None] = mapped_column(String(40))  # what it became
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime] = mapped_column(index=True)


class JobRow(Base):
    __tablename__ = "jobs"
    # The order of a claim. Not a partial index: SQLite does not use one for a status that is a parameter.
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
    request: Mapped[str | None] = mapped_column(String(8))  # a client wants the running job to: cancel, finish, pause
    peak_bytes: Mapped[int] = mapped_column(default=0)  # what it is thought to need, for admission; 0: not known
    checkpoint: Mapped[str | None] = mapped_column(String(64))  # sha256 of the blob from which the work can go on
    snapshot: Mapped[str | None] = mapped_column(String(64))  # sha256 of the model file as it stands
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
    __table_args__ = (Index(None, "job_id", "id"),)  # a page of a long job's events is found without reading all

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"))
    type: Mapped[str] = mapped_column(String(32))
    data: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]


class ModelNameRow(Base):
    """The counter of a name's versions; a version number is never used twice."""

    __tablename__ = "model_names"

    name: Mapped[str] = mapped_column(String(128), primary_key=True)
    last_version: Mapped[int]


class ModelRow(Base):
    __tablename__ = "models"
    __table_args__ = (UniqueConstraint("name", "version"),)

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    name: Mapped[str] = mapped_column(ForeignKey("model_names.name"))
    version: Mapped[int]
    job_id: Mapped[str | None] = mapped_column(ForeignKey("jobs.id"), unique=True)  # None: it was imported
    proof: Mapped[str | None] = mapped_column(String(64))  # sha256 of the dual point that its certificate rests on
    blob: Mapped[str] = mapped_column(String(64))
    task: Mapped[str] = mapped_column(String(16))
    solver: Mapped[str] = mapped_column(String(32))
    converged: Mapped[bool]
    # The document that GET shows: certificate, metrics, training, lineage. Predict must not read it each time.
    card: Mapped[dict[str, Any]] = mapped_column(deferred=True)
    created_at: Mapped[datetime]
    deleted_at: Mapped[datetime | None]
    purged_at: Mapped[datetime | None]  # its bytes are given up; only what the card says is left


class AliasRow(Base):
    """A name for versions of a model that can be moved: to one, to several by weight, with one that only listens."""

    __tablename__ = "aliases"

    name: Mapped[str] = mapped_column(ForeignKey("model_names.name"), primary_key=True)
    alias: Mapped[str] = mapped_column(String(128), primary_key=True)
    revision: Mapped[int]
    targets: Mapped[list[Any]]  # {version, weight}
    shadow: Mapped[int | None]  # a version
    updated_at: Mapped[datetime]


class AliasChangeRow(Base):
    """What an alias was set to at each revision; one that deletes it has no targets."""

    __tablename__ = "alias_changes"

    name: Mapped[str] = mapped_column(String(128), primary_key=True)
    alias: Mapped[str] = mapped_column(String(128), primary_key=True)
    revision: Mapped[int] = mapped_column(primary_key=True)
    targets: Mapped[list[Any] | None] = mapped_column(Json)
    shadow: Mapped[int | None]
    created_at: Mapped[datetime]


class EvaluationRow(Base):
    """How a model did on a dataset."""

    __tablename__ = "evaluations"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    model_id: Mapped[str] = mapped_column(ForeignKey("models.id"), index=True)
    dataset_id: Mapped[str] = mapped_column(String(40))
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), unique=True)
    report: Mapped[dict[str, Any]]  # rows, metrics, curves
    created_at: Mapped[datetime]


class BlobOwnerRow(Base):
    """Which row keeps which file alive; written in the transaction of that row."""

    __tablename__ = "blob_owners"

    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    owner_id: Mapped[str] = mapped_column(String(40), primary_key=True, index=True)
    bytes: Mapped[int]


class StoreRow(Base):
    """Which store of blobs belongs to this database; one row at most (app/storage/identity.py)."""

    __tablename__ = "store"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)  # always 1
    id: Mapped[str] = mapped_column(String(40))  # what store.id says in the store


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
    """A request that must not happen twice, and its answer; written in the transaction of what it does."""

    __tablename__ = "idempotency_keys"

    caller: Mapped[str] = mapped_column(String(40), primary_key=True)  # id of the API key; empty: none is needed
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    request_sha256: Mapped[str] = mapped_column(String(64))  # of method, path, query and body
    status: Mapped[int | None]  # None: still running
    answer: Mapped[dict[str, Any] | None] = mapped_column(Json)  # headers and document
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime] = mapped_column(index=True)


class WebhookRow(Base):
    """An address that is told of events."""

    __tablename__ = "webhooks"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    url: Mapped[str] = mapped_column(String(2048))
    events: Mapped[list[Any]]
    secret: Mapped[str] = mapped_column(String(128))  # it signs, so it has to be known
    job_id: Mapped[str | None] = mapped_column(ForeignKey("jobs.id"), index=True)  # of one job only
    created_at: Mapped[datetime]
    disabled_at: Mapped[datetime | None]


class DeliveryRow(Base):
    """The outbox: an event that an address has to be told of, written in the transaction of the event."""

    __tablename__ = "deliveries"
    __table_args__ = (Index("ix_deliveries_due", "status", "due_at"),)

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    webhook_id: Mapped[str] = mapped_column(ForeignKey("webhooks.id", ondelete="CASCADE"), index=True)
    event_id: Mapped[str] = mapped_column(String(40))
    payload: Mapped[dict[str, Any]]
    status: Mapped[str] = mapped_column(String(16))  # waiting, delivered, given_up
    attempt: Mapped[int] = mapped_column(default=0)
    due_at: Mapped[datetime]  # while one tries: when another may
    last_error: Mapped[str | None] = mapped_column(String(512))
    created_at: Mapped[datetime]
    delivered_at: Mapped[datetime | None]
