"""What every route that answers from a model shares: finding the model, the thread, the shadow."""

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool

from app.deps import known_query_only
from app.errors import UnsupportedMediaType, invalid_field
from app.media_types import NPY
from app.predictions import service
from app.predictions.features import Features
from app.predictions.replies import Reply
from app.predictions.rows import Rows
from app.predictions.served import ServedModel, ServedModels
from app.predictions.shadow import Shadows

# A body of this size is parsed and scored in well under a millisecond; larger ones go to a thread. Numbers that need no
# parsing take less than the way to a thread and back.
INLINE_BYTES = 16 * 1024
INLINE_BINARY_BYTES = 512 * 1024
BINARY_TYPES = frozenset({NPY, "application/octet-stream"})
MAX_TOP = 1000
HEADER_LENGTH = "Inference-Header-Content-Length"
RAW_HEADER_LENGTH = HEADER_LENGTH.lower().encode()


class Edge:
    """One request to one model; it reads its parameters itself, see `DirectRoute`."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._headers: dict[bytes, bytes] = dict(request.scope["headers"])  # looked into several times
        self._query: Mapping[str, str] = request.query_params if request.scope["query_string"] else {}

    @property
    def wanted(self) -> str | None:
        """Outputs, separated by commas."""
        return self._query.get("return")

    @property
    def index_base(self) -> int:
        return self._whole_number("index_base", 0, 1, default=1)

    @property
    def top(self) -> int:
        return self._whole_number("top", 1, MAX_TOP, default=10)

    @property
    def _routing_key(self) -> str | None:
        return self._header(b"x-routing-key") or self._query.get("routing_key")

    @property
    def content_type(self) -> str | None:
        return self._header(b"content-type")

    @property
    def is_binary(self) -> bool:
        """Whether the body is mostly raw numbers."""
        return self.header_length is not None or self.content_type in BINARY_TYPES

    @property
    def header_length(self) -> str | None:
        """Of the Open Inference Protocol: how long the JSON in front of raw tensors is."""
        return self._header(RAW_HEADER_LENGTH)

    @property
    def accept(self) -> str | None:
        return self._header(b"accept")

    async def body(self) -> bytes:
        if self._headers.get(b"content-encoding", b"identity") != b"identity":
            raise UnsupportedMediaType("Rows are not read compressed; send them without Content-Encoding.")
        return await self._request.body()

    async def model(self, reference: str) -> ServedModel:
        """Without a thread if it is at hand."""
        served: ServedModels = self._request.app.state.served_models
        known = served.recall(reference, self._routing_key)
        return known if known is not None else await run_in_threadpool(served.find, reference, self._routing_key)

    async def answer(
        self, reference: str, body: bytes, respond: Callable[[ServedModel], Reply], read: Callable[[Features], Rows]
    ) -> Response:
        """What the reference's model responds. `read` gives the rows of the body, for its shadow."""
        model = await self.model(reference)
        at_most = INLINE_BINARY_BYTES if self.is_binary else INLINE_BYTES
        reply = respond(model) if len(body) <= at_most else await run_in_threadpool(respond, model)
        shadows: Shadows = self._request.app.state.shadows
        shadows.mirror(reference, model, partial(service.judge, read=read), len(body))
        return Response(reply.content, media_type=reply.media_type, headers=dict(reply.headers))

    def _header(self, name: bytes) -> str | None:
        value = self._headers.get(name)
        return None if value is None else value.decode("latin-1")

    def _whole_number(self, name: str, low: int, high: int, default: int) -> int:
        text = self._query.get(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 10 and low <= int(text) <= high):
            raise invalid_field(name, "out_of_range", f"must be a whole number from {low} to {high}")
        return int(text)


class DirectRoute(APIRoute):
    """A route whose function takes the path's parameters and the request, called without FastAPI's resolution of them.

    That costs more than the prediction of a row. The document is the same.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        async def handle(request: Request) -> Response:
            await known_query_only(request)
            response: Response = await self.endpoint(request=request, **request.path_params)
            return response

        return handle
