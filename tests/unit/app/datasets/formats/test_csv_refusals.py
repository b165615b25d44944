"""The CSV reader: the exact place and code of what it refuses."""

from pathlib import Path

import pytest

from app.datasets.formats import InvalidFile, InvalidOption, ReadOptions, Table, read


def read_text(folder: Path, text: str | bytes, **options: object) -> Table:
    path = folder / "data.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read(path, "csv", ReadOptions(**options))  # type: ignore[arg-type]


def refuse(folder: Path, text: str | bytes, **options: object) -> InvalidFile:
    with pytest.raises(InvalidFile) as caught:
        read_text(folder, text, **options)
    return caught.value


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("w,a,b\n1,0,x\nz,0,y\n", {"weight": "w"}, [(3, 1, "not_a_number")]),
        ("w,a,b\r\n1,0,x\r\n\r\nz,0,y\r\n", {"weight": "w"}, [(4, 1, "not_a_number")]),
        ("w,a,b\r1,0,x\rz,0,y\r", {"weight": "w"}, [(3, 1, "not_a_number")]),
        ('w,a,b\n1,0,"x\ny"\n"\n",0,z\n7,0,w', {"weight": "w"}, [(4, 1, "not_a_number")]),
        ('a,b,c\n1,"\n\n",3\n1,2,\n', {}, [(5, 3, "missing_value")]),
        ('a,b,c\n1,"\n\n",3\n1,2,4\n', {"weight": "b"}, [(2, 2, "not_a_number")]),
        ('a,b,c\n"\n",inf,r\n1,2,r\n3,q,r', {"weight": "b"}, [(3, 2, "not_finite"), (5, 2, "not_a_number")]),
        ("a,b\n1,\n2,x\n", {}, [(2, 2, "missing_value")]),
        ("a,b\n1,  \n2,x\n", {}, [(2, 2, "missing_value")]),
        ("a,b\n" + "1,\n" * 3, {}, [(2, 2, "missing_value"), (3, 2, "missing_value"), (4, 2, "missing_value")]),
        ("a,b\n1,5\n2,nan\n3,\n", {}, [(4, 2, "missing_value")]),
        ("a,b\n1,5\n2,1e999\n", {}, [(3, 2, "not_finite")]),
        ("a,b\n-NaN,x\n-inf,x\nInfinity,x\n1e999,x\n", {}, [(k, 1, "not_finite") for k in (2, 3, 4, 5)]),
        *[
            (f"w,a,b\n1,0,x\n{cell},0,x\n", {"weight": "w"}, [(3, 1, "not_a_number")])
            for cell in [
                "0x10",
                "1_000",
                "٣",
                "\uff11",
                "1e",
                "--1",
                "1 2",
                "1\u00a0",
                "\x0b1",
                "True",
                "1d5",
                "2020-01-01",
            ]
        ],
        ("a,b,c\n1,2,x\n1,x\n1,2,3,x\n", {}, [(3, 3, "wrong_field_count"), (4, 4, "wrong_field_count")]),
        ("1,2,x\n1,x\n", {}, [(2, 3, "wrong_field_count")]),
        ("a,b,c\n1,-2,x\n1,nan,x\n1,-0,x\n", {"weight": "b"}, [(2, 2, "negative_weight"), (3, 2, "not_finite")]),
        ("a,a,b,c,b\n1,2,3,4,5\n", {}, [(1, 2, "duplicate_name"), (1, 5, "duplicate_name")]),
        (",a,b\n1,2,3\n", {}, [(1, 1, "missing_name")]),
        ("a,b\n", {}, [(2, None, "no_rows")]),
        ("a,b", {}, [(2, None, "no_rows")]),
        ("a,b\n\n\n", {}, [(2, None, "no_rows")]),
        ("", {}, [(None, None, "empty_file")]),
        ("\ufeff", {}, [(None, None, "empty_file")]),
        ("\n\r\n", {}, [(None, None, "empty_file")]),
        ("a\n1\n", {}, [(1, 1, "one_column")]),
        ("\na b\n1 2\n", {}, [(2, 1, "one_column")]),
        ('a,b\n1,"x\n', {}, [(2, 2, "bad_quote")]),
        ('a,b\n1,"x"y\n', {}, [(2, 2, "bad_quote")]),
        ('a,b\n1,x"y"\n', {}, [(2, 2, "bad_quote")]),
        ('a,b\n"1,2","x\ny""\n', {}, [(2, 2, "bad_quote")]),
        ('a,b\n"1,2","x\ny",z"\n', {}, [(3, 3, "bad_quote")]),
        (b"a,b\n\xc3\xa9,\xff\n", {}, [(2, 2, "not_utf8")]),
        (b"a,b\n1,\xff\x01\n", {}, [(2, 2, "not_utf8")]),
        (b"a,b\n1,\xff\n", {"charset": "utf-8"}, [(2, 2, "not_utf8")]),
        (b"a,b\n1,x", {"charset": "utf-16"}, [(None, None, "bad_encoding")]),
        (b"a,b\n1,x\n1,y\xc3", {}, [(3, 2, "not_utf8")]),
        (b"a,b\n1,x\n1,\x00\n", {}, [(3, 2, "nul_byte")]),
        (b'a,b,c\n"1,\n2",x,\x00\n', {}, [(3, 3, "nul_byte")]),
        ("a,b\n1,x\n".encode("utf-32"), {}, [(1, 1, "not_utf8")]),
        ("a,b\n1,x\n".encode("utf-16-le"), {"charset": "utf-8"}, [(1, 1, "nul_byte")]),
    ],
)
def test_faults_and_their_places(
    tmp_path: Path,
    text: str | bytes,
    options: dict[str, object],
    expected: list[tuple[int | None, int | None, str]],
) -> None:
    refusal = refuse(tmp_path, text, **options)
    assert [(error.line, error.column, error.code) for error in refusal.errors] == expected
    assert refusal.more == 0


def test_a_fault_names_its_column_and_quotes_little(tmp_path: Path) -> None:
    text = "height,depth,class\n1,2,x\n\x07" + "z" * 500 + ",2,y\n"
    (error,) = refuse(tmp_path, text, weight="height").errors
    assert "'height'" in error.detail
    assert "\\x07zzz" in error.detail
    assert len(error.detail) < 200


def test_the_first_twenty_faults_are_listed_and_the_others_counted(tmp_path: Path) -> None:
    refusal = refuse(tmp_path, "a,b\n" + "inf,x\n" * 50)
    assert [error.line for error in refusal.errors] == list(range(2, 22))
    assert refusal.more == 30
    assert refuse(tmp_path, "a,b\n" + "inf,x\n" * 5000).more == 980


def test_a_wrong_delimiter_is_suspected(tmp_path: Path) -> None:
    assert "' '" in refuse(tmp_path, "a b\n1 2\n").errors[0].detail
    assert "';'" in refuse(tmp_path, "a;b\n1;2\n", delimiter="tab").errors[0].detail


@pytest.mark.parametrize(
    ("options", "field", "says"),
    [
        ({"target": "nope"}, "target", "'a', 'b', 'c', 'd', 'e' and 1 more"),
        ({"target": "6"}, "target", "'6'"),
        ({"target": "-7"}, "target", "'-7'"),
        ({"target": "9" * 400}, "target", "…"),
        ({"weight": "nope"}, "weight", "'nope'"),
        ({"ignore": ("a", "nope")}, "ignore", "'nope'"),
        ({"weight": "f"}, "weight", "same column"),
        ({"group": "nope"}, "group", "'nope'"),
        ({"group": "f"}, "group", "same column"),
        ({"group": "a", "weight": "a"}, "group", "same column"),
        ({"group": "a", "ignore": ("a",)}, "ignore", "group"),
        ({"target": "a", "ignore": ("a",)}, "ignore", "target"),
        ({"weight": "a", "ignore": ("a",)}, "ignore", "weight"),
        ({"ignore": ("a", "b", "c", "d", "e")}, "ignore", "No column is left as a feature"),
        ({"delimiter": ""}, "delimiter", "one ASCII character"),
        ({"delimiter": ",,"}, "delimiter", "one ASCII character"),
        ({"delimiter": '"'}, "delimiter", "one ASCII character"),
        ({"delimiter": "1"}, "delimiter", "one ASCII character"),
        ({"delimiter": "§"}, "delimiter", "one ASCII character"),
        ({"index_base": "1"}, "index_base", "libsvm"),
        ({"n_features": 3}, "n_features", "libsvm"),
    ],
)
def test_options_that_do_not_fit(tmp_path: Path, options: dict[str, object], field: str, says: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        read_text(tmp_path, "a,b,c,d,e,f\n1,2,3,4,5,6\n", **options)
    assert caught.value.field == field
    assert says in caught.value.detail


def test_a_column_without_a_name_is_counted_in_one_way(tmp_path: Path) -> None:
    """`ignore` counts columns from 0, and places count from 1: the sentence holds one of them."""
    (error,) = refuse(tmp_path, "a,,b\n1,2,3\n").errors
    assert error.column == 2
    assert "ignore=1 (counted from 0)" in error.detail
    assert "2" not in error.detail
