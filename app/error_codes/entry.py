"""The shape of an entry of the registry; the modules of this folder hold nothing but entries."""

from typing import NamedTuple


class ErrorCode(NamedTuple):
    """One error code."""

    code: str
    statuses: tuple[int, ...]
    """HTTP statuses of problem documents with this code; empty: it occurs only in `errors` or in a job's `error`."""
    title: str
    meaning: str
    cure: str


def entry(code: str, statuses: int | tuple[int, ...], title: str, meaning: str, cure: str) -> ErrorCode:
    """Build an entry; a single status may be a plain number, and 0 stands for none."""
    if isinstance(statuses, int):
        statuses = (statuses,) if statuses else ()
    return ErrorCode(code, statuses, title, meaning, cure)
