"""The database: engine and unit of work, tables, migrations."""

from app.db.engine import Database, UtcDateTime

__all__ = ["Database", "UtcDateTime"]
