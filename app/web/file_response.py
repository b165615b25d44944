"""Stored files as answers."""

from fastapi.responses import FileResponse


class StoredFile(FileResponse):
    """Read in large pieces: each takes a thread and a turn of the event loop."""

    chunk_size = 1 << 20
