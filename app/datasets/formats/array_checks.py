"""Checks the rows of npz, Parquet and Arrow files, and collects their errors by row and column."""

import numpy as np
import numpy.typing as npt

from app.datasets.formats.table import COUNTED_ERRORS, ErrorLog, excerpt
from app.tabular.types import Array

__all__ = ["BlockFaults", "all_finite", "name_column", "rows_a_block"]

BLOCK_BYTES = 8 << 20
"""Target size of a block of rows, in bytes. Larger: fewer blocks, more memory. Set by hand; no measurement is
recorded."""


def all_finite(values: Array) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum()
    return bool(np.isfinite(total)) or bool(np.isfinite(values).all())  # a sum of finite numbers can overflow


def rows_a_block(row_bytes: int) -> int:
    return max(1, BLOCK_BYTES // max(1, row_bytes))


def name_column(j: int, name: str) -> str:
    return f"Column {j + 1} ({excerpt(name)})"


class BlockFaults:
    """Collects the errors of a block in any order, and adds them to an `ErrorLog` in row order."""

    def __init__(self) -> None:
        self._found: list[tuple[int, int, str, str]] = []

    def add(self, row: int, column: int, code: str, detail: str) -> None:
        """Add an error. `row` counts from 0 within the block, `column` from 1."""
        self._found.append((int(row), int(column), code, detail))

    def add_rows(self, wrong: npt.NDArray[np.bool_], column: int, code: str, detail: str) -> None:
        """Add the same error for every marked row."""
        for row in np.flatnonzero(wrong)[:COUNTED_ERRORS]:
            self.add(row, column, code, detail)

    def check_numbers(self, values: Array, column: int, name: str, ignore: Array | None = None) -> None:
        """Add an error for every number that is not finite, except where `ignore` is true."""
        if values.dtype.kind != "f":
            return
        wrong = ~np.isfinite(values) if ignore is None else ~(np.isfinite(values) | ignore)
        for row in np.flatnonzero(wrong)[:COUNTED_ERRORS]:
            self.add(row, column, "not_finite", f"{name} has {values[row]}; only finite numbers are accepted.")

    def check_weights(self, values: Array, column: int, name: str) -> None:
        detail = "weights must not be negative"
        for row in np.flatnonzero(values < 0)[:COUNTED_ERRORS]:
            self.add(row, column, "negative_weight", f"{name} has {values[row]}; {detail}.")

    def log(self, log: ErrorLog, rows_before: int) -> None:
        for row, column, code, detail in sorted(self._found):
            if log.full:
                break
            log.add(rows_before + row + 1, column, code, detail)
