"""The process's long-lived parts, in one typed place: endpoints ask for them instead of looking at `app.state`.

The settings, the database and the blobs are known to everybody. A feature's own parts (its cache, its queue) are
found by their class, so that this module knows no feature: `context.part(ParseQueue)`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from fastapi import Depends, FastAPI, Request
from starlette.requests import HTTPConnection

from app.config import Settings
from app.db import Database
from app.storage import BlobStore
from app.system.readiness import WorkersReady

Part = TypeVar("Part")


@dataclass
class Context:
    """Made once by `create_app`; ended with it."""

    settings: Settings
    database: Database
    blobs: BlobStore
    readers_warm: Callable[[], bool]
    """Whether the kernels that read uploads are compiled."""
    workers: WorkersReady | None = None
    """Whether the workers beside this process accept jobs; None: this service starts no workers."""
    draining: bool = False
    """The process is stopping: it still answers, and `/readyz` reports 503."""
    _parts: dict[type[Any], Any] = field(default_factory=dict)

    def add(self, part: object) -> None:
        """A feature's part; a second one of its class takes its place."""
        self._parts[type(part)] = part

    def part(self, kind: type[Part]) -> Part:
        """The part of this class."""
        part: Part = self._parts[kind]
        return part


def set_context(app: FastAPI, context: Context) -> None:
    app.state.context = context


def context_of(connection: HTTPConnection | FastAPI) -> Context:
    """The context of an application, or of the one that a request came to."""
    app = connection if isinstance(connection, FastAPI) else connection.app
    context: Context = app.state.context
    return context


# async, because FastAPI would run a plain function in a thread
async def _context(request: Request) -> Context:
    return context_of(request)


InContext = Annotated[Context, Depends(_context)]
