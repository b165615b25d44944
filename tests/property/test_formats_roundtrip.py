"""Any table, written as text and read back, is the same table to the last bit."""

import math
import random
import struct
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.datasets.formats import ReadOptions, Table, read
from tests.support.builders import SOAK

FINITE = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=True)
WORD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8)
many = settings(
    max_examples=100 * SOAK,
    deadline=None,
    derandomize=SOAK == 1,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("formats") / "data"


@st.composite
def spellings(draw: st.DrawFn, value: float) -> str:
    """One of the ways to write a float without loss."""
    exact = draw(st.sampled_from([repr(value), f"{value:.17e}", f"{value:.20g}", f"{value:.16E}"]))
    if value == int(value) and abs(value) < 1e15 and math.copysign(1, value) > 0:
        exact = draw(st.sampled_from([exact, str(int(value)), f"{int(value)}.", f"+{int(value)}"]))
    return exact


def same_bits(ours: np.ndarray[Any, Any], expected: list[float]) -> bool:
    return (
        ours.astype(np.float64).view(np.int64).tolist() == np.array(expected, dtype=np.float64).view(np.int64).tolist()
    )


@many
@given(st.data())
def test_csv(path: Path, data: st.DataObject) -> None:
    n_rows = data.draw(st.integers(1, 6))
    n_features = data.draw(st.integers(1, 5))
    X = [[data.draw(FINITE) for _ in range(n_features)] for _ in range(n_rows)]
    with_numbers = data.draw(st.booleans())
    # A letter in front keeps a label from being blank or a number.
    y: list[Any] = [data.draw(FINITE) if with_numbers else "L" + data.draw(WORD) for _ in range(n_rows)]
    names = data.draw(st.lists(WORD.map("n".__add__), min_size=n_features + 1, max_size=n_features + 1, unique=True))
    target = data.draw(st.integers(0, n_features))
    has_header = data.draw(st.booleans())
    delimiter = data.draw(st.sampled_from([",", ";", "\t", "|", ":"]))
    always_quoted = data.draw(st.booleans())

    def written(cell: str) -> str:
        if always_quoted or any(c in cell for c in f'{delimiter}"\r\n'):
            return '"' + cell.replace('"', '""') + '"'
        return cell

    lines = [names] if has_header else []
    for row, label in zip(X, y, strict=True):
        cells = [data.draw(spellings(value)) for value in row]
        cells.insert(target, data.draw(spellings(label)) if with_numbers else label)
        lines.append(cells)
    end = data.draw(st.sampled_from(["\n", "\r\n", "\r"]))
    text = end.join(delimiter.join(map(written, cells)) for cells in lines) + data.draw(st.sampled_from(["", end]))
    path.write_bytes(data.draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + text.encode())
    options = ReadOptions(
        delimiter=delimiter,
        header="true" if has_header else "false",
        target=names[target] if has_header else str(target),
    )
    table = read(path, "csv", options)
    assert same_bits(table.arrays["X"].ravel(), list(chain.from_iterable(X)))
    if with_numbers:
        assert same_bits(table.arrays["y"], y)
    else:
        assert [(table.labels or [])[code] for code in table.arrays["y"]] == y
        assert table.class_counts == sorted((label, y.count(label)) for label in set(y))
    if has_header:
        assert table.feature_names == [*names[:target], *names[target + 1 :]]
        assert table.target == names[target]


@many
@given(st.data())
def test_libsvm(path: Path, data: st.DataObject) -> None:
    n_rows = data.draw(st.integers(1, 6))
    base = data.draw(st.sampled_from([0, 1]))
    y = [data.draw(FINITE) for _ in range(n_rows)]
    groups = [data.draw(st.integers(0, 10**18 - 1)) for _ in range(n_rows)] if data.draw(st.booleans()) else None
    rows = [data.draw(st.dictionaries(st.integers(0, 2**31 - 3), FINITE, max_size=5)) for _ in range(n_rows)]
    gap = st.sampled_from([" ", "  ", "\t", " \t "])
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    lines = []
    for k, row in enumerate(rows):
        order = data.draw(st.permutations(sorted(row)))
        tokens = [data.draw(spellings(y[k]))] + ([] if groups is None else [f"qid:{groups[k]}"])
        tokens += [f"{index + base}:{data.draw(spellings(row[index]))}" for index in order]
        lines.append(data.draw(gap).join(tokens) + data.draw(st.sampled_from(["", " ", "# 1:2", " #"])))
        lines += data.draw(st.sampled_from([[], [""], ["# 3 4:5"], [" \t"]]))
    path.write_text(end.join(lines) + data.draw(st.sampled_from(["", end])), newline="")
    n_features = max([1, *(index + 1 for row in rows for index in row)])
    table = read(path, "libsvm", ReadOptions(index_base="0" if base == 0 else "1", n_features=n_features))
    assert table.n_features == n_features
    assert same_bits(table.arrays["y"], y)
    assert table.arrays["indptr"].tolist() == [0, *np.cumsum([len(row) for row in rows])]
    assert table.arrays["indices"].tolist() == [index for row in rows for index in sorted(row)]
    assert same_bits(table.arrays["data"], [row[index] for row in rows for index in sorted(row)])
    if groups is None:
        assert "group" not in table.arrays
    else:
        order = list(dict.fromkeys(groups))
        assert table.arrays["group"].tolist() == [order.index(group) for group in groups]
    assert_summary_agrees(table, y)


def assert_summary_agrees(table: Table, y: list[float]) -> None:
    is_real = any(value != int(value) for value in y)
    expected = [] if is_real else sorted((int(v), sum(w == v for w in y)) for v in set(y))
    assert table.class_counts == expected
    assert table.task_hint == ("regression" if is_real else "binary" if len(expected) < 3 else "multiclass")


def hard_decimal(rng: random.Random) -> str:
    """A decimal of the kinds that naive parsers round wrongly."""
    kind = rng.randrange(6)
    value = abs(struct.unpack("d", rng.randbytes(8))[0])
    if not 1e-300 < value < 1e300:  # also sorts out NaN
        value = rng.random()
    if kind == 0:
        return repr(value)
    if kind == 1:
        return f"{value:.18e}"
    if kind == 2:
        return str(rng.randrange(10 ** rng.randrange(1, 40)))
    if kind == 3:
        digits = str(rng.randrange(10 ** rng.randrange(1, 40)))
        return f"{rng.randrange(1000)}.{'0' * rng.randrange(30)}{digits}e{rng.randrange(-360, 300)}"
    if kind == 4:
        return str(2**53 + rng.randrange(2 ** rng.randrange(1, 62)))
    # The middle between two neighbours, cut or whole: the last digits decide.
    middle = (Fraction(value) + Fraction(math.nextafter(value, math.inf))) / 2
    with localcontext() as context:
        context.prec = rng.choice([17, 18, 19, 20, 40, 800])
        return str(Decimal(middle.numerator) / Decimal(middle.denominator))


def test_libsvm_rounds_as_python(path: Path) -> None:
    seed = random.randrange(2**32) if SOAK > 1 else 0
    rng = random.Random(seed)
    tokens = [rng.choice(["", "-", "+"]) + hard_decimal(rng) for _ in range(20_000 * SOAK)]
    finite = [token for token in tokens if math.isfinite(float(token))]
    assert len(finite) > 0.9 * len(tokens)
    path.write_text("".join(f"{token} 1:{token}\n" for token in finite))
    table = read(path, "libsvm", ReadOptions())
    expected = [float(token) for token in finite]
    assert same_bits(table.arrays["data"], expected), f"seed {seed}"
    assert same_bits(table.arrays["y"], expected), f"seed {seed}"
