"""What every route that answers from a model shares: finding the model, the thread, the shadow."""

from collections.abc import Callable
from functools import partial
from typing import Annotated

from fastapi import Depends, Request, Response
from starlette.concurrency import run_in_threadpool

from app.errors import UnsupportedMediaType
from app.predictions import service
from app.predictions.features import Features
from app.predictions.replies import Reply
from app.predictions.routing import RoutingHeader, RoutingQuery
from app.predictions.rows import Rows
from app.predictions.served import ServedModel, ServedModels
from app.predictions.shadow import Shadows

# A body of this size is parsed and scored in well under a millisecond; larger ones go to a thread.
INLINE_BYTES = 16 * 1024


class Edge:
    """One request to one model."""

    def __init__(self, request: Request, routing_key: str | None) -> None:
        self._request = request
        self._routing_key = routing_key

    @property
    def content_type(self) -> str | None:
        return self._request.headers.get("content-type")

    @property
    def accept(self) -> str | None:
        return self._request.headers.get("accept")

    async def body(self) -> bytes:
        if self._request.headers.get("content-encoding", "identity") != "identity":
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
        reply = respond(model) if len(body) <= INLINE_BYTES else await run_in_threadpool(respond, model)
        shadows: Shadows = self._request.app.state.shadows
        shadows.mirror(reference, model, partial(service.judge, read=read), len(body))
        return Response(reply.content, media_type=reply.media_type, headers=dict(reply.headers))


# async, because FastAPI would run a plain function in a thread
async def _edge(request: Request, routing_key: RoutingQuery = None, x_routing_key: RoutingHeader = None) -> Edge:
    return Edge(request, x_routing_key or routing_key)


InEdge = Annotated[Edge, Depends(_edge)]
