"""The data doctor: what about a dataset makes training fail, mislead or crawl, with places and remedies.

It judges by the stored statistics and by two passes over the mapped rows, in a bounded child. Every
finding is certain, except conflicting duplicates of very large files, which are looked for among a part
of the distinct rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from app.datasets.blocks import (
    BLOCK_ENTRIES,
    Array,
    ArrayFiles,
    DenseBlock,
    Floats,
    Integers,
    SparseBlock,
    dense_blocks,
    sparse_blocks,
)
from app.storage import BlobStore

LISTED = 20
TINY_CLASS = 5
WIDEST_TO_NARROWEST = 1000.0
LEAKING_CORRELATION = 0.9999
HASHED_ROWS = 1 << 24
SEVERITIES = ("error", "warning", "info")

REMEDIES = {  # of what the readers warn about: how bad it is, and what to do
    "header_guessed": ("info", "Say header=true or header=false."),
    "index_base_guessed": ("warning", "Say index_base=0 or index_base=1."),
    "unsorted_rows": ("info", "Nothing has to be done: the rows were sorted."),
    "mixed_labels": ("warning", "Write every label in the same way."),
}

Finding = dict[str, Any]


@dataclass(frozen=True)
class Facts:
    """What the row of a dataset knows; plain data that travels to a child."""

    classes: list[dict[str, Any]]
    feature_names: list[str] | None
    warnings: list[dict[str, str]]
    labels_are_text: bool

    def name(self, column: int) -> str:
        return self.feature_names[column] if self.feature_names else str(column)


def examine(files: ArrayFiles, facts: Facts, statistics_sha256: str) -> list[Finding]:
    """Everything that is found, worst first."""
    figures = BlobStore(files.blob_root).map_array(statistics_sha256)
    findings = [*_class_findings(facts), *_column_findings(figures, facts)]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        findings += _leaks(files, facts, figures)
    findings += [*_duplicates(files, facts), *_group_findings(files), *_reader_findings(facts)]
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding["severity"]))


def _finding(severity: str, code: str, detail: str, remedy: str, **places: Any) -> Finding:
    return {"severity": severity, "code": code, "detail": detail, "remedy": remedy, **places}


def _class_findings(facts: Facts) -> Iterator[Finding]:
    if len(facts.classes) == 1:
        detail = "Every row has the same label; no classifier can be trained."
        yield _finding("error", "one_class", detail, "Add rows of another class, or name another target column.")
    tiny = [one for one in facts.classes if one["count"] < TINY_CLASS]
    if len(facts.classes) > 1 and tiny:
        names = ", ".join(repr(one["label"]) for one in tiny[:LISTED])
        detail = f"{len(tiny)} of {len(facts.classes)} classes have fewer than {TINY_CLASS} rows: {names}."
        remedy = "Add rows of them, merge them with others, or leave them out: they can be neither learnt nor tested."
        yield _finding("warning", "tiny_class", detail, remedy, count=sum(one["count"] for one in tiny))


def _column_findings(figures: Array, facts: Facts) -> Iterator[Finding]:
    constant = np.flatnonzero(figures["min"] == figures["max"])
    if len(constant):
        detail = f"{len(constant)} column(s) have the same value in every row."
        remedy = "Leave them out (`ignore`): they tell nothing apart."
        yield _finding("warning", "constant_columns", detail, remedy, **_columns(constant, facts))
    widths = figures["max"] - figures["min"]
    varying = np.flatnonzero(widths > 0)
    if len(varying) < 2:
        return
    order = varying[np.argsort(widths[varying], kind="stable")]
    narrowest, widest = int(order[0]), int(order[-1])
    ratio = widths[widest] / widths[narrowest]
    if ratio >= WIDEST_TO_NARROWEST:
        detail = (
            f"Column {facts.name(widest)!r} spans {widths[widest]:.3g}, column {facts.name(narrowest)!r} "
            f"{widths[narrowest]:.3g}: {ratio:.2g} times less."
        )
        remedy = "Bring the columns to a common scale: otherwise training is slow and C means something else in each."
        ends = np.array([widest, narrowest])
        yield _finding("warning", "scale_disparity", detail, remedy, **_columns(ends, facts))


def _columns(numbers: Sequence[int] | Integers, facts: Facts) -> dict[str, Any]:
    return {"count": len(numbers), "columns": [facts.name(int(number)) for number in numbers[:LISTED]]}


class _Labels:
    """The labels of a dataset, of which only a block at a time is in memory."""

    def __init__(self, y: Array, classes: int) -> None:
        self._y = y
        self._top = y.max()
        self.binary = classes == 2
        sums, upper = 0.0, 0
        for block in self._blocks():
            sums += float(block.sum())
            upper += int(np.count_nonzero(block == self._top))
        self._mean = sums / len(y)
        self.std = float(np.sqrt(sum(np.square(block - self._mean).sum() for block in self._blocks()) / len(y)))
        self.counts = np.array([len(y) - upper, upper] if self.binary else [len(y), 0])

    def of(self, rows: slice) -> tuple[Integers, Floats]:
        """For each row its class, 0 or 1 (0, if there are not two), and its label minus the mean."""
        block = np.asarray(self._y[rows], dtype=np.float64)
        codes = (block == self._top) if self.binary else np.zeros(len(block))
        return codes.astype(np.int64), block - self._mean

    def _blocks(self) -> Iterator[Floats]:
        for first in range(0, len(self._y), BLOCK_ENTRIES):
            yield np.asarray(self._y[first : first + BLOCK_ENTRIES], dtype=np.float64)


def _leaks(files: ArrayFiles, facts: Facts, figures: Array) -> Iterator[Finding]:
    """Columns that alone give the label away: too good to be known before the label is."""
    y = files.map("y")
    assert y is not None
    labels = _Labels(y, len(facts.classes))
    covariances = np.zeros(files.n_features)
    low, high = np.full((2, files.n_features), np.inf), np.full((2, files.n_features), -np.inf)
    if files.sparse:
        stored = np.zeros((2, files.n_features), dtype=np.int64)
        for block in sparse_blocks(files):
            _add_sparse(block, *labels.of(block.rows), covariances, low, high, stored)
        has_zero = stored < labels.counts[:, None]
        low[has_zero], high[has_zero] = np.minimum(low[has_zero], 0), np.maximum(high[has_zero], 0)
    else:
        for dense in dense_blocks(files):
            _add_dense(dense, *labels.of(dense.rows), figures["mean"], covariances, low, high)
    leaking = np.zeros(files.n_features, dtype=bool)
    if not facts.labels_are_text:
        correlation = covariances / files.n_rows / (figures["std"] * labels.std)
        varies = figures["min"] < figures["max"]  # what rounding makes of a constant column is no correlation
        leaking |= varies & (np.abs(np.nan_to_num(correlation)) >= LEAKING_CORRELATION)
    if labels.binary and labels.counts.min() >= TINY_CLASS:
        leaking |= (high[0] < low[1]) | (high[1] < low[0])
    if leaking.any():
        found = np.flatnonzero(leaking)
        detail = f"{len(found)} column(s) alone give the label away."
        remedy = "Make sure that they are known before the label is; if not, leave them out (`ignore`)."
        yield _finding("warning", "leaking_columns", detail, remedy, **_columns(found, facts))


def _add_dense(
    block: DenseBlock, codes: Integers, centered: Floats, means: Floats, covariances: Floats, low: Floats, high: Floats
) -> None:
    covariances += centered @ (block.values - means)
    for code in (0, 1):
        values = block.values[codes == code]
        if len(values):
            np.fmin(low[code], np.fmin.reduce(values), out=low[code])
            np.fmax(high[code], np.fmax.reduce(values), out=high[code])


def _add_sparse(
    block: SparseBlock,
    codes: Integers,
    centered: Floats,
    covariances: Floats,
    low: Floats,
    high: Floats,
    stored: Integers,
) -> None:
    width = low.shape[1]
    # the centred labels sum to zero, so a column's mean would take nothing away
    covariances += np.bincount(block.columns, block.values * centered[block.row_numbers], minlength=width)
    places = block.columns + width * codes[block.row_numbers]
    np.fmin.at(low.reshape(-1), places, block.values)
    np.fmax.at(high.reshape(-1), places, block.values)
    stored += np.bincount(places, minlength=2 * width).reshape(2, width)


def _duplicates(files: ArrayFiles, facts: Facts) -> Iterator[Finding]:
    """Rows with the same features, and those of them whose labels differ."""
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
            detail = f"{len(concerned)} rows have the features of another row, but not its label{looked}."
            remedy = (
                "Correct the labels, or add a feature that tells these rows apart: no model gets all of them right."
            )
            places = {"count": len(concerned), "rows": np.sort(concerned)[:LISTED].tolist()}
            yield _finding("warning", "conflicting_duplicates", detail, remedy, **places)
    first_of_group = np.zeros(len(rows), dtype=bool)
    first_of_group[starts] = True
    copies = np.sort(rows[~first_of_group])
    detail = f"{repeated} rows repeat the features of an earlier row{looked}."
    remedy = "If they are copies, leave them out, so that a copy of a training row is not used for testing."
    yield _finding("info", "duplicate_rows", detail, remedy, count=repeated, rows=copies[:LISTED].tolist())


def _kept_hashes(files: ArrayFiles) -> tuple[npt.NDArray[np.uint64], Integers, int]:
    """Hashes of rows with their numbers. Of large files only those below a bound: equal rows stay together."""
    share = 1 << max(0, (files.n_rows - 1).bit_length() - HASHED_ROWS.bit_length() + 1)
    kept_hashes, kept_rows = [], []
    for hashes, rows in _row_hashes(files):
        kept = hashes <= np.uint64(2**64 // share - 1)
        kept_hashes.append(hashes[kept])
        kept_rows.append(np.arange(rows.start, rows.stop)[kept])
    return np.concatenate(kept_hashes), np.concatenate(kept_rows), share


def _row_hashes(files: ArrayFiles) -> Iterator[tuple[npt.NDArray[np.uint64], slice]]:
    """64 bits a row: a sum over its non-zero entries, so that dense and sparse rows are hashed alike."""
    if files.sparse:
        for block in sparse_blocks(files):
            terms = _mix(block.values.view(np.uint64) + _mix(block.columns.astype(np.uint64)))
            sums = np.zeros(block.rows.stop - block.rows.start, dtype=np.uint64)
            np.add.at(sums, block.row_numbers, terms)
            yield _mix(sums), block.rows
        return
    columns = _mix(np.arange(files.n_features, dtype=np.uint64))
    for dense in dense_blocks(files):
        terms = _mix(dense.values.view(np.uint64) + columns)
        terms[dense.values == 0] = 0  # both zeros
        yield _mix(terms.sum(axis=1, dtype=np.uint64)), dense.rows


def _mix(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finalizer of SplitMix64: every bit of the input changes half of the output's."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _group_findings(files: ArrayFiles) -> Iterator[Finding]:
    group = files.map("group")
    if group is None:
        return
    sizes = np.bincount(group)
    count = int(np.count_nonzero(sizes == 1))
    rows: list[int] = []
    for first in range(0, len(group), BLOCK_ENTRIES):
        if len(rows) == min(count, LISTED):
            break
        alone = np.flatnonzero(sizes[group[first : first + BLOCK_ENTRIES]] == 1) + first
        rows += alone[: LISTED - len(rows)].tolist()
    if count:
        detail = f"{count} of {len(sizes)} groups have one row only: there is nothing to compare it with."
        remedy = "Leave these rows out, or check that `group` names the right column."
        yield _finding("warning", "tiny_groups", detail, remedy, count=count, rows=rows)


def _reader_findings(facts: Facts) -> Iterator[Finding]:
    """What the reader decided or noticed, where it is not found above."""
    for warning in facts.warnings:
        if warning["code"] != "one_class":
            severity, remedy = REMEDIES.get(warning["code"], ("warning", "Check that this is what the file means."))
            yield _finding(severity, warning["code"], warning["detail"], remedy)
