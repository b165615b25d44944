"""The one file of a form comes out byte for byte, however the body is cut, and a form of another kind is refused."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from app.datasets.reading.multipart_form import FilePart, boundary_of, read_file_part
from app.errors import AppError, Invalid, Unparsable

BOUNDARY = b"xYzZY"
HEADERS = b'Content-Disposition: form-data; name="file"; filename="r\xc3\xa4der.csv.gz"\r\nContent-Type: text/csv'
CONTENTS = [
    b"",
    b"a,b\r\n1,2\r\n",
    b"\r\n--xYzZ",
    b"\r\n--xYzZ\r\n--xYzz\r\n\r\n-\r\n--",
    bytes(range(256)) * 40,
    b"\r\n" * 500,
]


def form(content: bytes, headers: bytes = HEADERS) -> bytes:
    return b"--" + BOUNDARY + b"\r\n" + headers + b"\r\n\r\n" + content + b"\r\n--" + BOUNDARY + b"--\r\n"


async def cut(body: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


def read(body: bytes, size: int) -> tuple[FilePart, bytes]:
    async def run() -> tuple[FilePart, bytes]:
        part = await read_file_part(cut(body, size), BOUNDARY)
        return part, b"".join([chunk async for chunk in part.chunks])

    return asyncio.run(run())


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 100_000])
@pytest.mark.parametrize("content", CONTENTS)
def test_the_file_comes_out_whatever_the_cuts(content: bytes, size: int) -> None:
    part, read_back = read(form(content), size)
    assert read_back == content
    assert (part.media_type, part.file_name, part.encoding) == ("text/csv", "räder.csv.gz", "identity")


@pytest.mark.parametrize("size", [1, 100_000])
def test_a_preamble_and_an_epilogue_are_passed_over(size: int) -> None:
    assert read(b"Hello\r\n" + form(b"x") + b"bye", size)[1] == b"x"


def test_a_large_file_passes_in_small_pieces() -> None:
    async def largest() -> int:
        part = await read_file_part(cut(form(b"y" * 3_000_000), 65_536), BOUNDARY)
        return max([len(chunk) async for chunk in part.chunks])

    assert asyncio.run(largest()) <= 65_536 + len(BOUNDARY) + 4


TWO_PARTS = form(b"x")[: -len(b"--\r\n")] + b"\r\n" + HEADERS + b"\r\n\r\ny\r\n--" + BOUNDARY + b"--\r\n"

REFUSED = [
    (b"", Unparsable),
    (b"no boundary at all", Unparsable),
    (b"-" * 100_000, Unparsable),
    (form(b"x")[:-12], Unparsable),
    (form(b"x")[: len(HEADERS)], Unparsable),
    (b"--" + BOUNDARY + b"--\r\n", Invalid),
    (form(b"x", b'Content-Disposition: form-data; name="other"'), Invalid),
    (form(b"x", b"Content-Type: text/csv"), Invalid),
    (form(b"x", b""), Invalid),
    (TWO_PARTS, Invalid),
]


@pytest.mark.parametrize("size", [1, 100_000])
@pytest.mark.parametrize(("body", "refusal"), REFUSED)
def test_another_kind_of_form_is_refused(body: bytes, refusal: type[AppError], size: int) -> None:
    with pytest.raises(refusal):
        read(body, size)


@pytest.mark.parametrize(
    "content_type",
    ["multipart/form-data", "multipart/form-data; boundary=", f"multipart/form-data; boundary={'x' * 71}"],
)
def test_a_form_names_its_boundary(content_type: str) -> None:
    with pytest.raises(Unparsable):
        boundary_of(content_type)
    assert boundary_of('multipart/form-data; charset=utf-8; boundary="a b"') == b"a b"
