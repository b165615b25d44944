"""Routes that bypass FastAPI's parameter resolution and the middleware stack, for the busiest requests."""

from collections.abc import Callable, Sequence
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from app.web.validation import known_query_only

REFUSAL = "hyperplane.refusal"
"""Key in the ASGI scope of a request under which a direct route stores the error that it raised."""


class DirectRoute(APIRoute):
    """A route that is called with the path parameters and the request, without FastAPI's parameter resolution.

    FastAPI's parameter resolution and exit stacks cost more time than the prediction of a row. The OpenAPI document
    does not change, and the application's handlers handle errors as usual.
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
    """ASGI middleware that calls direct routes before the other middleware and the router.

    Only successful responses are sent here. When a route raises, the request passes through the other middleware and
    the router as usual, and the route raises the stored error again.
    """

    def __init__(self, app: ASGIApp, routes: Sequence[BaseRoute]) -> None:
        self._app = app
        self._routes: dict[str, list[DirectRoute]] = {}  # routes by the last segment of their path
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
        # telemetry needs the bypassed middleware, which creates its spans
        if scope.get("fastapi.telemetry") is not None:
            return None
        path: str = scope["path"]
        for route in self._routes.get(path[path.rfind("/") + 1 :], ()):
            if found := route.path_regex.match(path):
                scope["route"], scope["path_params"] = route, found.groupdict()
                return route
        return None
