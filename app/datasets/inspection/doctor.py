"""The data doctor: what about a dataset makes training fail, mislead or crawl, with places and remedies.

It judges by the stored statistics and by two passes over the mapped rows, in a bounded child. Every
finding is certain, except conflicting duplicates of very large files, which are looked for among a part
of the distinct rows.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from app.datasets.inspection.duplicates import find_duplicates
from app.datasets.inspection.findings import LISTED, TINY_CLASS, Facts, Finding, columns_of, finding
from app.datasets.inspection.leaks import find_leaks
from app.datasets.inspection.stored_blocks import BLOCK_ENTRIES, ArrayFiles
from app.storage import BlobStore
from app.tabular.types import Array

WIDEST_TO_NARROWEST = 1000.0
SEVERITIES = ("error", "warning", "info")

REMEDIES = {  # of what the readers warn about: how bad it is, and what to do
    "header_guessed": ("info", "Say header=true or header=false."),
    "index_base_guessed": ("warning", "Say index_base=0 or index_base=1."),
    "unsorted_rows": ("info", "Nothing has to be done: the rows were sorted."),
    "mixed_labels": ("warning", "Write every label in the same way."),
    "marked_missing": ("info", "Nothing has to be done, if these cells have no value."),
    "mixed_column": ("warning", "Correct the column; if the words mean no value, name them in `missing`."),
    "identifier_like": ("warning", "Leave it out (`ignore`): no other row has the same value."),
}


def examine(files: ArrayFiles, facts: Facts, statistics_sha256: str) -> list[Finding]:
    """Everything that is found, worst first."""
    figures = BlobStore(files.blob_root, create=False).map_array(statistics_sha256)
    findings = [*_class_findings(facts), *_column_findings(figures, facts, files.n_features)]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        findings += find_leaks(files, facts, figures)
    findings += [*find_duplicates(files, facts), *_group_findings(files), *_reader_findings(facts)]
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding["severity"]))


def _class_findings(facts: Facts) -> Iterator[Finding]:
    if len(facts.classes) == 1:
        detail = "Every row has the same label; no classifier can be trained."
        yield finding("error", "one_class", detail, "Add rows of another class, or name another target column.")
    tiny = [one for one in facts.classes if one["count"] < TINY_CLASS]
    if len(facts.classes) > 1 and tiny:
        names = ", ".join(repr(one["label"]) for one in tiny[:LISTED])
        detail = f"{len(tiny)} of {len(facts.classes)} classes have fewer than {TINY_CLASS} rows: {names}."
        remedy = "Add rows of them, merge them with others, or leave them out: they can be neither learnt nor tested."
        yield finding("warning", "tiny_class", detail, remedy, count=sum(one["count"] for one in tiny))


def _column_findings(figures: Array, facts: Facts, n_features: int) -> Iterator[Finding]:
    """From the figures of the columns; one that has none is zero in every row."""
    columns = np.asarray(figures["column"])
    of_kind = partial(facts.of_kind, columns)
    gone = columns[2 * figures["missing"] > figures["missing"] + figures["count"]]
    if len(gone):
        detail = f"{len(gone)} column(s) have no value in more than half of the rows."
        remedy = "Find out why; leave them out (`ignore`) if what is left says nothing."
        yield finding("warning", "missing_values", detail, remedy, **columns_of(gone, facts))
    # texts of the same length may differ; a value that is sometimes missing tells rows apart
    same = (figures["min"] == figures["max"]) & (figures["missing"] == 0)
    constant = columns[same & of_kind("numeric", "boolean", "date", "categorical")]
    if count := len(constant) + n_features - len(columns):
        zeros = np.setdiff1d(np.arange(min(n_features, len(columns) + LISTED)), columns)[:LISTED]
        detail = f"{count} column(s) have the same value in every row."
        remedy = "Leave them out (`ignore`): they tell nothing apart."
        first = np.sort(np.concatenate([constant, zeros]))
        yield finding("warning", "constant_columns", detail, remedy, **columns_of(first, facts, count))
    widths = figures["max"] - figures["min"]
    varying = np.flatnonzero((widths > 0) & of_kind("numeric", "boolean"))
    if len(varying) < 2:
        return
    order = varying[np.argsort(widths[varying], kind="stable")]
    low, high = float(widths[order[0]]), float(widths[order[-1]])
    narrowest, widest = int(columns[order[0]]), int(columns[order[-1]])
    ratio = high / low
    if ratio >= WIDEST_TO_NARROWEST:
        detail = (
            f"Column {facts.name(widest)!r} spans {high:.3g}, column {facts.name(narrowest)!r} "
            f"{low:.3g}: {ratio:.2g} times less."
        )
        remedy = "Bring the columns to a common scale: otherwise training is slow and C means something else in each."
        ends = np.array([widest, narrowest])
        yield finding("warning", "scale_disparity", detail, remedy, **columns_of(ends, facts))


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
        yield finding("warning", "tiny_groups", detail, remedy, count=count, rows=rows)


def _reader_findings(facts: Facts) -> Iterator[Finding]:
    """What the reader decided or noticed, where it is not found above."""
    for warning in facts.warnings:
        if warning["code"] != "one_class":
            severity, remedy = REMEDIES.get(warning["code"], ("warning", "Check that this is what the file means."))
            places = {}
            if warning.get("count"):
                names = [facts.name(number) for number in warning["features"][:LISTED]]
                places = {"count": warning["count"], "columns": names}
            yield finding(severity, warning["code"], warning["detail"], remedy, **places)
