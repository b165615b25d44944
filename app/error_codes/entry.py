"""The type of an entry in the registry of error codes. The other modules of this folder contain only entries."""

from typing import NamedTuple


class ErrorCode(NamedTuple):
    """An error code with its meaning and its cure."""

    code: str
    statuses: tuple[int, ...]
    """HTTP statuses of problem documents with this code. Empty if the code occurs only in `errors` or in a job's
    `error`."""
    title: str
    meaning: str
    cure: str


def entry(code: str, statuses: int | tuple[int, ...], title: str, meaning: str, cure: str) -> ErrorCode:
    """Build an entry. `statuses` can be one number; 0 means no status."""
    if isinstance(statuses, int):
        statuses = (statuses,) if statuses else ()
    return ErrorCode(code, statuses, title, meaning, cure)
