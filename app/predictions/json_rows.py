"""Rows as JSON: lists, {name: value}, {indices, values}. One document (`instances`) or one row per line (ndjson).

Most bodies have rows of one kind, which are decoded directly to lists of numbers and stacked in one call. Other bodies
are decoded again without types; that path also finds the errors of a body.
"""

import io
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
import numpy as np

from app.errors import Invalid, Unparsable, invalid_field
from app.models.linear import Matrix
from app.predictions import rows as rows_module
from app.predictions.model_features import NUMBER_BYTES, Features, stacked
from app.predictions.rows import (
    INSTANCES,
    ListRows,
    MatrixRows,
    MixedRows,
    NamedRows,
    Places,
    Rows,
    check_bytes,
    check_count,
    csr_of,
)

Wanted = list[str] | msgspec.UnsetType
NO_CHOICE: Any = msgspec.field(default=msgspec.UNSET, name="return")


class SparseRow(msgspec.Struct, forbid_unknown_fields=True):
    indices: list[int]
    values: list[float]


class DenseBody(msgspec.Struct, forbid_unknown_fields=True):
    instances: list[list[float]]
    wanted: Wanted = NO_CHOICE
    coverage: float | None = None


class SparseBody(msgspec.Struct, forbid_unknown_fields=True):
    instances: list[SparseRow]
    wanted: Wanted = NO_CHOICE
    coverage: float | None = None


class AnyBody(msgspec.Struct, forbid_unknown_fields=True):
    instances: list[Any]
    wanted: Wanted = NO_CHOICE
    coverage: float | None = None


_decode_dense = msgspec.json.Decoder(DenseBody).decode
_decode_sparse = msgspec.json.Decoder(SparseBody).decode
_decode_any = msgspec.json.Decoder(AnyBody).decode
_decode_lists = msgspec.json.Decoder(list[float]).decode_lines
_decode_lines = msgspec.json.Decoder().decode_lines

CHECKED_BYTES = 1 << 20
"""Body size in bytes above which values are counted before they are decoded. Larger: a hostile body can use more
memory. A body of this size decodes to at most 40 MB."""
CONTAINERS_A_ROW = 3
"""Maximum lists and objects of a row: a sparse row is an object with two lists."""
STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
FIRST_ROW = re.compile(rb'\s*\{\s*"instances"\s*:\s*\[\s*([\[{])')
PLACE = re.compile(r"\$\[(\d+)\]")


class JsonRequest(NamedTuple):
    rows: Rows
    wanted: Wanted = msgspec.UNSET
    coverage: float | None = None


def read_json(body: bytes, features: Features) -> JsonRequest:
    """Parse a JSON body. Raises Unparsable if it is not JSON, and Invalid if it contains no valid rows."""
    check_values(body, features)
    start = FIRST_ROW.match(body)
    if start is not None:
        try:
            if start[1] == b"[":
                dense = _decode_dense(body)
                if rows := _stack(dense.instances, features, INSTANCES):
                    return JsonRequest(rows, dense.wanted, dense.coverage)
            elif "indices" not in features.index_of:
                sparse = _decode_sparse(body)
                if sparse.instances:
                    return JsonRequest(
                        MatrixRows(_csr(sparse.instances, features, INSTANCES)), sparse.wanted, sparse.coverage
                    )
        except (msgspec.DecodeError, UnicodeDecodeError, OverflowError, RecursionError):
            pass
    request = decoded(_decode_any, body)
    return JsonRequest(rows_of(request.instances, features), request.wanted, request.coverage)


def read_ndjson(body: bytes, features: Features) -> Rows:
    """Parse one row per line; blank lines are skipped."""
    places = Places(line_of=lambda row: next(islice(_filled_lines(body), row, None))[0])
    check_values(body, features)
    n_lines = sum(1 for _ in _filled_lines(body))
    check_count(n_lines, places.name)
    try:
        rows = _stack(_decode_lists(body), features, places)
        if rows is not None and rows.matrix.shape[0] == n_lines:
            return rows
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        instances = _decode_lines(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _first_bad_line(body) from None
    if len(instances) != n_lines:
        raise Unparsable("Every line must contain one complete row.")
    return rows_of(instances, features, places)


def rows_of(instances: Sequence[Any], features: Features, places: Places = INSTANCES) -> Rows:
    """Sort rows of any kind, as JSON gives them, into parts of one kind."""
    check_count(len(instances), places.name)
    numbers: dict[Callable[..., Any], list[int]] = {}
    for number, row in enumerate(instances):
        kind = _kind(row, features)
        if kind is None:
            detail = "must be a list, an object {name: value}, or {indices, values}"
            raise places.refuse(number, "wrong_type", detail)
        numbers.setdefault(kind, []).append(number)
    if len(numbers) == 1:
        (kind,) = numbers
        found: Rows = kind(instances, features, places)
        return found
    parts = []
    for kind, chosen in numbers.items():
        part = Places(places.name, places.line_of, chosen)
        parts.append(kind([instances[number] for number in chosen], features, part))
    return MixedRows(parts)


def decoded(decode: Callable[[bytes], Any], body: bytes) -> Any:
    """Decode the body, or raise an error that names the wrong field."""
    try:
        return decode(body)
    except msgspec.ValidationError as error:
        detail, _, place = str(error).partition(" - at `$")
        raise invalid_field(place.removesuffix("`").lstrip(".") or "body", "invalid_body", detail) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unparsable(f"The body is not JSON: {error}.") from error
    except RecursionError as error:
        raise Unparsable("The body is nested too deeply.") from error


def _stack(rows: Sequence[Sequence[float]], features: Features, places: Places) -> MatrixRows | None:
    """Stack the rows; None if their number of values differs from the number of features."""
    if not rows or set(map(len, rows)) != {features.width}:
        return None
    features.admit(len(rows), places.name)
    return MatrixRows(stacked(rows, features.width), places)


def _kind(row: Any, features: Features) -> Callable[..., Rows] | None:
    if type(row) is list:
        return _lists
    if type(row) is not dict:
        return None
    is_sparse = row.keys() == {"indices", "values"} and "indices" not in features.index_of
    return _sparse if is_sparse else _named


def _lists(rows: Sequence[Any], features: Features, places: Places) -> Rows:
    features.admit(len(rows), places.name)
    return ListRows(rows, places)


def _named(rows: Sequence[Any], features: Features, places: Places) -> Rows:
    features.admit(len(rows), places.name)
    return NamedRows(rows, places)


def _sparse(rows: Sequence[Any], features: Features, places: Places) -> Rows:
    try:
        read = msgspec.convert([_with_gaps(row) for row in rows], list[SparseRow])
        return MatrixRows(_csr(read, features, places), places)
    except msgspec.ValidationError as error:
        found = PLACE.search(str(error))
        number = int(found[1]) if found else 0
    except OverflowError:
        number = next(i for i, row in enumerate(rows) if any(abs(index) >= 2**63 for index in row["indices"]))
    raise places.refuse(number, "wrong_type", "indices must be integers, and values must be numbers")


def _with_gaps(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a sparse row whose nulls are replaced by NaN, a missing value. The fast path accepts no nulls."""
    values = row["values"]
    filled = [math.nan if value is None else value for value in values] if type(values) is list else values
    return {"indices": row["indices"], "values": filled}


def _csr(rows: Sequence[SparseRow], features: Features, places: Places) -> Matrix:
    counts = np.fromiter(map(len, map(attrgetter("indices"), rows)), dtype=np.int64, count=len(rows))
    value_counts = np.fromiter(map(len, map(attrgetter("values"), rows)), dtype=np.int64, count=len(rows))
    if (counts != value_counts).any():
        number = int(np.argmax(counts != value_counts))
        detail = f"{counts[number]} indices but {value_counts[number]} values"
        raise places.refuse(number, "wrong_width", detail)
    total = int(counts.sum())
    features.admit_sparse(len(rows), total, places.name)
    indices = np.fromiter(chain.from_iterable(map(attrgetter("indices"), rows)), dtype=np.int64, count=total)
    values = np.fromiter(chain.from_iterable(map(attrgetter("values"), rows)), dtype=np.float64, count=total)
    starts = np.concatenate([[0], np.cumsum(counts)])
    return csr_of(values, indices, starts, features.width, places)


def check_values(body: bytes, features: Features) -> None:
    """Raise if a JSON body has more values, or more lists and objects, than a request can have.

    Decoded values are Python objects, several times larger than their text, so the values of a large body are counted
    first: by its commas and brackets, and if these are too many, by those outside of strings.
    """
    if len(body) <= CHECKED_BYTES or not _has_many_values(body, features):
        return
    bare = STRING.sub(b"", body)
    check_bytes(bare.count(b",") * NUMBER_BYTES, features.most_bytes)
    if (n_containers := _count_containers(bare)) > CONTAINERS_A_ROW * rows_module.MAX_ROWS:
        check_count(n_containers // CONTAINERS_A_ROW, INSTANCES.name)


def _has_many_values(body: bytes, features: Features) -> bool:
    is_large = body.count(b",") * NUMBER_BYTES > features.most_bytes
    return is_large or _count_containers(body) > CONTAINERS_A_ROW * rows_module.MAX_ROWS


def _count_containers(body: bytes) -> int:
    return body.count(b"[") + body.count(b"{")


def _filled_lines(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and text of every line that is not blank."""
    return ((number, line) for number, line in enumerate(io.BytesIO(body), 1) if line.strip())


def _first_bad_line(body: bytes) -> Unparsable | Invalid:
    for number, line in _filled_lines(body):
        try:
            msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return Unparsable(f"line {number}: the line is not JSON.")
    return Unparsable("Every line must contain one complete row.")
