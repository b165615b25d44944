"""Checks a dataset for properties that make training fail, slow or misleading, and reports each with its place and
remedy.

It reads the stored statistics and makes two passes over the mapped rows, in a child process with limits. The checks are
exact, with one exception: in very large files, duplicates are searched only among a part of the distinct rows.
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
"""Ratio of the largest to the smallest range (maximum - minimum) of the columns from which different scales are
reported. Larger: fewer reports. Set by hand; no measurement is recorded."""
SEVERITIES = ("error", "warning", "info")

REMEDIES = {  # severity and remedy of each warning of the readers
    "header_guessed": ("info", "Set header=true or header=false."),
    "index_base_guessed": ("warning", "Set index_base=0 or index_base=1."),
    "unsorted_rows": ("info", "No action is needed: the rows were sorted."),
    "mixed_labels": ("warning", "Write every label in the same way."),
    "marked_missing": ("info", "No action is needed if these cells are missing values."),
    "mixed_column": ("warning", "Correct the column; if the words mean missing values, list them in `missing`."),
    "stray_cells": ("warning", "Correct the cells, list them in `missing`, or set columns=<name>:categorical."),
    "number_format_guessed": ("warning", "Set decimal or thousands."),
    "date_order_guessed": ("warning", "Set date_order=dmy or date_order=mdy."),
    "date_orders_mixed": ("warning", "Write all dates of a column in one order, such as 2024-05-31."),
    "mixed_units": ("warning", "Convert the numbers to one unit, or set columns=<name>:numeric."),
    "codes_kept": ("info", "No action is needed if the column has codes. Otherwise set columns=<name>:numeric."),
    "numbers_as_strings": ("warning", "If these are quantities, set columns=<name>:numeric."),
    "encoding_guessed": ("info", "Set encoding if names or words are wrong."),
    "delimiter_guessed": ("info", "Set delimiter if columns are wrong."),
    "rows_dropped": ("info", "No action is needed: on_missing_target=drop left these rows out."),
    "labels_like_missing": ("warning", "If these labels mean no value, list them in `missing`."),
    "index_left_out": ("info", "To keep the column, set columns=<name>:feature."),
    "identifier_left_out": ("info", "To keep a column, set columns=<name>:feature."),
    "identifier_like": ("warning", "Leave the column out (`ignore`): no other row has the same value."),
}


def examine(files: ArrayFiles, facts: Facts, statistics_sha256: str) -> list[Finding]:
    """Return all issues, the worst first."""
    figures = BlobStore(files.blob_root, create=False).map_array(statistics_sha256)
    findings = [*_class_findings(facts), *_column_findings(figures, facts, files.n_features)]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        findings += find_leaks(files, facts, figures)
    findings += [*find_duplicates(files, facts), *_group_findings(files), *_reader_findings(facts)]
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding["severity"]))


def _class_findings(facts: Facts) -> Iterator[Finding]:
    if len(facts.classes) == 1:
        detail = "Every row has the same label; a classifier needs at least two labels."
        yield finding("error", "one_class", detail, "Add rows of another class, or choose another target column.")
    tiny = [one for one in facts.classes if one["count"] < TINY_CLASS]
    if len(facts.classes) > 1 and tiny:
        names = ", ".join(repr(one["label"]) for one in tiny[:LISTED])
        detail = f"{len(tiny)} of {len(facts.classes)} classes have fewer than {TINY_CLASS} rows: {names}."
        remedy = "Add rows of these classes, merge them with others, or remove them: they cannot be learnt or tested."
        yield finding("warning", "tiny_class", detail, remedy, count=sum(one["count"] for one in tiny))


def _column_findings(figures: Array, facts: Facts, n_features: int) -> Iterator[Finding]:
    """Check the statistics of the columns. A column without statistics is zero in every row."""
    columns = np.asarray(figures["column"])
    of_kind = partial(facts.of_kind, columns)
    gone = columns[2 * figures["missing"] > figures["missing"] + figures["count"]]
    if len(gone):
        detail = f"Values are missing in more than half of the rows in {len(gone)} column(s)."
        remedy = "Find out why. If the other values do not help either, leave the columns out (`ignore`)."
        yield finding("warning", "missing_values", detail, remedy, **columns_of(gone, facts))
    # not text columns, because texts of equal length can differ; not columns with missing values, because a missing
    # value is information
    same = (figures["min"] == figures["max"]) & (figures["missing"] == 0)
    constant = columns[same & of_kind("numeric", "boolean", "date", "categorical")]
    if count := len(constant) + n_features - len(columns):
        zeros = np.setdiff1d(np.arange(min(n_features, len(columns) + LISTED)), columns)[:LISTED]
        detail = f"{count} column(s) have the same value in every row."
        remedy = "Leave them out (`ignore`): they carry no information."
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
        remedy = "Scale the columns (`preprocess`): otherwise training is slow, and C affects the columns differently."
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
        detail = f"{count} of {len(sizes)} groups have one row, which cannot be compared with others."
        remedy = "Remove these rows, or check that `group` is the right column."
        yield finding("warning", "tiny_groups", detail, remedy, count=count, rows=rows)


def _reader_findings(facts: Facts) -> Iterator[Finding]:
    """Report the warnings of the reader that no other check reports."""
    for warning in facts.warnings:
        if warning["code"] not in ("one_class", "target_guessed"):
            severity, remedy = REMEDIES.get(warning["code"], ("warning", "Check that the file was read as intended."))
            places = {}
            if warning.get("count"):
                names = [facts.name(number) for number in warning["features"][:LISTED]]
                places = {"count": warning["count"], "columns": names}
            yield finding(severity, warning["code"], warning["detail"], remedy, **places)
