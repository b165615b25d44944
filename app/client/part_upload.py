"""Resumable uploads: send a large file in parts and continue after errors from the bytes that the server has."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import httpx

from app.client.api_errors import ApiError, Json, checked
from app.client.retries import PASSING, Patience

PART_BYTES = 256 << 20
"""Bytes per request of a resumable upload. Larger: fewer requests, more to repeat after an error of the server."""
READ_BYTES = 1 << 20
"""Bytes per read of the file. Larger: fewer calls, more memory."""


def upload_in_parts(http: httpx.Client, path: Path, headers: dict[str, str], options: Json) -> Json:
    """Upload the file and return its dataset."""
    length = path.stat().st_size
    announced = {**headers, "Upload-Length": str(length)}
    upload = checked(http.post("/v1/uploads", params=options, headers=announced))
    location = f"/v1/uploads/{upload['id']}"
    patience = Patience()
    with path.open("rb") as file:
        while True:
            try:
                upload = checked(http.get(location))
                if upload["complete"]:  # the response to the last part was lost
                    return checked(http.get(f"/v1/datasets/{upload['dataset_id']}"))
                patience.note_progress(upload["offset"])
                response = _send_part(http, location, file, upload["offset"], length)
                if response.status_code != 204:
                    return checked(response)
            except httpx.TransportError as error:
                patience.wait(error)
            except ApiError as error:
                if error.problem.get("status") not in PASSING:
                    raise
                patience.wait(error)


def _send_part(http: httpx.Client, location: str, file: BinaryIO, offset: int, length: int) -> httpx.Response:
    file.seek(offset)
    size = min(PART_BYTES, length - offset)
    headers = {
        "Content-Type": "application/partial-upload",
        "Content-Length": str(size),
        "Upload-Offset": str(offset),
    }
    return http.patch(location, content=_pieces(file, size), headers=headers)


def _pieces(file: BinaryIO, size: int) -> Iterator[bytes]:
    while size and (piece := file.read(min(READ_BYTES, size))):
        size -= len(piece)
        yield piece
