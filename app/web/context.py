"""The long-lived objects of an API process, in one typed place. Endpoints get them from here, not from `app.state`.

Settings, database and blobs are attributes. Objects of a feature, such as a cache or a queue, are found by their class
(`context.part(ParseQueue)`), so that this module does not import features.
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
    """The long-lived objects of an API process. `create_app` creates one Context, which lives as long as the
    application."""

    settings: Settings
    database: Database
    blobs: BlobStore
    readers_warm: Callable[[], bool]
    """Returns whether the kernels that parse uploads are compiled."""
    workers: WorkersReady | None = None
    """Shows whether the workers of this service accept jobs; None if this service starts no workers."""
    draining: bool = False
    """Whether the process is stopping. It still responds to requests, and `/readyz` responds with 503."""
    _parts: dict[type[Any], Any] = field(default_factory=dict)

    def add(self, part: object) -> None:
        """Register an object of a feature. It replaces an earlier object of the same class."""
        self._parts[type(part)] = part

    def part(self, kind: type[Part]) -> Part:
        """Return the registered object of this class."""
        part: Part = self._parts[kind]
        return part


def set_context(app: FastAPI, context: Context) -> None:
    app.state.context = context


def context_of(connection: HTTPConnection | FastAPI) -> Context:
    """Return the context of an application, or of the application that handles a request."""
    app = connection if isinstance(connection, FastAPI) else connection.app
    context: Context = app.state.context
    return context


# async, because FastAPI runs plain functions in a thread
async def _context(request: Request) -> Context:
    return context_of(request)


InContext = Annotated[Context, Depends(_context)]
