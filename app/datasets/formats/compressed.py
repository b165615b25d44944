"""Compressed files: expanded once into a scratch file, within a ceiling that no bomb gets past.

Readers walk a file more than once where it has faults, so they need one they can seek in.
"""

import errno
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.datasets.formats.table import Encoding, FileError, InvalidFile, TooLarge
from app.storage.free_space import require_free_space

__all__ = ["Ceiling", "expanded", "is_of_the_disk"]

COPY_BYTES = 1 << 20
MAX_RATIO = 100
"""Bytes that one byte of a file may expand to. Larger: a small upload fills more of the disk. Text of numbers is
compressed 3 to 20 times, and long runs of zeros up to 1000 times, which a sparse format holds better."""
ANY_RATIO_BYTES = 64 << 20
"""Bytes up to which any ratio is allowed."""


@dataclass(frozen=True)
class Ceiling:
    """How much a file may expand to, and the folder in which it may."""

    most_bytes: int = 16 << 30
    scratch: Path | None = None
    reserve_bytes: int = 0
    """Disk space that must stay free meanwhile."""

    def check(self, expanded_bytes: int, file_bytes: int, remedy: str = "send it without compression") -> None:
        """Raise TooLarge if so many bytes cannot have come from a file of that size in earnest."""
        if expanded_bytes > self.most_bytes:
            raise TooLarge(f"The file expands to more than the {self.most_bytes} bytes that are allowed.")
        if expanded_bytes > max(ANY_RATIO_BYTES, MAX_RATIO * file_bytes):
            raise TooLarge(f"The file expands to more than {MAX_RATIO} times its size; {remedy}.")
        if self.scratch is not None:
            require_free_space(self.scratch, self.reserve_bytes)


def is_of_the_disk(error: Exception) -> bool:
    """Whether a library failed to read, or failed over what it read: an impossible offset is the file's fault."""
    return isinstance(error, OSError) and error.errno not in (None, errno.EINVAL)


@contextmanager
def expanded(path: Path, encoding: Encoding, ceiling: Ceiling) -> Iterator[Path]:
    """The path of the file without its compression."""
    if encoding == "identity":
        yield path
        return
    import pyarrow as pa  # here, because the API process never needs it

    with tempfile.NamedTemporaryFile(dir=ceiling.scratch, prefix="expanded-") as plain:
        size = 0
        try:
            with pa.OSFile(str(path)) as raw, pa.CompressedInputStream(raw, encoding) as stream:
                while block := stream.read(COPY_BYTES):
                    size += len(block)
                    ceiling.check(size, raw.tell())
                    plain.write(block)
        except OSError as error:
            if is_of_the_disk(error):
                raise
            detail = f"The file is not whole and valid {encoding}; compress it anew, or send it as it is."
            raise InvalidFile([FileError(None, None, "bad_compression", detail)]) from None
        plain.flush()
        yield Path(plain.name)
