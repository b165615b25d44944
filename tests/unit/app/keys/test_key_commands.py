"""`hyperplane keys`, and the rule that only loopback is served without a key."""

import errno
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from app.cli import main
from app.config import Settings
from app.db import Database, migrate
from app.keys import service
from app.runtime import launcher
from tests.support.builders import migrated_database, temporary_settings


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("HYPERPLANE_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("HYPERPLANE_DATABASE_URL", raising=False)
    return temporary_settings(tmp_path)


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    with migrated_database(settings.resolved_database_url) as database:
        yield database


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["keys", *arguments])


def scopes_of(database: Database, token: str) -> frozenset[str] | None:
    with database.read() as session:
        return service.authenticate(session, token.strip())


@pytest.mark.parametrize(
    ("arguments", "scopes"),
    [
        (("--admin",), {"admin"}),
        (("--scope", "read"), {"read"}),
        (("--scope", "predict", "--scope", "write"), {"predict", "write"}),
        (("--admin", "--scope", "read"), {"admin"}),
    ],
)
def test_a_new_key_grants_what_was_asked_for(database: Database, arguments: tuple[str, ...], scopes: set[str]) -> None:
    made = run("create", "--name", "ci", *arguments)
    assert made.exit_code == 0, made.output
    assert scopes_of(database, made.stdout) == scopes


@pytest.mark.parametrize("arguments", [(), ("--scope", "everything"), ("--scope", "read", "--scope", "x")])
def test_a_key_without_a_known_scope_is_not_made(database: Database, arguments: tuple[str, ...]) -> None:
    refused = run("create", *arguments)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "--scope" in refused.stderr
    with database.read() as session:
        assert service.list_all(session) == []


def test_keys_are_listed_and_revoked(database: Database) -> None:
    first = run("create", "--scope", "read", "--scope", "predict", "--name", "the dashboard").stdout.strip()
    second = run("create", "--admin").stdout.strip()
    ids = [token.partition(".")[0] for token in (first, second)]
    assert run("revoke", ids[1]).exit_code == 0
    listed = run("list").stdout.splitlines()
    assert [line.split()[0] for line in listed] == ids
    assert listed[0].split()[1:] == ["active", "read,predict", "the", "dashboard"]
    assert listed[1].split()[1] == "revoked"
    assert listed[1].split()[3:] == ["admin"]
    assert first.partition(".")[2] not in "".join(listed)
    assert (scopes_of(database, first), scopes_of(database, second)) == ({"read", "predict"}, None)
    again = run("revoke", ids[1])
    assert (again.exit_code, "no active key with this id" in again.stderr) == (1, True)


class Child:
    def __init__(self, launch: "Launch") -> None:
        self._launch = launch

    def start(self) -> None:
        self._launch.note("start")


class Launch:
    """`launch` with everything around it made up: what it does, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **made_up: Any) -> None:
        self.done: list[Any] = []
        self.first, self.second = Child(self), Child(self)
        self.has_key: bool = made_up.get("has_key", True)
        self.asked = False
        self.asked_after: str | None = made_up.get("asked_after")
        self.is_ready: bool = made_up.get("is_ready", True)
        for name in ("bound_sockets", "_children", "_in_child", "_wait_until_ready", "_print_welcome", "_watch"):
            monkeypatch.setattr(launcher, name, getattr(self, name.removeprefix("_")))
        monkeypatch.setattr(launcher, "_stop", lambda children, seconds: self.note(("stop", children, seconds)))
        monkeypatch.setattr(launcher, "StopSignals", lambda: self)

    def note(self, step: Any) -> None:
        self.done.append(step)
        if step == self.asked_after:
            self.asked = True

    def bound_sockets(self, _settings: Settings) -> list[Any]:
        return [self, self]

    def close(self) -> None:
        self.note("close")

    def children(self, _settings: Settings, sockets: list[Any], _sign: Any) -> list[Any]:
        assert sockets == [self, self]
        return [self.first, self.second]

    def in_child(self, work: Any, _settings: Settings, stop: Any, *, meanwhile: Any) -> bool:
        assert (work, stop, meanwhile) == (launcher._prepare_database, self, launcher._load)
        self.note("prepare")
        return self.has_key

    def wait_until_ready(self, _settings: Settings, child: Any, stop: Any) -> bool:
        assert (child, stop) == (self.first, self)
        self.note("wait")
        return self.is_ready

    def print_welcome(self, _settings: Settings, has_key: bool) -> None:
        self.note(f"welcome {has_key}")

    def watch(self, children: list[Any], stop: Any, sign: Any) -> None:
        assert (children, stop) == ([self.first, self.second], self)
        self.note(f"watch {sign is not None}")

    @property
    def ending(self) -> list[Any]:
        return ["close", "close", ("stop", [self.first, self.second], 10.0)]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", ""])
def test_without_a_key_nothing_but_loopback_is_served(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], host: str
) -> None:
    made = Launch(monkeypatch, has_key=False)
    assert launcher.launch(settings.model_copy(update={"host": host})) == 2
    assert made.done == ["prepare", *made.ending], "no child was started"
    assert "hyperplane keys create --admin" in capsys.readouterr().err


@pytest.mark.parametrize(("host", "has_key"), [("127.0.0.1", False), ("::1", True), ("0.0.0.0", True)])
@pytest.mark.parametrize("workers", [0, 2])
def test_loopback_or_a_key_is_enough(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, host: str, has_key: bool, workers: int
) -> None:
    made = Launch(monkeypatch, has_key=has_key)
    assert launcher.launch(settings.model_copy(update={"host": host, "workers": workers})) == 0
    served = ["prepare", "start", "start", "wait", f"welcome {has_key}", f"watch {workers > 0}"]
    assert made.done == [*served, *made.ending]


@pytest.mark.parametrize(
    ("asked_after", "done"),
    [("prepare", ["prepare"]), ("start", ["prepare", "start"])],
)
def test_a_stop_while_it_starts_ends_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, asked_after: str, done: list[str]
) -> None:
    made = Launch(monkeypatch, asked_after=asked_after)
    assert launcher.launch(settings) == 0
    assert made.done == [*done, *made.ending]


@pytest.mark.parametrize(("asked_after", "code"), [(None, 1), ("wait", 0)])
def test_a_service_that_does_not_get_ready_is_a_failure_unless_it_was_stopped(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, asked_after: str | None, code: int
) -> None:
    made = Launch(monkeypatch, is_ready=False, asked_after=asked_after)
    assert launcher.launch(settings) == code
    assert made.done == ["prepare", "start", "start", "wait", *made.ending]


def test_an_address_that_is_taken_is_told(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Launch(monkeypatch)

    def taken(_settings: Settings) -> list[Any]:
        raise OSError(98, "Address already in use")

    monkeypatch.setattr(launcher, "bound_sockets", taken)
    assert launcher.launch(settings) == 1
    assert made.done == []
    assert "cannot bind 127.0.0.1:8000: address already in use" in capsys.readouterr().err


class Network:
    """Addresses of a host, and what becomes of sockets on them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **errors: int) -> None:
        self.errors, self.calls = errors, list[tuple[Any, ...]]()
        found = [(socket.AF_INET6, 1, 6, "", "six"), (socket.AF_INET, 1, 6, "", "four")]

        def addresses(host: str, port: int, *, type: int, flags: int) -> list[Any]:
            assert (host, port, type, flags) == ("127.0.0.1", 8000, socket.SOCK_STREAM, socket.AI_PASSIVE)
            return [*found, found[0]]

        monkeypatch.setattr(socket, "getaddrinfo", addresses)
        monkeypatch.setattr(socket, "socket", self.made)

    def made(self, family: int, kind: int, protocol: int) -> "FakeSocket":
        assert (kind, protocol) == (1, 6)
        name = "six" if family == socket.AF_INET6 else "four"
        if "family_" + name in self.errors:
            raise OSError(self.errors["family_" + name], "no such family")
        return FakeSocket(self, name)


class FakeSocket:
    def __init__(self, network: Network, name: str) -> None:
        self.network, self.name, self.options, self.is_closed = network, name, set[tuple[int, int, int]](), False
        self.address: str | None = None

    def setsockopt(self, level: int, option: int, value: int) -> None:
        self.options.add((level, option, value))

    def bind(self, address: str) -> None:
        self.network.calls.append((self, address))
        if address in self.network.errors:
            raise OSError(self.network.errors[address], "cannot bind")
        self.address = address

    def close(self) -> None:
        self.is_closed = True


REUSE = (socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
SIX_ONLY = (socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)


def test_every_address_of_the_host_is_bound(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    Network(monkeypatch)
    bound: list[Any] = launcher.bound_sockets(settings)
    assert [(one.address, one.options, one.is_closed) for one in bound] == [
        ("six", {REUSE, SIX_ONLY}, False),
        ("four", {REUSE}, False),
    ]


@pytest.mark.parametrize(
    ("errors", "names"),
    [
        ({"six": errno.EADDRNOTAVAIL}, ["four"]),
        ({"four": errno.EADDRNOTAVAIL}, ["six"]),
        ({"family_six": errno.EAFNOSUPPORT}, ["four"]),
    ],
)
def test_an_address_that_this_machine_lacks_is_left_out(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, errors: dict[str, int], names: list[str]
) -> None:
    network = Network(monkeypatch, **errors)
    bound: list[Any] = launcher.bound_sockets(settings)
    assert [one.address for one in bound] == names
    assert all(one.is_closed for one, _ in network.calls if one not in bound)


@pytest.mark.parametrize(
    "errors",
    [
        {"six": errno.EADDRNOTAVAIL, "four": errno.EADDRNOTAVAIL},
        {"family_six": errno.EAFNOSUPPORT, "four": errno.EADDRNOTAVAIL},
        {"family_six": errno.EAFNOSUPPORT, "family_four": errno.EAFNOSUPPORT},
        {"four": errno.EADDRINUSE},
        {"six": errno.EACCES},
    ],
)
def test_an_address_that_cannot_be_had_leaves_nothing_bound(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, errors: dict[str, int]
) -> None:
    network = Network(monkeypatch, **errors)
    with pytest.raises(OSError, match=r"cannot bind|no such family"):
        launcher.bound_sockets(settings)
    assert all(one.is_closed for one, _ in network.calls)


def test_preparing_tells_whether_a_key_exists(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    assert launcher._prepare_database(settings) is False
    assert run("create", "--admin").exit_code == 0
    assert launcher._prepare_database(settings) is True
    assert capsys.readouterr().err == ""
    (settings.data_dir / "store.id").unlink()
    assert launcher._prepare_database(settings) is True
    assert "not ready" in capsys.readouterr().err, "the store is away: this is said, and waited for"
    away = settings.model_copy(update={"database_url": "postgresql://user@127.0.0.1:1/nowhere"})
    with pytest.raises(SystemExit, match="cannot use the database"):
        launcher._prepare_database(away)


def test_preparing_refuses_a_schema_of_a_newer_version(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_database: Database) -> None:
        raise migrate.UnknownRevision("a newer version")

    monkeypatch.setattr(migrate, "upgrade", refuse)
    with pytest.raises(SystemExit, match="a newer version"):
        launcher._prepare_database(settings)


def test_preparing_keeps_no_connection(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Database] = []
    monkeypatch.setattr(Database, "close", lambda database: closed.append(database))
    launcher._prepare_database(settings)
    assert len(closed) == 1
    monkeypatch.undo()
    closed[0].close()
