"""Responses that send stored files."""

from fastapi.responses import FileResponse


class StoredFile(FileResponse):
    """A file response with large chunks, because each chunk costs a thread switch and an iteration of the event
    loop."""

    chunk_size = 1 << 20
