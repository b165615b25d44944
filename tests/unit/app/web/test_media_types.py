"""What a file's name tells about its content, and every name that is known leads to a format."""

import pytest
from hyperplane._shared import media_types as of_the_client

from app.datasets.formats import ENCODINGS, file_formats
from app.datasets.reading.receive import SUFFIXES
from app.web.media_types import ENCODING_SUFFIXES, guess_type


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
    assert guess_type(name, SUFFIXES) == guess


def test_every_suffix_that_the_client_knows_is_declared_by_a_format() -> None:
    formats = file_formats().values()
    assert {(suffix, one.media_type) for one in formats for suffix in one.suffixes} >= set(
        of_the_client.SUFFIXES.items()
    )
    assert all(one.suffixes for one in formats)
    assert of_the_client.ENCODINGS == ENCODING_SUFFIXES
    assert {"identity", *ENCODING_SUFFIXES.values()} == set(ENCODINGS)
