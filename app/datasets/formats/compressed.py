"""Decompresses a file into a temporary file, with a limit on its size against decompression bombs.

Readers need a seekable file, because they read it a second time to find the places of errors.
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
"""Bytes per read while a file is decompressed. Larger: fewer calls, more memory. Set by hand; no measurement is
recorded."""
MAX_RATIO = 100
"""Maximum ratio of decompressed to compressed size. Larger: a small upload can fill more of the disk. Text of numbers
compresses 3 to 20 times. Long runs of zeros compress up to 1000 times; a sparse format suits them better."""
ANY_RATIO_BYTES = 64 << 20
"""Decompressed size in bytes up to which MAX_RATIO does not apply. Larger: a small upload can fill more of the disk.
Set by hand; no measurement is recorded."""


@dataclass(frozen=True)
class Ceiling:
    """Limit of the decompressed size, and the folder for the temporary file."""

    most_bytes: int = 16 << 30
    scratch: Path | None = None
    reserve_bytes: int = 0
    """Disk space in bytes that must stay free."""

    def check(self, expanded_bytes: int, file_bytes: int, remedy: str = "send it without compression") -> None:
        """Raise TooLarge if the decompressed size is above the limits."""
        if expanded_bytes > self.most_bytes:
            raise TooLarge(
                f"The file expands to more than {self.most_bytes} bytes, the limit (HYPERPLANE_MAX_UPLOAD_BYTES)."
            )
        if expanded_bytes > max(ANY_RATIO_BYTES, MAX_RATIO * file_bytes):
            raise TooLarge(f"The file expands to more than {MAX_RATIO} times its size; {remedy}.")
        if self.scratch is not None:
            require_free_space(self.scratch, self.reserve_bytes)


def is_of_the_disk(error: Exception) -> bool:
    """Return whether an OSError comes from the disk. Other OSErrors come from the content, such as an invalid offset in
    it."""
    return isinstance(error, OSError) and error.errno not in (None, errno.EINVAL)


@contextmanager
def expanded(path: Path, encoding: Encoding, ceiling: Ceiling) -> Iterator[Path]:
    """Yield the path of the decompressed file, which is deleted afterwards."""
    if encoding == "identity":
        yield path
        return
    import pyarrow as pa  # imported here, because the API process imports this module and must not load pyarrow

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
            detail = f"The file is not complete and valid {encoding}; compress it again, or send it uncompressed."
            raise InvalidFile([FileError(None, None, "bad_compression", detail)]) from None
        plain.flush()
        yield Path(plain.name)
