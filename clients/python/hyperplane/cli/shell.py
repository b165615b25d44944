"""What every command needs: the client of the service, and printing as a table or as JSON."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import hyperplane
from hyperplane._shared.requests import DEFAULT_URL

__all__ = ["Shell", "UsageError", "save_login", "stored_login"]

Embedded = Callable[[], AbstractContextManager[str]]
"""Gives the URL of a service of this machine, which is started for the length of the command if none runs. Only the
service's own distribution has it."""


class UsageError(hyperplane.HyperplaneError):
    """The command line asks for something that makes no sense. Exit code 2."""


class Shell:
    """The surroundings of one command."""

    def __init__(
        self, url: str | None, api_key: str | None, output: str, program: str, embedded: Embedded | None = None
    ) -> None:
        self.output = output
        self.program = program
        self.url = url
        self.api_key = api_key
        self._embedded = embedded
        self._open = ExitStack()
        self._client: hyperplane.Client | None = None

    def __enter__(self) -> "Shell":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    @property
    def client(self) -> hyperplane.Client:
        """The client of the named service, of the login, of the default address, or of a service started now."""
        if self._client is None:
            url, key = self._address()
            self._client = self._open.enter_context(hyperplane.Client(url, key))
        return self._client

    def show(self, answer: Mapping[str, Any], fields: Sequence[str]) -> None:
        """Print an answer: these fields, one a line, or all of it as JSON."""
        if self.output == "json":
            self.show_json(answer)
            return
        width = max(map(len, fields))
        for name in fields:
            print(f"{name:{width}}  {_cell(_at(answer, name))}")

    def show_list(self, answers: Iterable[Mapping[str, Any]], fields: Sequence[str]) -> None:
        """Print a list: a table of these fields, or one JSON document a line."""
        if self.output == "json":
            for answer in answers:
                self.show_json(answer, indent=None)
            return
        rows = [[field.replace(".", " ").upper() for field in fields]]
        rows += [[_cell(_at(answer, field)) for field in fields] for answer in answers]
        widths = [max(len(row[j]) for row in rows) for j in range(len(fields))]
        for row in rows:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())

    def show_json(self, answer: Mapping[str, Any], indent: int | None = 2) -> None:
        """Print an answer as JSON."""
        print(json.dumps(dict(answer), indent=indent, ensure_ascii=False))

    def note(self, text: str) -> None:
        """Say something beside the result, on standard error."""
        print(text, file=sys.stderr)

    def _address(self) -> tuple[str, str | None]:
        stored = stored_login()
        if self.url:
            return self.url, self.api_key or (stored.get("api_key") if stored.get("url") == self.url else None)
        if stored.get("url"):
            return stored["url"], self.api_key or stored.get("api_key")
        if self._embedded is not None:
            return self._open.enter_context(self._embedded()), self.api_key
        return DEFAULT_URL, self.api_key


def stored_login() -> dict[str, str]:
    """Return the URL and the key that `login` stored, or nothing."""
    try:
        found = json.loads(_login_file().read_text())
    except (OSError, ValueError):
        return {}
    return {name: value for name, value in found.items() if isinstance(value, str)} if isinstance(found, dict) else {}


def save_login(url: str, api_key: str | None) -> Path:
    """Store the URL and the key in a file that only its owner can read."""
    file = _login_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as opened:
        json.dump({"url": url, **({"api_key": api_key} if api_key else {})}, opened)
    file.chmod(0o600)
    return file


def _login_file() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "hyperplane" / "login.json"


def _at(answer: Mapping[str, Any], name: str) -> Any:
    """Return a field of an answer; `headline.value` is a field of a field."""
    value: Any = answer
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping | list):
        return json.dumps(value, ensure_ascii=False)
    return str(value)
