"""Create the first tables: datasets, jobs, models, keys and blobs."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

JSON = sa.JSON().with_variant(JSONB(), "postgresql")
TIME = sa.DateTime(timezone=True)
ID = sa.String(40)
NAME = sa.String(128)
SHA256 = sa.String(64)


def upgrade() -> None:
    op.create_table(
        "datasets",
        sa.Column("id", ID, nullable=False),
        sa.Column("name", NAME),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("fingerprint", SHA256, nullable=False),
        sa.Column("format", sa.String(16), nullable=False),
        sa.Column("sha256", SHA256, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("n_rows", sa.BigInteger, nullable=False),
        sa.Column("n_features", sa.BigInteger, nullable=False),
        sa.Column("nnz", sa.BigInteger, nullable=False),
        sa.Column("storage", sa.String(8), nullable=False),
        sa.Column("task_hint", sa.String(16), nullable=False),
        sa.Column("arrays", JSON, nullable=False),
        sa.Column("label_names", JSON),
        sa.Column("classes", JSON, nullable=False),
        sa.Column("columns", JSON, nullable=False),
        sa.Column("warnings", JSON, nullable=False),
        sa.Column("labels", JSON, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_datasets"),
        sa.UniqueConstraint("fingerprint", name="uq_datasets_fingerprint"),
    )
    op.create_index("ix_datasets_name", "datasets", ["name"])

    op.create_table(
        "jobs",
        sa.Column("id", ID, nullable=False),
        sa.Column("type", sa.String(16), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("dataset_id", ID, nullable=False),
        sa.Column("model_name", NAME, nullable=False),
        sa.Column("spec", JSON, nullable=False),
        sa.Column("labels", JSON, nullable=False),
        sa.Column("priority", sa.BigInteger, nullable=False),
        sa.Column("attempt", sa.BigInteger, nullable=False),
        sa.Column("worker_deaths", sa.BigInteger, nullable=False),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("lease_owner", ID),
        sa.Column("lease_expires_at", TIME),
        sa.Column("cancel_requested", sa.Boolean, nullable=False),
        sa.Column("progress", sa.Double, nullable=False),
        sa.Column("iterations", sa.BigInteger, nullable=False),
        sa.Column("passes", sa.BigInteger, nullable=False),
        sa.Column("primal", sa.Double),
        sa.Column("dual_bound", sa.Double),
        sa.Column("relative_gap", sa.Double),
        sa.Column("trace", JSON, nullable=False),
        sa.Column("model_id", ID),
        sa.Column("result", JSON),
        sa.Column("error", JSON),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("started_at", TIME),
        sa.Column("finished_at", TIME),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
    )
    op.create_index("ix_jobs_dataset_id", "jobs", ["dataset_id"])
    op.create_index("ix_jobs_queue", "jobs", ["status", sa.text("priority DESC"), "id"])

    op.create_table(
        "events",
        sa.Column("id", ID, nullable=False),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("type", sa.String(32), nullable=False),
        sa.Column("data", JSON, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_events"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_events_job_id_jobs"),
    )
    op.create_index("ix_events_job_id", "events", ["job_id"])

    op.create_table(
        "model_names",
        sa.Column("name", NAME, nullable=False),
        sa.Column("last_version", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_model_names"),
    )
    op.create_table(
        "models",
        sa.Column("id", ID, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("job_id", ID, nullable=False),
        sa.Column("blob", SHA256, nullable=False),
        sa.Column("task", sa.String(16), nullable=False),
        sa.Column("solver", sa.String(32), nullable=False),
        sa.Column("converged", sa.Boolean, nullable=False),
        sa.Column("card", JSON, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("deleted_at", TIME),
        sa.PrimaryKeyConstraint("id", name="pk_models"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_models_job_id_jobs"),
        sa.ForeignKeyConstraint(["name"], ["model_names.name"], name="fk_models_name_model_names"),
        sa.UniqueConstraint("job_id", name="uq_models_job_id"),
        sa.UniqueConstraint("name", "version", name="uq_models_name_version"),
    )

    op.create_table(
        "blob_owners",
        sa.Column("sha256", SHA256, nullable=False),
        sa.Column("owner_id", ID, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("sha256", "owner_id", name="pk_blob_owners"),
    )
    op.create_index("ix_blob_owners_owner_id", "blob_owners", ["owner_id"])

    op.create_table(
        "keys",
        sa.Column("id", ID, nullable=False),
        sa.Column("name", NAME),
        sa.Column("secret_sha256", SHA256, nullable=False),
        sa.Column("scopes", JSON, nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("revoked_at", TIME),
        sa.PrimaryKeyConstraint("id", name="pk_keys"),
    )


def downgrade() -> None:
    for table in ("keys", "blob_owners", "models", "model_names", "events", "jobs", "datasets"):
        op.drop_table(table)
