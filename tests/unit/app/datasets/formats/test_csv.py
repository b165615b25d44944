"""The CSV reader: what it accepts and gives, whatever the size of the file; see test_formats_csv_refusals.py."""

import itertools
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from app.datasets.formats import InvalidFile, InvalidOption, ReadOptions, Table, csv_pieces, read

PROJECT_ROOT = Path(__file__).resolve().parents[5]


def read_text(folder: Path, text: str | bytes, **options: object) -> Table:
    path = folder / "data.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read(path, "csv", ReadOptions(**options))  # type: ignore[arg-type]


def refuse(folder: Path, text: str | bytes, **options: object) -> InvalidFile:
    with pytest.raises(InvalidFile) as caught:
        read_text(folder, text, **options)
    return caught.value


def test_a_table_with_header_and_string_labels(tmp_path: Path) -> None:
    table = read_text(tmp_path, "a,b,class\n1,0,yes\n2.5,-3e2,no\n0,4,yes\n")
    assert table.storage == "dense"
    assert table.arrays["X"].tolist() == [[1, 0], [2.5, -300], [0, 4]]
    assert table.arrays["X"].dtype == np.float64
    assert table.arrays["X"].flags.c_contiguous
    assert table.arrays["y"].tolist() == [1, 0, 1]
    assert table.arrays["y"].dtype == np.int32
    assert (table.n_rows, table.n_features, table.nnz) == (3, 2, 4)
    assert (table.feature_names, table.target) == (["a", "b"], "class")
    assert (table.label_kind, table.labels) == ("string", ["no", "yes"])
    assert table.class_counts == [("no", 1), ("yes", 2)]
    assert table.task_hint == "binary"
    assert [warning.code for warning in table.warnings] == ["header_guessed", "target_guessed"]


def test_no_header_and_numeric_labels(tmp_path: Path) -> None:
    table = read_text(tmp_path, "1,0,3\n2,5,1\n3,6,2\n")
    assert table.arrays["X"].tolist() == [[1, 0], [2, 5], [3, 6]]
    assert table.arrays["y"].tolist() == [3, 1, 2]
    assert table.arrays["y"].dtype == np.float64
    assert (table.feature_names, table.target, table.labels) == (None, "2", None)
    assert table.class_counts == [(1, 1), (2, 1), (3, 1)]
    assert table.task_hint == "multiclass"
    assert "'1'" in table.warnings[0].detail


@pytest.mark.parametrize("odd_row", [None, 0, 40_000, 99_999])
def test_numbers_are_kept_in_single_precision_as_long_as_it_has_them_exactly(
    tmp_path: Path, odd_row: int | None
) -> None:
    X = np.random.default_rng(0).integers(-(2**24), 2**24, (100_000, 3)) / 4.0
    if odd_row is not None:
        X[odd_row, 1] = 0.1
    table = read_text(tmp_path, "".join(f"{a},{b},{c},{k % 2}\n" for k, (a, b, c) in enumerate(X.tolist())))
    assert table.arrays["X"].dtype == (np.float32 if odd_row is None else np.float64)
    np.testing.assert_array_equal(table.arrays["X"], X)
    assert table.nnz == np.count_nonzero(X)


@pytest.mark.parametrize(
    ("labels", "hint", "n_classes"),
    [
        (["1.5", "2", "2"], "regression", 0),
        ([str(k) for k in range(101)], "regression", 0),
        ([str(k) for k in range(100)], "multiclass", 100),
        (["-1", "+1.0", "1"], "binary", 2),
        (["9"], "binary", 1),
        ([f"label {k % 150}" for k in range(300)], "multiclass", 150),
    ],
)
def test_task_hints(tmp_path: Path, labels: list[str], hint: str, n_classes: int) -> None:
    table = read_text(tmp_path, "x,y\n" + "".join(f"1,{label}\n" for label in labels))
    assert (table.task_hint, len(table.class_counts)) == (hint, n_classes)


@pytest.mark.parametrize(
    ("options", "expected_x", "expected_y"),
    [
        ({}, [[1, 2, 3]], 4),
        ({"target": "b"}, [[1, 3, 4]], 2),
        ({"target": "1"}, [[2, 3, 4]], 1),  # the name wins over the number
        ({"target": "0"}, [[2, 3, 4]], 1),
        ({"target": "-2"}, [[1, 2, 4]], 3),
        ({"target": "b", "ignore": ("d", "0")}, [[3]], 2),
        ({"weight": "b"}, [[1, 3]], 4),
    ],
)
def test_columns_by_name_and_number(
    tmp_path: Path, options: dict[str, object], expected_x: list[list[float]], expected_y: float
) -> None:
    table = read_text(tmp_path, "1,b,c,d\n1,2,3,4\n", header="true", **options)
    assert table.arrays["X"].tolist() == expected_x
    assert table.arrays["y"].tolist() == [expected_y]
    assert ("weight" in table.arrays) == ("weight" in options)


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("1;2;a\n3;4;b\n", {"delimiter": ";"}, [[1, 2], [3, 4]]),
        ("1\t2\ta\n3\t4\tb\n", {"delimiter": "tab"}, [[1, 2], [3, 4]]),
        ("1,2,a\r\n3,4,b\r\n", {}, [[1, 2], [3, 4]]),
        ("1,2,a\r3,4,b", {}, [[1, 2], [3, 4]]),
        ("\n1,2,a\n\n\r\n3,4,b\n\n", {}, [[1, 2], [3, 4]]),
        ('"1",2,"a"\n"3","4",b\n', {}, [[1, 2], [3, 4]]),
        ('"x","y\n""q""",z\n1,2,a\n3,4,b\n', {}, [[1, 2], [3, 4]]),
        ("\ufeffx,y,z\n1,2,a\n3,4,b\n", {}, [[1, 2], [3, 4]]),
        (" 1 ,\t2,a\n3,+4.,b", {}, [[1, 2], [3, 4]]),
        ("5e-324,1.7976931348623157e308,a\n-2.2e-310,.5,b", {}, [[5e-324, 1.7976931348623157e308], [-2.2e-310, 0.5]]),
        ("1e-400,-0,a\n00012,1E+2,b", {}, [[0, 0], [12, 100]]),  # no code: another number is not of digits only
    ],
)
def test_accepted_spellings(tmp_path: Path, text: str, options: dict[str, object], expected: list[list[float]]) -> None:
    assert read_text(tmp_path, text, **options).arrays["X"].tolist() == expected


def test_groups_are_numbered_in_order_of_appearance(tmp_path: Path) -> None:
    table = read_text(tmp_path, "a,g,y\n1,q,x\n2,p,x\n3,q,z\n4,7,z\n", group="g")
    assert table.arrays["group"].tolist() == [0, 1, 0, 2]
    assert table.arrays["group"].dtype == np.int64
    assert table.arrays["X"].tolist() == [[1], [2], [3], [4]]
    refusal = refuse(tmp_path, "a,g,y\n1,q,x\n2, ,x\n", group="g")
    assert [(error.line, error.column, error.code) for error in refusal.errors] == [(3, 2, "missing_value")]


def test_what_counts_as_missing_can_be_said(tmp_path: Path) -> None:
    text = "a,b,y\n1,gone,x\n-999,2,x\n3,4,gone\n"
    (error,) = refuse(tmp_path, text, missing=("gone", "-999")).errors
    assert (error.line, error.column, error.code) == (4, 3, "missing_value")
    assert "'gone', which stands for a missing value" in error.detail
    table = read_text(tmp_path, text.replace("4,gone", "4,x"), missing=("gone", "-999"))
    assert np.isnan(table.arrays["X"]).tolist() == [[False, True], [True, False], [False, False]]
    assert read_text(tmp_path, "a,y\n1,NA\n2,x\n", missing=("-",)).labels == ["NA", "x"]


def test_tab_separated_values(tmp_path: Path) -> None:
    path = tmp_path / "data.tsv"
    path.write_text('a\tb\ty\n1\t2\t"x\ty"\n')
    table = read(path, "tsv", ReadOptions())
    assert (table.feature_names, table.labels) == (["a", "b"], ["x\ty"])
    with pytest.raises(InvalidOption, match="delimiter"):
        read(path, "tsv", ReadOptions(delimiter=","))


def test_a_word_behind_many_numbers_makes_all_labels_strings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.datasets.formats.text.PIECE_BYTES", 1 << 12)
    table = read_text(tmp_path, "a,y\n" + "1,1\n1,01\n" * 6_000 + "1,x\n")
    assert table.class_counts == [("01", 6_000), ("1", 6_000), ("x", 1)]
    assert table.warnings[-1].code == "mixed_labels"


def test_labels_of_too_many_values_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.datasets.formats.labels.MAX_CLASSES", 100)
    assert len(read_text(tmp_path, "a,y\n" + "".join(f"1,w{k}\n" for k in range(100)) * 2).labels or []) == 100
    text = "a,y\n" + "".join(f"1,w{k}\n" for k in range(101))
    assert refuse(tmp_path, text).errors[0].code == "too_many_classes"


def test_labels_are_kept_as_they_are(tmp_path: Path) -> None:
    table = read_text(tmp_path, 'x,y\n1, a\n1,a\n1,"a\nb"\n1,"q""q"\n1,NA\n1,null\n1,Ünïcode\n1,7\n')
    assert table.labels == sorted([" a", "a", "a\nb", 'q"q', "NA", "null", "Ünïcode", "7"])
    codes = [warning.code for warning in table.warnings]
    assert codes == ["header_guessed", "target_guessed", "labels_like_missing", "mixed_labels"]
    assert "7 of the 8" in table.warnings[-1].detail


def test_names_are_kept_as_they_are(tmp_path: Path) -> None:
    table = read_text(tmp_path, '"a, b", c,"d\ne",ignored,ü\n1,2,3,x,y\n', ignore=("ignored",))
    assert table.feature_names == ["a, b", " c", "d\ne"]
    assert table.target == "ü"


def test_an_unnamed_column_can_be_ignored(tmp_path: Path) -> None:
    assert read_text(tmp_path, ",a,b\n0,1,x\n", ignore=("0",)).arrays["X"].tolist() == [[1]]


def test_header_can_be_said(tmp_path: Path) -> None:
    assert read_text(tmp_path, "1,2\n3,4\n", header="true").feature_names == ["1"]
    assert read_text(tmp_path, "1,a\n3,b\n", header="false").n_rows == 2
    assert read_text(tmp_path, "1,2\n3,4\n", header="true").warnings[-1].code == "one_class"


def test_many_blocks_and_a_late_fault(tmp_path: Path) -> None:
    lines = [f"{k},{k / 7!r},{'even' if k % 2 == 0 else 'odd'}" for k in range(120_000)]
    table = read_text(tmp_path, "a,b,c\n" + "\n".join(lines))
    assert np.array_equal(table.arrays["X"][:, 1], np.arange(120_000) / 7)
    assert table.class_counts == [("even", 60_000), ("odd", 60_000)]
    lines[110_000] = "110000,oops,even"
    refusal = refuse(tmp_path, "a,b,c\n" + "\n".join(lines), weight="b")
    assert [(error.line, error.column) for error in refusal.errors] == [(110_002, 2)]


def test_a_record_longer_than_a_block(tmp_path: Path) -> None:
    table = read_text(tmp_path, "a,b\n1,x\n2," + "y" * 3_000_000 + "\n")
    assert [len(label) for label in table.labels or []] == [1, 3_000_000]


def test_a_quoted_line_end_survives_wherever_blocks_meet(tmp_path: Path) -> None:
    label = "x\r\n" * 40_000
    for shift in range(3):  # one of which puts the end of pyarrow's first block between CR and LF
        padding = "y" * ((1 << 20) - 60_000 + shift)
        table = read_text(tmp_path, f'a,b\n1,{padding}\n1,"{label}"\n')
        assert table.labels == [label, padding]


def test_a_very_wide_file(tmp_path: Path) -> None:
    rows = [[str(k * j % 97) for j in range(20_000)] for k in range(3)]
    table = read_text(tmp_path, "\n".join(",".join(row) for row in rows))
    assert table.n_features == 19_999
    assert table.arrays["X"].tolist() == [[float(cell) for cell in row[:-1]] for row in rows]
    rows[1][7] = "x"
    refusal = refuse(tmp_path, "\n".join(",".join(row) for row in rows), weight="7")
    assert [(error.line, error.column) for error in refusal.errors] == [(2, 8)]


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.datasets.formats.text.MAX_LINE_BYTES", 1 << 16)
    monkeypatch.setattr("app.datasets.formats.text.PIECE_BYTES", 1 << 12)
    assert refuse(tmp_path, "1," * (1 << 20)).errors[0].code == "line_too_long"
    late = refuse(tmp_path, "a,b\n1,x\n?,y\n" + "1" * (1 << 20)).errors[0]
    assert (late.line, late.code) == (4, "line_too_long")


def test_blank_lines_do_not_cost_memory(tmp_path: Path) -> None:
    wide = ",".join(f"c{j}" for j in range(5_000))
    text = wide + "\n" * 1_000_000 + ",".join(["1"] * 5_000)
    tracemalloc.start()
    try:
        assert read_text(tmp_path, text).n_rows == 1
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def test_the_bundled_example() -> None:
    table = read(PROJECT_ROOT / "app" / "examples" / "ionosphere.csv", "csv", ReadOptions())
    assert (table.n_rows, table.n_features) == (351, 34)
    assert table.class_counts == [("bad", 126), ("good", 225)]
    assert (table.feature_names or [])[:2] == ["pulse01_re", "pulse01_im"]


def test_the_bundled_example_is_the_public_data_set(shared_data: Path) -> None:
    table = read(PROJECT_ROOT / "app" / "examples" / "ionosphere.csv", "csv", ReadOptions())
    with np.load(shared_data / "ionosphere" / "train.npz", allow_pickle=False) as source:
        assert np.abs(table.arrays["X"] - source["X"]).max() < 1e-15
        assert np.array_equal(table.arrays["y"], source["y"])


PLAIN_CELLS = ["0", "-0", "7", "-12", "3.25", "1.", "1e5", "-2.5E-7", "0.1", "123456789012345678901", "5e-300"]
PLAIN_CELLS += ["16777217", "999999999999999", "9007199254740994", "92233720368547758079", "4e38"]
OTHER_CELLS = [
    "007",
    "00000000000000012",
    "9007199254740993",
    "+1",
    ".5",
    " 1",
    "1\t",
    "1e-400",
    "2.2250738585072011e-308",
    '"3"',
    "1e22222",
]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last_end", [True, False])
def test_plain_numbers_are_read_by_the_kernel_and_others_beside_them_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, last_end: bool
) -> None:
    plain = [[a, b, "2", str(k % 2)] for k, (a, b) in enumerate(itertools.product(PLAIN_CELLS, PLAIN_CELLS))]
    text = "a,b,weight,y" + end + end.join(",".join(row) for row in plain) + (end if last_end else "")
    path = tmp_path / "plain.csv"
    path.write_bytes(text.encode())

    def ask(*_: object) -> None:
        raise AssertionError("pyarrow was asked")

    with monkeypatch.context() as patched:
        if last_end:
            patched.setattr(csv_pieces, "_parse", ask)
        table = read(path, "csv", ReadOptions(target="y", weight="weight"))
    assert table.arrays["X"].tolist() == [[float(cell) for cell in row[:2]] for row in plain]
    minus_zeros = table.arrays["X"][len(PLAIN_CELLS) : 2 * len(PLAIN_CELLS), 0]
    assert np.signbit(minus_zeros).all(), "they stay what they are"
    assert table.arrays["y"].tolist() == [k % 2 for k in range(len(plain))]
    for other in OTHER_CELLS[:-1]:
        path.write_bytes((text.removesuffix(end) + end + f"{other},1,2,0" + end).encode())
        assert read(path, "csv", ReadOptions(target="y", weight="weight")).arrays["X"][-1, 0] == float(other.strip('"'))
    for wrong in ("1,1,2", "1,1,2,0,0", "1,1,-2,0", f"{OTHER_CELLS[-1]},1,2,0", "1,1,2,", "1,,2\r,0", "1,1,--2,0"):
        path.write_bytes((text.removesuffix(end) + end + wrong + end).encode())
        with pytest.raises(InvalidFile):
            read(path, "csv", ReadOptions(target="y", weight="weight"))
