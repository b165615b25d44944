"""The database: engine, unit of work, tables and migrations."""

from app.db.engine import Database, UtcDateTime

__all__ = ["Database", "UtcDateTime"]
