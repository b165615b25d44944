"""Alembic's entry point: runs inside the connection and transaction that `app.db.migrate` hands over."""

from alembic import context

from app.db.tables import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,
)
context.run_migrations()
