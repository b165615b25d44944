"""Learns from many short texts, in a child process whose memory is measured separately."""

from pathlib import Path

import numpy as np

from app.preprocess import text_counts
from app.preprocess.fit import fit, transform
from app.preprocess.spec import Preprocess
from app.tabular.frame import Column, Frame, Strings

WORDS_A_TEXT, LETTERS, WORDS = 8, 6, 50_000
BLOCK = 4096


def memory_of_texts(n_rows: int) -> tuple[int, int]:
    """(by how much the peak of memory grew over texts and features, bytes of the features)"""
    text_counts.warm()
    frame = _frame(n_rows)
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far was the compiler's
    before = _peak_bytes()
    pipeline = fit(Preprocess.model_validate({"text": {"min_df": 2}}), frame).pipeline
    features = transform(pipeline, frame)
    kept = int(features.data.nbytes + features.indices.nbytes + features.indptr.nbytes)
    return _peak_bytes() - before, kept


def _frame(n_rows: int) -> Frame:
    """Words of one length, so that the texts are cut out of one array."""
    random = np.random.default_rng(0)
    letters = random.integers(ord("a"), ord("z") + 1, (WORDS, LETTERS + 1), dtype=np.uint8)
    letters[:, -1] = ord(" ")
    text = np.empty((n_rows, WORDS_A_TEXT * (LETTERS + 1)), dtype=np.uint8)
    for first in range(0, n_rows, BLOCK):  # a block at a time: making the texts must not be what takes most memory
        size = min(BLOCK, n_rows - first)
        chosen = (WORDS * random.random((size, WORDS_A_TEXT)) ** 3).astype(np.int64)
        text[first : first + size] = letters[chosen].reshape(size, -1)
    offsets = np.arange(n_rows + 1) * WORDS_A_TEXT * (LETTERS + 1)
    lengths = np.full((n_rows, 1), float(offsets[1]))
    return Frame(lengths, [Column("text", "text")], {0: Strings.stored(text.reshape(-1), offsets)})


def _peak_bytes() -> int:
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM:"))
