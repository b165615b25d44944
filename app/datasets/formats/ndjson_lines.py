"""Reads ndjson line by line with Python's json, which is slow but can name the place of every error.

The ndjson reader uses this module for pieces that pyarrow refuses. The result is a block of rows, or errors with their
places, or the types of columns that had no value before.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite, isnan, nan
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from app.datasets.formats.collect import Block
from app.datasets.formats.column_roles import Roles, assign_roles
from app.datasets.formats.guess import Conventions
from app.datasets.formats.labels import MISSING_LABEL_CURE, check_storable, encode_list
from app.datasets.formats.table import ErrorLog, ReadOptions, excerpt
from app.datasets.formats.words import encode_cells
from app.tabular.cells import is_blank, is_mark

__all__ = ["BLANK", "Layout", "Lines", "Type", "is_missing_label", "parse_line", "read_lines"]

BLANK = b" \t\r\n"
EXACT_DIGITS = 18
"""Maximum digits of an integer that always fits into 64 bits. Integers with more digits are read as floats."""

Pairs = list[tuple[str, Any]]
Type = Literal["number", "boolean", "string"]
FAULTS: dict[Type, str] = {"number": "not_a_number", "boolean": "not_a_boolean", "string": "not_a_string"}


class Layout:
    """The columns and their types. The first line determines them; a later line determines the type of a feature that
    has no value in the first line."""

    def __init__(self, first: Pairs, options: ReadOptions, line_bytes: int) -> None:
        self.names = [name for name, _ in first]
        self.roles: Roles = assign_roles(self.names, len(self.names), options)
        self.drops_missing = options.on_missing_target == "drop"
        self.conventions = Conventions.of(options, "", self.roles.kinds)
        values = [value for _, value in first]
        self.label_type: Type = "number" if self.roles.target is None else _label_type(values[self.roles.target])
        self.has_word_groups = self.roles.group is not None and isinstance(values[self.roles.group], str)
        self.line_bytes = line_bytes
        found = {j: type_of(values[j]) for j in self.roles.features}
        self.types: dict[int, Type] = {j: kind for j, kind in found.items() if kind is not None}
        """Types of the features whose type is known. The dict is replaced and never modified, because other threads
        read it."""

    @property
    def has_words(self) -> bool:
        """Return whether labels are text: strings, or booleans as `false` and `true`."""
        return self.label_type != "number"

    @property
    def used(self) -> list[int]:
        return self.roles.used

    @property
    def target_name(self) -> str | None:
        return None if self.roles.target is None else self.names[self.roles.target]

    def set_label(self, label: Any) -> None:
        """Set the type of labels by the first label, if the first line has none."""
        self.label_type = _label_type(label)

    def learn(self, types: dict[int, Type]) -> None:
        self.types = {**types, **self.types}


def _label_type(value: Any) -> Type:
    return "boolean" if isinstance(value, bool) else "string" if isinstance(value, str) else "number"


def type_of(value: Any) -> Type | None:
    """Return the type of a value, or None if it is missing or a text that can mean a missing number."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) and not is_blank(value) and not is_mark(value) else None


@dataclass
class Lines:
    """The result of reading lines."""

    faults: ErrorLog = field(default_factory=ErrorLog)
    types: dict[int, Type] = field(default_factory=dict)
    """Types of features that these lines determined first. A feature of unknown type is assumed to be a number."""
    block: Block | None = None
    """The rows; None if there are errors, new types other than numbers, or no rows."""


def read_lines(text: bytes, line: int, layout: Layout) -> Lines:
    """Read complete lines. `line` is the number of the first line in the file."""
    reader = _LineReader(layout)
    for number, pairs in _objects(text, line, reader.found.faults):
        reader.add(number, pairs)
        if reader.found.faults.full:
            break
    return reader.finish()


class _LineReader:
    def __init__(self, layout: Layout) -> None:
        self.found = Lines()
        self._layout = layout
        self._columns = {name: j for j, name in enumerate(layout.names)}
        self._number_of = {j: k for k, j in enumerate(layout.roles.features)}
        self._values: dict[int, list[Any]] = {j: [] for j in layout.used}
        self._missing: Counter[int] = Counter()
        self._marks: dict[int, Counter[str]] = {}
        self._dropped = 0
        self._n_rows = 0

    def add(self, line: int, pairs: Pairs) -> None:
        for name, _ in pairs:
            if name not in self._columns:
                detail = f"{excerpt(name)} is not a key of the first line; add it there (null: missing)."
                self.found.faults.add(line, None, "unknown_name", detail)
        row = dict(pairs)
        if self._layout.drops_missing and is_missing_label(row.get(self._layout.target_name or "")):
            self._dropped += 1
            return
        self._n_rows += 1
        for j in sorted(self._layout.used):
            judge = self._judge_feature if j in self._number_of else self._judge_other
            value, fault = judge(j, row)
            self._values[j].append(value)
            if fault is not None:
                detail = f"{excerpt(self._layout.names[j])} {fault[1]}."
                self.found.faults.add(line, j + 1, fault[0], detail)

    def _judge_feature(self, j: int, row: dict[str, Any]) -> tuple[Any, tuple[str, str] | None]:
        value = row.get(self._layout.names[j])
        number = self._number_of[j]
        kind = self._layout.types.get(j) or self.found.types.get(j)
        if kind != "string" and ((isinstance(value, str) and is_mark(value)) or _is_nan(value)):
            spelling = value.strip(" \t") if isinstance(value, str) else "NaN"
            self._marks.setdefault(number, Counter())[spelling] += 1
            value = None
        if value is None or (isinstance(value, str) and is_blank(value)):
            if kind != "string":
                self._missing[number] += 1
            return None, None
        if isinstance(value, list | dict):  # objects are decoded to lists of pairs
            return None, ("not_a_value", "is a list or an object; it must be a number, a string, true, false or null")
        if kind is None:
            kind = self.found.types[j] = type_of(value) or "string"
        if type_of(value) != kind and not (kind == "string" and isinstance(value, str)):
            remedy = "convert it, or use null for a missing value"
            return None, (FAULTS[kind], f"is not a {kind}, unlike the earlier values of the column; {remedy}")
        if kind == "number" and not isfinite(value):
            return None, ("not_finite", "is not finite as a 64-bit float; only finite numbers are accepted")
        return value, None

    def _judge_other(self, j: int, row: dict[str, Any]) -> tuple[Any, tuple[str, str] | None]:
        """Check a value of the target, the weight or the group."""
        roles, name = self._layout.roles, self._layout.names[j]
        value = row.get(name)
        is_label = j == roles.target
        is_words = (
            self._layout.label_type == "string" if is_label else j == roles.group and self._layout.has_word_groups
        )
        if value is None or (is_words and isinstance(value, str) and is_blank(value)):
            what = "is absent" if name not in row else "is null" if value is None else "is empty"
            return None, (
                "missing_value",
                f"{what}; {MISSING_LABEL_CURE if is_label else 'fill it in, or remove the row'}",
            )
        if is_words:
            fine = isinstance(value, str)
            return value, None if fine else ("not_a_string", "is not a string, unlike in the first line")
        if is_label and self._layout.label_type == "boolean":
            fine = isinstance(value, bool)
            label = "true" if value else "false"
            return label, None if fine else ("not_a_boolean", "is not true or false, unlike in the first line")
        if j == roles.group:
            fine = isinstance(value, int) and not isinstance(value, bool)
            return value, None if fine else ("not_an_integer", "is not an integer of at most 18 digits")
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None, ("not_a_number", "is not a number")
        if not isfinite(value):
            return None, ("not_finite", "is not finite as a 64-bit float; only finite numbers are accepted")
        if j == roles.weight and value < 0:
            return None, ("negative_weight", f"is {value}; weights must not be negative")
        return value, None

    def finish(self) -> Lines:
        found = self.found
        is_known = all(kind == "number" for kind in found.types.values())
        if (self._n_rows or self._dropped) and is_known and not found.faults:
            found.block = self._block()
        return found

    def _block(self) -> Block:
        roles, types = self._layout.roles, self._layout.types
        X = np.zeros((self._n_rows, len(roles.features)))
        words = {}
        for j, number in self._number_of.items():
            values = self._values[j]
            if types.get(j) == "string":
                check_storable([value for value in values if value is not None])
                words[number] = encode_cells(pa.array(values, pa.string()))
            else:
                X[:, number] = [nan if value is None else float(value) for value in values]
        return Block(
            X,
            target=self._labels(),
            weight=None if roles.weight is None else np.array(self._values[roles.weight], dtype=np.float64),
            group=None if roles.group is None else encode_list(self._values[roles.group]),
            words=words,
            missing=self._missing,
            marks=self._marks,
            dropped=self._dropped,
        )

    def _labels(self) -> Any:
        target = self._layout.roles.target
        if target is None:
            return None
        labels = self._values[target]
        return encode_list(labels) if self._layout.has_words else np.array(labels, dtype=np.float64)


def is_missing_label(value: Any) -> bool:
    return value is None or (isinstance(value, str) and is_blank(value))


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and isnan(value)


def _objects(text: bytes, line: int, log: ErrorLog) -> Iterator[tuple[int, Pairs]]:
    """Yield the number and the object of every valid line, and log the errors of the other lines."""
    for number, raw in enumerate(text.split(b"\n"), start=line):
        if raw.strip(BLANK):
            n_faults = len(log)
            pairs = parse_line(raw, number, log)
            if len(log) == n_faults:
                yield number, pairs


def parse_line(raw: bytes, number: int, log: ErrorLog) -> Pairs:
    """Return the keys and values of a line's object in order, and log the errors of the line."""
    try:
        pairs = _DECODER.decode(raw.decode())
    except UnicodeDecodeError as error:
        log.add(number, error.start + 1, "not_utf8", f"Byte {error.start + 1} of the line is not valid UTF-8.")
    except json.JSONDecodeError as error:
        log.add(number, error.colno, "not_json", f"The line is not JSON: {error.msg}.")
    except RecursionError:
        log.add(
            number,
            None,
            "not_json",
            "The line is nested too deeply; values must be numbers, strings, true, false or null.",
        )
    else:
        if not isinstance(pairs, _Object):
            log.add(number, 1, "not_an_object", "The line is not a JSON object: {...} with a key for each column.")
        elif len({name for name, _ in pairs}) < len(pairs):
            log.add(number, None, "duplicate_name", "The object contains a key twice; remove one.")
        else:
            return pairs
    return []


class _Object(Pairs):
    """The keys and values of a JSON object. A type of its own, so that a JSON array is not mistaken for an object."""


def _read_integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= EXACT_DIGITS else float(digits)


_DECODER = json.JSONDecoder(object_pairs_hook=_Object, parse_int=_read_integer)
