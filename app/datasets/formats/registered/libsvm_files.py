"""libsvm (svmlight) text."""

from app.datasets.formats.file_format import FileFormat, Reader
from app.web import media_types


def _load() -> Reader:
    from app.datasets.formats import libsvm

    libsvm.warm()
    return libsvm.read_libsvm


LIBSVM = FileFormat(
    name="libsvm",
    media_type=media_types.LIBSVM,
    suffixes=(".libsvm", ".svmlight", ".svm"),
    load=_load,
    options=("index_base", "n_features"),
)
