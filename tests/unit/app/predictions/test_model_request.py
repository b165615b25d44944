"""Which bodies are answered on the event loop: those that cannot hold it."""

import pytest

from app.predictions.model_request import INLINE_BINARY_BYTES, INLINE_BYTES, INLINE_ROWS, is_inline
from app.web.media_types import ARROW, CSV, JSON, LIBSVM, NDJSON, NPY, NPZ


@pytest.mark.parametrize("content_type", [JSON, NDJSON, CSV, LIBSVM, "text/csv; header=present", NPY, None])
def test_short_bodies_need_no_thread(content_type: str | None) -> None:
    assert is_inline(INLINE_BYTES, 4, content_type, None)


@pytest.mark.parametrize("content_type", [ARROW, NPZ, f"{ARROW}; x=y"])
def test_what_may_expand_needs_one_whatever_its_size(content_type: str) -> None:
    assert not is_inline(1, 4, content_type, None)


def test_raw_numbers_may_be_longer_if_they_are_few_rows() -> None:
    wide = INLINE_BINARY_BYTES // INLINE_ROWS
    assert is_inline(INLINE_BINARY_BYTES, wide, NPY, None)
    assert not is_inline(INLINE_BINARY_BYTES + 1, wide, NPY, None)
    assert not is_inline(INLINE_BINARY_BYTES, wide - 1, NPY, None)
    assert not is_inline(INLINE_BYTES + 1, wide, JSON, None)


def test_tensors_may_be_raw_behind_a_short_text_only() -> None:
    assert is_inline(INLINE_BINARY_BYTES, 1000, "application/octet-stream", "200")
    for header_length in (str(INLINE_BYTES + 1), "9" * 400, "-1", "x"):
        assert not is_inline(INLINE_BINARY_BYTES, 1000, "application/octet-stream", header_length)
