"""Slow references of text formats, written from their rules alone: what a CSV text means, or where it is wrong."""

import math
import re
from dataclasses import dataclass, field
from typing import Any

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")

MARKS = {"na", "n/a", "#n/a", "nan", "null", "none", "?", "-"}
Cell = tuple[int, str]


@dataclass
class Expected:
    """What the reference makes of a text: rows of (label, cells), or the place of the first fault."""

    rows: list[tuple[str, dict[int, Any]]] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    fault: tuple[int | None, int | None] | None = None


class BadText(Exception):
    pass


def reference_records(text: str) -> list[tuple[list[Cell], int]]:
    """The records that are not blank, each as its cells (line, content) and the line behind it."""
    records: list[tuple[list[Cell], int]] = []
    cells: list[Cell] = []
    line = cell_line = 1
    content = ""
    state = "start"
    opened = closed = (0, 0)
    k = 0
    while k <= len(text):
        c = text[k] if k < len(text) else ""
        if c == "\0":
            raise BadText((line, len(cells) + 1))
        if state == "quoted":
            if c == "":
                raise BadText(opened)
            if c == '"':
                state, closed = "closed", (line, len(cells) + 1)
            else:
                content += c
        elif c == '"' and state in ("start", "closed"):
            if state == "start":
                opened = line, len(cells) + 1
            else:
                content += c
            state = "quoted"
        elif c == '"':
            raise BadText((line, len(cells) + 1))
        elif c in (",", "\n", "\r", ""):
            is_blank = not cells and state == "start" and c != ","
            cells.append((cell_line, content))
            content = ""
            state = "start"
            if c == "\r" and text[k + 1 : k + 2] == "\n":
                k += 1
            if c != ",":
                if not is_blank:
                    records.append((cells, line + 1))
                cells = []
        elif state == "closed":
            raise BadText(closed)
        else:
            state = "plain"
            content += c
        if c == "\n" or (c == "\r" and not (state == "quoted" and text[k + 1 : k + 2] == "\n")):
            line += 1
        if state == "start":
            cell_line = line
        k += 1
    return records


def number(cell: str) -> float:
    """NaN for all that is not a finite number."""
    bare = cell.strip(" \t")
    return float(bare) if NUMBER.fullmatch(bare) and math.isfinite(float(bare)) else math.nan


def spells_number(cell: str) -> bool:
    bare = cell.strip(" \t")
    return bool(NUMBER.fullmatch(bare) or re.fullmatch(r"[+-]?(nan|inf|infinity)", bare, re.IGNORECASE))


def is_float(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def reference_csv(text: str) -> Expected:
    try:
        records = reference_records(text)
    except BadText as error:
        return Expected(fault=error.args[0])
    if not records:
        return Expected(fault=(None, None))
    first, behind = records[0]
    width = len(first)
    names: list[str] = []
    if width < 2:
        return Expected(fault=(first[0][0], 1))
    if not any(is_float(cell) for _, cell in first):
        names = [cell for _, cell in first]
        for unwanted in (lambda j: names[j] and names[j] in names[:j], lambda j: not names[j] and 0 < j < width - 1):
            for j in range(width):
                if unwanted(j):
                    return Expected(fault=(first[0][0], j + 1))
        records = records[1:]
        if not records:
            return Expected(fault=(behind, None))
    whole = [cells for cells, _ in records if len(cells) == width]
    columns = [[cells[j] for cells in whole] for j in range(width - 1)]
    plain = [j for j, column in enumerate(columns) if not words_of(column)]
    labels = [cells[-1] for cells in whole]
    # The first kind of fault that there is hides the others: what is wrong whatever columns hold, labels, stray words.
    faults = [(cells[0][0], min(len(cells), width) + 1) for cells, _ in records if len(cells) != width]
    faults += [(line, width) for line, label in labels if not label.strip(" \t")]
    faults += [(line, j + 1) for j in plain for line, cell in columns[j] if is_not_finite(cell)]
    if not faults and all(spells_number(label) for _, label in labels):
        faults = [(line, width) for line, label in labels if math.isnan(number(label))]
    understood = [understand(column) for column in columns]
    if not faults:
        faults = [(line, j + 1) for j, part in enumerate(understood) if isinstance(part, list) for line in part]
    is_nameless = bool(names) and not names[0]
    if is_nameless and not faults and not is_index(understood[0]):
        faults = [(first[0][0], 1)]
    elif is_nameless and not faults and width > 2:
        understood[0] = []  # left out
    expected = Expected(fault=min(faults, default=None))
    for row, cells in enumerate(whole if not faults else []):
        values = {j: part[row] for j, part in enumerate(understood) if isinstance(part, dict)}
        expected.rows.append((cells[-1][1], values))
    return expected


def is_index(values: Any) -> bool:
    """Whether the values are 0, 1, … or 1, 2, … for at least two rows."""
    numbers = list(values.values()) if isinstance(values, dict) else []
    return len(numbers) > 1 and numbers in ([float(k + first) for k in range(len(numbers))] for first in (0, 1))


def unmarked_of(column: list[Cell]) -> dict[int, str]:
    """The cells that are not blank, and not one of the well-known marks for a value that is not there."""
    bare = {row: cell.strip(" \t") for row, (_, cell) in enumerate(column)}
    return {row: column[row][1] for row, cell in bare.items() if cell and cell.lower() not in MARKS}


def words_of(column: list[Cell]) -> list[int]:
    return [row for row, cell in unmarked_of(column).items() if not spells_number(cell)]


def is_not_finite(cell: str) -> bool:
    return cell.strip(" \t").lower() not in MARKS and spells_number(cell) and math.isnan(number(cell))


def understand(column: list[Cell]) -> dict[int, Any] | list[int]:
    """The value of each row of a feature, None where there is none; or the lines of its faults."""
    cells = [cell for _, cell in column]
    present = {row: cell for row, cell in enumerate(cells) if cell.strip(" \t")}
    unmarked, words = unmarked_of(column), words_of(column)
    padded = [cell for cell in unmarked.values() if re.fullmatch("0[0-9]+", cell.strip(" \t"))]
    are_codes = bool(padded) and all(
        re.fullmatch("[0-9]+", unmarked[row].strip(" \t")) for row in unmarked if row not in words
    )
    if not words and not are_codes:
        faults = [row for row, cell in unmarked.items() if math.isnan(number(cell))]
        if faults and not padded:
            return [column[row][0] for row in faults]
        return {row: number(unmarked[row]) if row in unmarked else None for row in range(len(cells))}
    lowered = {cell.strip(" \t").lower() for cell in unmarked.values()}
    truths = {"true": 1.0, "yes": 1.0, "t": 1.0, "y": 1.0, "false": 0.0, "no": 0.0, "f": 0.0, "n": 0.0}
    if any(lowered <= set(family) for family in (("true", "false", "t", "f"), ("yes", "no", "y", "n"))):
        return {row: truths.get(cell.strip(" \t").lower()) for row, cell in enumerate(cells)}
    finite = [row for row, cell in unmarked.items() if not math.isnan(number(cell))]
    if not are_codes and len(finite) >= 0.95 * len(unmarked):
        return {row: number(unmarked[row]) if row in finite else None for row in range(len(cells))}
    return {row: present.get(row) for row in range(len(cells))}
