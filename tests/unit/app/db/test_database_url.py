"""What a database's URL becomes before anyone connects to it."""

from app.db.engine import PATIENCE, Database


def test_a_postgresql_that_vanishes_is_given_up_in_time() -> None:
    database = Database("postgresql+psycopg://someone@host/name?keepalives_idle=77")
    _, arguments = database.engine.dialect.create_connect_args(database.engine.url)
    assert {name: str(arguments[name]) for name in PATIENCE} == {**PATIENCE, "keepalives_idle": "77"}


def test_sqlite_is_left_as_it_is() -> None:
    assert dict(Database("sqlite:///somewhere.sqlite3").url.query) == {}
