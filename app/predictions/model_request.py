"""Code that all prediction routes share: parameters, finding the model, choosing a thread, the shadow."""

from collections.abc import Callable, Mapping
from functools import cache, lru_cache, partial

from fastapi import Request, Response
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from app.errors import UnsupportedMediaType, invalid_field
from app.predictions import service
from app.predictions.model_cache import ModelCache, ServedModel
from app.predictions.model_features import Features
from app.predictions.outputs import SET
from app.predictions.request_bodies import split_type
from app.predictions.response_formats import Reply
from app.predictions.rows import Rows
from app.predictions.shadow import Shadows
from app.web.context import context_of
from app.web.media_types import ARROW, JSON, NPY, NPZ
from app.web.thread_rooms import MODELS, PREDICTIONS

INLINE_BYTES = 16 * 1024
"""Maximum bytes of a body that is answered on the event loop; larger bodies go to a thread. Larger: a request blocks
the loop for longer. A body of 16 KiB is parsed and scored in less than 1 ms."""
INLINE_BINARY_BYTES = 512 * 1024
"""Maximum bytes of a body of raw numbers that is answered on the event loop; such bodies need no parsing. Formats that
can expand always go to a thread. Larger: a request blocks the loop for longer."""
INLINE_ROWS = 4096
"""Maximum rows of a binary body that is answered on the event loop. Larger: a request blocks the loop for longer than a
thread switch costs. Measured: 125,000 rows in 500 KB took 0.16 s."""
MAX_LENGTH_DIGITS = 9
"""Maximum digits of a length header that is parsed on the event loop: bodies there are below 10^9 bytes."""
EXPANDING_TYPES = frozenset({ARROW, NPZ})
BINARY_TYPES = frozenset({NPY, "application/octet-stream"})
MAX_TOP = 1000
"""Maximum number of features that an explanation lists. Larger: larger responses. Set by hand; no measurement is
recorded."""
HEADER_LENGTH = "Inference-Header-Content-Length"
RAW_HEADER_LENGTH = HEADER_LENGTH.lower().encode()


class ModelRequest:
    """A request to a model. It parses its parameters itself; see app/web/fast_route.py."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._context = context_of(request)
        self._headers: dict[bytes, bytes] = dict(request.scope["headers"])  # used several times
        self._query: Mapping[str, str] = request.query_params if request.scope["query_string"] else {}

    @property
    def wanted(self) -> str | None:
        """Return the requested outputs of the query, which are separated by commas."""
        return self._query.get("return")

    @property
    def coverage(self) -> float | None:
        """Return the coverage of prediction sets of the query."""
        text = self._query.get("coverage")
        if text is None:
            return None
        try:
            return float(text)
        except ValueError:
            raise invalid_field("coverage", "out_of_range", "must be a number above 0 and below 1") from None

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
    def header_length(self) -> str | None:
        """Return the length of the JSON part in front of binary tensors (Open Inference Protocol)."""
        return self._header(RAW_HEADER_LENGTH)

    @property
    def accept(self) -> str | None:
        return self._header(b"accept")

    async def body(self) -> bytes:
        if self._headers.get(b"content-encoding", b"identity") != b"identity":
            raise UnsupportedMediaType(
                "Compressed bodies are not supported here; send the rows without Content-Encoding."
            )
        message = await self._request.receive()
        parts = []
        while message["type"] == "http.request":
            parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                return parts[0] if len(parts) == 1 else b"".join(parts)
            message = await self._request.receive()
        raise ClientDisconnect

    async def model(self, reference: str) -> ServedModel:
        """Find the model; without a thread if it is in the cache."""
        served = self._context.part(ModelCache)
        known = served.recall(reference, self._routing_key)
        return known if known is not None else await MODELS.run(served.find, reference, self._routing_key)

    async def answer(
        self, reference: str, body: bytes, respond: Callable[[ServedModel], Reply], read: Callable[[Features], Rows]
    ) -> Response:
        """Answer with the model of a reference. `read` parses the rows of the body again, for the shadow."""
        model = await self.model(reference)
        is_short = is_inline(len(body), model.features.width, self.content_type, self.header_length)
        is_short = is_short and not (SET in model.outputs and self._may_ask_for_sets(body))
        reply = respond(model) if is_short else await PREDICTIONS.run(respond, model)
        shadows = self._context.part(Shadows)
        shadows.mirror(reference, model, partial(service.judge, read=read), len(body))
        return _Answer(reply)

    def _may_ask_for_sets(self, body: bytes) -> bool:
        """Whether the fold models may be needed. Opening them takes too long for the event loop."""
        return SET.encode() in body or SET in (self._query.get("return") or "")

    def _header(self, name: bytes) -> str | None:
        value = self._headers.get(name)
        return None if value is None else value.decode("latin-1")

    def _whole_number(self, name: str, low: int, high: int, default: int) -> int:
        text = self._query.get(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 10 and low <= int(text) <= high):
            raise invalid_field(name, "out_of_range", f"must be an integer from {low} to {high}")
        return int(text)


def is_inline(size: int, width: int, content_type: str | None, header_length: str | None) -> bool:
    """Whether a body of this size, for a model of this width, is answered on the event loop."""
    if header_length is None and content_type != JSON and split_type(content_type or "")[0] in EXPANDING_TYPES:
        return False
    if size <= INLINE_BYTES:
        return True
    is_binary = content_type in BINARY_TYPES if header_length is None else _is_short(header_length)
    return is_binary and size <= INLINE_BINARY_BYTES and size <= INLINE_ROWS * width


def _is_short(header_length: str) -> bool:
    """Whether the JSON part in front of binary tensors is short enough for the event loop."""
    is_number = header_length.isascii() and header_length.isdigit() and len(header_length) <= MAX_LENGTH_DIGITS
    return is_number and int(header_length) <= INLINE_BYTES


class _Answer(Response):
    """A response with all of its headers, to skip Starlette's search for missing ones."""

    def __init__(self, reply: Reply) -> None:
        self.status_code, self.body, self.background = 200, reply.content, None
        self.raw_headers = [
            (b"content-length", b"%d" % len(reply.content)),
            (b"content-type", _content_type(reply.media_type)),
            *[_raw_header(name, value) for name, value in reply.headers.items()],
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body})


@cache
def _content_type(media_type: str) -> bytes:
    return (f"{media_type}; charset=utf-8" if media_type.startswith("text/") else media_type).encode()


@lru_cache(maxsize=1024)  # responses of a model repeat a few values
def _raw_header(name: str, value: str) -> tuple[bytes, bytes]:
    return name.lower().encode("latin-1"), value.encode("latin-1")
