"""Record which blob store belongs to the database."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "store",
        sa.Column("number", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("id", sa.String(40), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_store"),
    )


def downgrade() -> None:
    op.drop_table("store")
