"""Streams the part `file` of a `multipart/form-data` body, as browsers and `curl -F file=@…` send it.

The parser holds at most a chunk and a boundary in memory. A form with other parts is refused, because options are query
parameters and other parts would have no effect.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser

from app.errors import Unparsable, invalid_field

MAX_PREAMBLE_BYTES = 16_384
"""Maximum bytes before the file: the preamble and the headers of the part. Larger: more memory for a malformed body.
Set by hand; no measurement is recorded."""
MAX_BOUNDARY = 70
"""Maximum characters of a boundary (RFC 2046)."""


@dataclass(frozen=True)
class FilePart:
    """The headers of the part `file`, and a stream of its bytes."""

    media_type: str
    file_name: str
    encoding: str
    chunks: AsyncIterator[bytes]


def boundary_of(content_type: str) -> bytes:
    message = Message()
    message["Content-Type"] = content_type
    boundary = message.get_boundary("")
    if not 1 <= len(boundary) <= MAX_BOUNDARY or not boundary.isascii():
        raise Unparsable(
            "The Content-Type multipart/form-data has no boundary parameter; add it, or send the file as the raw body."
        )
    return boundary.encode()


async def read_file_part(stream: AsyncIterator[bytes], boundary: bytes) -> FilePart:
    """Read the body up to the first byte of the file. The field `chunks` of the result streams the file."""
    delimiter = b"\r\n--" + boundary
    seen = b"\r\n"  # a delimiter at the start of the body then has the usual form
    while (end := _headers_end(seen, delimiter)) is None:
        if len(seen) > MAX_PREAMBLE_BYTES:
            raise Unparsable("The multipart body does not begin with a part; send the file as the part `file`.")
        seen += await _next(stream)
    start, stop = end
    headers = HeaderParser().parsestr(seen[start:stop].decode("utf-8", "replace"))
    field = headers.get_param("name", header="content-disposition")
    if field != "file":
        raise invalid_field("file", "unexpected_part", "the form must have one part, `file`; options go into the query")
    chunks = _chunks(stream, seen[stop + 4 :], delimiter)
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    encoding = headers.get("content-encoding", "identity").strip().lower()
    return FilePart(media_type, headers.get_filename("") or "", encoding, chunks)


def _headers_end(seen: bytes, delimiter: bytes) -> tuple[int, int] | None:
    """Return the start and the end of the first part's headers, or None if they have not arrived yet."""
    found = seen.find(delimiter)
    if found < 0:
        return None
    start = found + len(delimiter)
    if seen[start : start + 2] == b"--":
        raise invalid_field("file", "missing_part", "the form has no part; send the file as the part `file`")
    stop = seen.find(b"\r\n\r\n", start)
    return None if stop < 0 else (start + 2, stop)


async def _chunks(stream: AsyncIterator[bytes], held: bytes, delimiter: bytes) -> AsyncIterator[bytes]:
    """Yield the bytes up to the next delimiter, then read the rest of the body, which must not contain another part."""
    while (found := held.find(delimiter)) < 0:
        safe = len(held) - len(delimiter) + 1  # the bytes after this can contain the start of a delimiter
        if safe > 0:
            yield held[:safe]
            held = held[safe:]
        held += await _next(stream)
    yield held[:found]
    rest = held[found + len(delimiter) :]
    while len(rest) < 2:
        rest += await _next(stream)
    if not rest.startswith(b"--"):
        raise invalid_field("file", "unexpected_part", "the form must have one part, `file`; options go into the query")
    async for _ in stream:
        pass


async def _next(stream: AsyncIterator[bytes]) -> bytes:
    try:
        return await anext(stream)
    except StopAsyncIteration:
        raise Unparsable("The multipart body ends before its last boundary; send it again.") from None
