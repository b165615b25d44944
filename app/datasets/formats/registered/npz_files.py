"""npz archives of NumPy arrays."""

from app.datasets.formats.file_format import FileFormat, Reader
from app.web import media_types


def _load() -> Reader:
    from app.datasets.formats.npz import read_npz

    return read_npz


NPZ = FileFormat(
    name="npz",
    media_type=media_types.NPZ,
    suffixes=(".npz",),
    load=_load,
    options=("ignore",),
)
