"""Add checkpoints and requests to jobs; create aliases, evaluations, webhooks and idempotency keys."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

JSON = sa.JSON().with_variant(JSONB(), "postgresql")
TIME = sa.DateTime(timezone=True)
ID = sa.String(40)
NAME = sa.String(128)
SHA256 = sa.String(64)

NEW_TABLES = ("deliveries", "webhooks", "idempotency_keys", "evaluations", "alias_changes", "aliases")


def upgrade() -> None:
    # SQLite copies the table, and the copied index would lose its descending order
    op.drop_index("ix_jobs_queue", "jobs")
    with op.batch_alter_table("jobs") as jobs:
        jobs.add_column(sa.Column("request", sa.String(8)))
        jobs.add_column(sa.Column("peak_bytes", sa.BigInteger, nullable=False, server_default="0"))
        jobs.add_column(sa.Column("checkpoint", SHA256))
        jobs.add_column(sa.Column("snapshot", SHA256))
        jobs.add_column(sa.Column("eta_seconds", sa.Double))
    op.execute("UPDATE jobs SET request = 'cancel' WHERE cancel_requested")
    with op.batch_alter_table("jobs") as jobs:
        jobs.drop_column("cancel_requested")
        jobs.alter_column("peak_bytes", server_default=None)
    _create_queue_index()
    with op.batch_alter_table("models") as models:
        models.alter_column("job_id", existing_type=ID, nullable=True)
        models.add_column(sa.Column("proof", SHA256))
        models.add_column(sa.Column("purged_at", TIME))
    op.create_index("ix_events_job_id_id", "events", ["job_id", "id"])
    op.drop_index("ix_events_job_id", "events")
    _create_aliases()
    _create_evaluations()
    _create_idempotency_keys()
    _create_webhooks()


def _create_queue_index() -> None:
    op.create_index("ix_jobs_queue", "jobs", ["status", sa.text("priority DESC"), "id"])


def _create_aliases() -> None:
    op.create_table(
        "aliases",
        sa.Column("name", NAME, nullable=False),
        sa.Column("alias", NAME, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("targets", JSON, nullable=False),
        sa.Column("shadow", sa.BigInteger),
        sa.Column("updated_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("name", "alias", name="pk_aliases"),
        sa.ForeignKeyConstraint(["name"], ["model_names.name"], name="fk_aliases_name_model_names"),
    )
    op.create_table(
        "alias_changes",
        sa.Column("name", NAME, nullable=False),
        sa.Column("alias", NAME, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("targets", JSON),
        sa.Column("shadow", sa.BigInteger),
        sa.Column("created_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("name", "alias", "revision", name="pk_alias_changes"),
    )


def _create_evaluations() -> None:
    op.create_table(
        "evaluations",
        sa.Column("id", ID, nullable=False),
        sa.Column("model_id", ID, nullable=False),
        sa.Column("dataset_id", ID, nullable=False),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("report", JSON, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_evaluations"),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name="fk_evaluations_model_id_models"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_evaluations_job_id_jobs"),
        sa.UniqueConstraint("job_id", name="uq_evaluations_job_id"),
    )
    op.create_index("ix_evaluations_model_id", "evaluations", ["model_id"])


def _create_idempotency_keys() -> None:
    op.create_table(
        "idempotency_keys",
        sa.Column("caller", ID, nullable=False),
        sa.Column("key", sa.String(255), nullable=False),
        sa.Column("request_sha256", SHA256, nullable=False),
        sa.Column("status", sa.BigInteger),
        sa.Column("answer", JSON),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("expires_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("caller", "key", name="pk_idempotency_keys"),
    )
    op.create_index("ix_idempotency_keys_expires_at", "idempotency_keys", ["expires_at"])


def _create_webhooks() -> None:
    op.create_table(
        "webhooks",
        sa.Column("id", ID, nullable=False),
        sa.Column("url", sa.String(2048), nullable=False),
        sa.Column("events", JSON, nullable=False),
        sa.Column("secret", sa.String(128), nullable=False),
        sa.Column("job_id", ID),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("disabled_at", TIME),
        sa.PrimaryKeyConstraint("id", name="pk_webhooks"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_webhooks_job_id_jobs"),
    )
    op.create_index("ix_webhooks_job_id", "webhooks", ["job_id"])
    op.create_table(
        "deliveries",
        sa.Column("id", ID, nullable=False),
        sa.Column("webhook_id", ID, nullable=False),
        sa.Column("event_id", ID, nullable=False),
        sa.Column("payload", JSON, nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("attempt", sa.BigInteger, nullable=False),
        sa.Column("due_at", TIME, nullable=False),
        sa.Column("last_error", sa.String(512)),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("delivered_at", TIME),
        sa.PrimaryKeyConstraint("id", name="pk_deliveries"),
        sa.ForeignKeyConstraint(
            ["webhook_id"], ["webhooks.id"], name="fk_deliveries_webhook_id_webhooks", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_deliveries_webhook_id", "deliveries", ["webhook_id"])
    op.create_index("ix_deliveries_due", "deliveries", ["status", "due_at"])


def downgrade() -> None:
    op.create_index("ix_events_job_id", "events", ["job_id"])
    op.drop_index("ix_events_job_id_id", "events")
    for table in NEW_TABLES:
        op.drop_table(table)
    op.execute("DELETE FROM models WHERE job_id IS NULL")
    op.execute("UPDATE jobs SET status = 'queued' WHERE status = 'paused'")
    with op.batch_alter_table("models") as models:
        models.drop_column("purged_at")
        models.drop_column("proof")
        models.alter_column("job_id", existing_type=ID, nullable=False)
    op.drop_index("ix_jobs_queue", "jobs")
    with op.batch_alter_table("jobs") as jobs:
        jobs.add_column(sa.Column("cancel_requested", sa.Boolean, nullable=False, server_default=sa.false()))
    op.execute("UPDATE jobs SET cancel_requested = true WHERE request = 'cancel'")
    with op.batch_alter_table("jobs") as jobs:
        jobs.alter_column("cancel_requested", server_default=None)
        for column in ("eta_seconds", "snapshot", "checkpoint", "peak_bytes", "request"):
            jobs.drop_column(column)
    _create_queue_index()
