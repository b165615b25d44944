"""Finds rows with equal features by 64-bit hashes. In very large files it checks only a part of the distinct rows."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from app.datasets.inspection.findings import LISTED, Facts, Finding, finding
from app.datasets.inspection.stored_blocks import ArrayFiles, Integers, dense_blocks, sparse_blocks
from app.tabular.frame import Strings

HASHED_ROWS = 1 << 24
"""Maximum number of rows whose hashes are compared; in larger files only a part of the rows is checked. Larger: more
memory, 16 bytes per row. Set by hand; no measurement is recorded."""


def find_duplicates(files: ArrayFiles, facts: Facts) -> Iterator[Finding]:
    """Report rows with equal features, and rows with equal features but different labels."""
    hashes, rows, share = _kept_hashes(files)
    order = np.argsort(hashes, kind="stable")
    hashes, rows = hashes[order], rows[order]
    starts = np.flatnonzero(np.concatenate([[True], hashes[1:] != hashes[:-1]]))
    sizes = np.diff(np.append(starts, len(hashes)))
    repeated = int((sizes - 1).sum())
    if not repeated:
        return
    looked = "" if share == 1 else f" (among one in {share} of the distinct rows)"
    if facts.classes:
        y = files.map("y")
        assert y is not None
        labels = np.asarray(y[rows])
        differs = np.minimum.reduceat(labels, starts) != np.maximum.reduceat(labels, starts)
        concerned = rows[np.repeat(differs, sizes)]
        if len(concerned):
            detail = f"{len(concerned)} rows have the same features as another row, but another label{looked}."
            remedy = (
                "Correct the labels, or add a feature that distinguishes these rows: no model can predict all of them."
            )
            places = {"count": len(concerned), "rows": np.sort(concerned)[:LISTED].tolist()}
            yield finding("warning", "conflicting_duplicates", detail, remedy, **places)
    first_of_group = np.zeros(len(rows), dtype=bool)
    first_of_group[starts] = True
    copies = np.sort(rows[~first_of_group])
    detail = f"{repeated} rows have the same features as an earlier row{looked}."
    remedy = "If they are copies, remove them, so that no copy of a training row is used for testing."
    yield finding("info", "duplicate_rows", detail, remedy, count=repeated, rows=copies[:LISTED].tolist())


def _kept_hashes(files: ArrayFiles) -> tuple[npt.NDArray[np.uint64], Integers, int]:
    """Return the hashes and numbers of rows, and the share 1/n of the distinct rows that they cover. Large files keep
    only hashes below a bound, so equal rows are kept or dropped together."""
    share = 1 << max(0, (files.n_rows - 1).bit_length() - HASHED_ROWS.bit_length() + 1)
    kept_hashes, kept_rows = [], []
    for hashes, rows in _row_hashes(files):
        kept = hashes <= np.uint64(2**64 // share - 1)
        kept_hashes.append(hashes[kept])
        kept_rows.append(np.arange(rows.start, rows.stop)[kept])
    return np.concatenate(kept_hashes), np.concatenate(kept_rows), share


def _row_hashes(files: ArrayFiles) -> Iterator[tuple[npt.NDArray[np.uint64], slice]]:
    """Hash rows to 64 bits. A hash is a sum over nonzero entries, so equal dense and sparse rows have equal hashes."""
    if files.sparse:
        for block in sparse_blocks(files):
            terms = _mix(block.values.view(np.uint64) + _mix(block.columns.astype(np.uint64)))
            sums = np.zeros(block.rows.stop - block.rows.start, dtype=np.uint64)
            np.add.at(sums, block.row_numbers, terms)
            yield _mix(sums), block.rows
        return
    columns = _mix(np.arange(files.n_features, dtype=np.uint64))
    texts = {j: strings for j in range(files.n_features) if (strings := files.strings(f"text.{j}"))}
    for dense in dense_blocks(files):
        values = np.where(np.isnan(dense.values), np.nan, dense.values)  # all NaNs get the same bits
        terms = _mix(values.view(np.uint64) + columns)
        terms[values == 0] = 0  # -0 and 0 must have the same hash
        for j, strings in texts.items():
            terms[:, j] += _mix(_text_hashes(strings, dense.rows))
        yield _mix(terms.sum(axis=1, dtype=np.uint64)), dense.rows


def _text_hashes(strings: Strings, rows: slice) -> npt.NDArray[np.uint64]:
    """Hash texts with Python's hash. It differs between processes, but only this process compares the hashes."""
    places = zip(strings.starts[rows].tolist(), strings.ends[rows].tolist(), strict=True)
    hashes = [hash(strings.bytes[start:end].tobytes()) for start, end in places]
    return np.array(hashes, dtype=np.int64).view(np.uint64)


def _mix(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Mix bits with the finalizer of SplitMix64, in which every input bit changes about half of the output bits."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
