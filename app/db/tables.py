"""The tables. Migrations in `migrations/versions` create them; a test compares the two."""

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
    cancel_requested: Mapped[bool] = mapped_column(default=False)
    progress: Mapped[float] = mapped_column(default=0.0)
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

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), index=True)
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
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), unique=True)
    blob: Mapped[str] = mapped_column(String(64))
    task: Mapped[str] = mapped_column(String(16))
    solver: Mapped[str] = mapped_column(String(32))
    converged: Mapped[bool]
    # The document that GET shows: certificate, metrics, training, lineage. Predict must not read it each time.
    card: Mapped[dict[str, Any]] = mapped_column(deferred=True)
    created_at: Mapped[datetime]
    deleted_at: Mapped[datetime | None]


class BlobOwnerRow(Base):
    """Which row keeps which file alive; written in the transaction of that row."""

    __tablename__ = "blob_owners"

    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    owner_id: Mapped[str] = mapped_column(String(40), primary_key=True, index=True)
    bytes: Mapped[int]


class KeyRow(Base):
    __tablename__ = "keys"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    name: Mapped[str | None] = mapped_column(String(128))
    secret_sha256: Mapped[str] = mapped_column(String(64))
    scopes: Mapped[list[Any]]
    created_at: Mapped[datetime]
    revoked_at: Mapped[datetime | None]
