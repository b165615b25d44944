"""Keeps a reserve of disk space, so that the database, running jobs and deletions still work when uploads fill the
disk."""

import errno
import os
from pathlib import Path

from app.errors import SpaceReserved


def require_free_space(folder: Path, reserve_bytes: int, more_bytes: int = 0) -> None:
    """Raise SpaceReserved if writing `more_bytes` would leave less than `reserve_bytes` free. 0 means no reserve.

    A missing folder raises nothing here; the check of the store's identity (identity.py) reports it.
    """
    if reserve_bytes == 0:
        return
    try:
        status = os.statvfs(folder)
    except FileNotFoundError:
        return
    free_bytes = status.f_bavail * status.f_frsize
    if free_bytes - more_bytes < reserve_bytes:
        detail = (
            f"{free_bytes} bytes of the disk are free and {reserve_bytes} must stay free "
            "(HYPERPLANE_FREE_SPACE_BYTES); delete datasets or models, then try again."
        )
        raise SpaceReserved(errno.ENOSPC, detail)
