"""Add columns for datasets that are parsed in the background, their statistics and issues, and resumable uploads."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

JSON = sa.JSON().with_variant(JSONB(), "postgresql")
TIME = sa.DateTime(timezone=True)
ID = sa.String(40)
NAME = sa.String(128)
SHA256 = sa.String(64)

NEW_COLUMNS = ("options", "attempt", "lease_expires_at", "error", "expires_at", "statistics", "issues")


def upgrade() -> None:
    with op.batch_alter_table("datasets") as datasets:
        datasets.add_column(sa.Column("options", JSON))
        datasets.add_column(sa.Column("attempt", sa.BigInteger, nullable=False, server_default="0"))
        datasets.add_column(sa.Column("lease_expires_at", TIME))
        datasets.add_column(sa.Column("error", JSON))
        datasets.add_column(sa.Column("expires_at", TIME))
        datasets.add_column(sa.Column("statistics", SHA256))
        datasets.add_column(sa.Column("issues", JSON))
    with op.batch_alter_table("datasets") as datasets:  # the default was only for existing rows
        datasets.alter_column("attempt", server_default=None)

    op.create_table(
        "uploads",
        sa.Column("id", ID, nullable=False),
        sa.Column("format", sa.String(16), nullable=False),
        sa.Column("options", JSON, nullable=False),
        sa.Column("name", NAME),
        sa.Column("labels", JSON, nullable=False),
        sa.Column("length", sa.BigInteger),
        sa.Column("received", sa.BigInteger, nullable=False),
        sa.Column("dataset_id", ID),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_uploads"),
    )
    op.create_index("ix_uploads_updated_at", "uploads", ["updated_at"])


def downgrade() -> None:
    op.drop_table("uploads")
    op.execute("DELETE FROM datasets WHERE status <> 'ready'")
    with op.batch_alter_table("datasets") as datasets:
        for column in NEW_COLUMNS:
            datasets.drop_column(column)
