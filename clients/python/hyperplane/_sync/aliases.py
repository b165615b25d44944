# Written by `make sync-client` from hyperplane/_async. Do not edit it.
"""`client.aliases`: names for versions, with canaries, shadows and a history."""

from typing import Any

from hyperplane._shared.requests import Request, path
from hyperplane._shared.types import Alias, AliasChange
from hyperplane._sync.pages import Pages
from hyperplane._sync.transport import Transport

__all__ = ["Aliases"]


class Aliases:
    """Aliases of models: `spam@prod`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, model: str, *, limit: int | None = None) -> Pages[Alias]:
        """List the aliases of a model."""
        request = Request("GET", path("v1", "models", model, "aliases"), params={"limit": limit})
        return Pages(self._transport, request, Alias)

    def set(
        self,
        model: str,
        alias: str,
        version: int | None = None,
        *,
        targets: Any = None,
        shadow: int | None = None,
        revision: int | None = None,
        create_only: bool = False,
    ) -> Alias:
        """Point an alias to a version, or to several by weight (`targets=[{"version": 3, "weight": 0.9}, ...]`).

        `revision`: change it only if it still has this revision. `create_only`: only if there is no such alias.
        """
        headers = _match(revision) | ({"If-None-Match": "*"} if create_only else {})
        fields = {"version": version, "targets": targets, "shadow": shadow}
        body = {name: value for name, value in fields.items() if value is not None}
        request = Request("PUT", path("v1", "models", model, "aliases", alias), json=body, headers=headers)
        return Alias(self._transport.json(request))

    def get(self, model: str, alias: str) -> Alias:
        """Get an alias."""
        return Alias(self._transport.json(Request("GET", path("v1", "models", model, "aliases", alias))))

    def delete(self, model: str, alias: str, *, revision: int | None = None) -> None:
        """Delete an alias."""
        place = path("v1", "models", model, "aliases", alias)
        self._transport.send(Request("DELETE", place, headers=_match(revision)))

    def history(self, model: str, alias: str, *, limit: int | None = None) -> Pages[AliasChange]:
        """List the former states of an alias."""
        request = Request("GET", path("v1", "models", model, "aliases", alias, "history"), params={"limit": limit})
        return Pages(self._transport, request, AliasChange)

    def roll_back(self, model: str, alias: str, to: int | None = None, *, revision: int | None = None) -> Alias:
        """Return an alias to its former state, or to the revision `to`."""
        place = path("v1", "models", model, "aliases", alias, "rollback")
        body = {} if to is None else {"revision": to}
        request = Request("POST", place, json=body, headers=_match(revision)).once()
        return Alias(self._transport.json(request))


def _match(revision: int | None) -> dict[str, str]:
    return {} if revision is None else {"If-Match": f'"{revision}"'}
