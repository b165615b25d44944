"""What a file's name tells about its content, and every name that is known leads to a format."""

import pytest

from app.datasets.formats import ENCODINGS, MEDIA_TYPES
from app.web.media_types import ENCODING_SUFFIXES, SUFFIXES, guess_type


@pytest.mark.parametrize(
    ("name", "guess"),
    [
        ("a.csv", ("text/csv", "identity")),
        ("a.b.CSV.GZ", ("text/csv", "gzip")),
        ("rows.libsvm.zst", ("text/x-libsvm", "zstd")),
        ("x.jsonl", ("application/x-ndjson", "identity")),
        ("csv", (None, "identity")),
        ("a.gz", (None, "gzip")),
        ("a.gz.csv", ("text/csv", "identity")),
        ("", (None, "identity")),
    ],
)
def test_the_last_suffixes_tell(name: str, guess: tuple[str | None, str]) -> None:
    assert guess_type(name) == guess


def test_every_suffix_is_of_a_format_and_every_format_has_a_suffix() -> None:
    assert set(SUFFIXES.values()) == set(MEDIA_TYPES)
    assert {"identity", *ENCODING_SUFFIXES.values()} == set(ENCODINGS)
