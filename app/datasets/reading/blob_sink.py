"""The sink of a parser process. It appends the rows of each array to a `.npy` file, which becomes a blob at the end."""

from collections.abc import Callable
from types import TracebackType

from app.datasets.formats import TooLarge
from app.storage import BlobStore, StagedArray
from app.storage.free_space import require_free_space
from app.tabular.types import Array

CHECKED_BYTES = 8 << 20
"""Bytes written between two checks of the free disk space. Larger: fewer checks, and an upload can use that much more
of the disk reserve. Set by hand; no measurement is recorded."""


class BlobSink:
    """Writes arrays to temporary files. Leaving the `with` block without `commit()` deletes them."""

    def __init__(self, blobs: BlobStore, most_bytes: int, reserve_bytes: int = 0) -> None:
        self._blobs = blobs
        self._most_bytes = most_bytes
        self._reserve_bytes = reserve_bytes
        self._bytes = 0
        self._unchecked_bytes = CHECKED_BYTES
        self._arrays: dict[str, StagedArray] = {}
        self._whole: dict[str, Array] = {}

    def append(self, name: str, rows: Array) -> None:
        if name not in self._arrays:
            self._arrays[name] = self._blobs.stage_array(rows.dtype, rows.shape[1:])
        self._count(rows)
        self._arrays[name].append(rows)

    def store(self, name: str, rows: Array) -> None:
        self._count(rows)
        self._whole[name] = rows  # written by commit(), when the other files are closed

    def _count(self, rows: Array) -> None:
        self._bytes += rows.nbytes
        if self._bytes > self._most_bytes:
            detail = f"The arrays of the file exceed {self._most_bytes} bytes, the limit for its size"
            raise TooLarge(f"{detail}; send it uncompressed, or in a sparse format.")
        self._unchecked_bytes += rows.nbytes
        if self._unchecked_bytes >= CHECKED_BYTES:
            require_free_space(self._blobs.staging, self._reserve_bytes, rows.nbytes)
            self._unchecked_bytes = 0

    def rewrite(self, name: str, change: Callable[[Array], Array]) -> None:
        if self._arrays[name].n_rows == 0:
            return
        with self._arrays.pop(name) as before:
            for rows in before.blocks():
                self._bytes -= rows.nbytes
                self.append(name, change(rows))

    def rename(self, name: str, new_name: str) -> None:
        self._arrays[new_name] = self._arrays.pop(name)

    def clear(self) -> None:
        for array in self._arrays.values():
            array.discard()
        self._arrays.clear()
        self._whole.clear()
        self._bytes = 0

    def commit(self) -> dict[str, str]:
        """Fsync all arrays and make them blobs. Returns their SHA-256 by array name."""
        grown = {name: array.commit() for name, array in self._arrays.items()}
        return grown | {name: self._blobs.put_array(array) for name, array in self._whole.items()}

    def __enter__(self) -> "BlobSink":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()
