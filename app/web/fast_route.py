"""Routes that are called without FastAPI's resolution of their parameters: the way of the busiest requests."""

from collections.abc import Callable, Sequence
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from app.web.validation import known_query_only

REFUSAL = "hyperplane.refusal"  # in a request's scope: what its direct route has raised


class DirectRoute(APIRoute):
    """A route whose function takes the path's parameters and the request, called without FastAPI's resolution of them.

    That, and the stacks in which FastAPI keeps what dependencies leave open, cost more than the prediction of a row.
    The document is the same; a refusal is answered by the application's handlers, as everywhere.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **described: Any) -> None:
        super().__init__(path, endpoint, **described)
        self.app = self._routed

    async def respond(self, scope: Scope, receive: Receive) -> Response:
        request = Request(scope, receive)
        if scope["query_string"]:
            await known_query_only(request)
        response: Response = await self.endpoint(request=request, **scope["path_params"])
        return response

    async def _routed(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (refusal := scope.get(REFUSAL)) is not None:
            raise refusal
        response = await self.respond(scope, receive)
        await response(scope, receive, send)


class DirectRoutes:
    """ASGI middleware that calls direct routes without the layers and the search in front of all routes.

    Only an answer is given here. What a route refuses goes the way of every request, and is raised again at its end.
    """

    def __init__(self, app: ASGIApp, routes: Sequence[BaseRoute]) -> None:
        self._app = app
        self._routes: dict[str, list[DirectRoute]] = {}  # by the last part of their path
        for route in routes:
            if isinstance(route, DirectRoute):
                self._routes.setdefault(route.path.rpartition("/")[2], []).append(route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = None
        if (route := self._matching(scope)) is not None:
            try:
                response = await route.respond(scope, receive)
            except Exception as refusal:
                scope[REFUSAL] = refusal
        await (self._app if response is None else response)(scope, receive, send)

    def _matching(self, scope: Scope) -> DirectRoute | None:
        if scope["type"] != "http" or scope["method"] != "POST" or scope.get("root_path"):
            return None
        if scope.get("fastapi.telemetry") is not None:  # its spans are made by the layers
            return None
        path: str = scope["path"]
        for route in self._routes.get(path[path.rfind("/") + 1 :], ()):
            if found := route.path_regex.match(path):
                scope["route"], scope["path_params"] = route, found.groupdict()
                return route
        return None
