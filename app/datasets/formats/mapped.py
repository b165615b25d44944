"""Maps files into memory for sequential reading, and releases the pages that have been read."""

import mmap
from pathlib import Path

__all__ = ["Mapped", "forget_pages", "map_file"]

Mapped = mmap.mmap | bytes


def map_file(path: Path) -> Mapped:
    """Map a file into memory. The file must not change while it is mapped, and must not be empty."""
    if path.stat().st_size == 0:
        return b""
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def forget_pages(mapped: Mapped, first: int, past: int) -> None:
    """Release the memory pages between two offsets. A later access loads them from the file again."""
    first, past = (max(0, place) // mmap.PAGESIZE * mmap.PAGESIZE for place in (first, past))
    if first < past and isinstance(mapped, mmap.mmap):
        mapped.madvise(mmap.MADV_DONTNEED, first, past - first)
