"""What the client sends for the data that it is given, and in which shape predictions come back."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hyperplane._shared.payloads import payload_of
from hyperplane._shared.rows import predicted_frame, rows_body

ARROW, CSV, NPZ = "application/vnd.apache.arrow.stream", "text/csv", "application/x-npz"
ROW = {"a": 1.5, "b": -2.0}
FRAME = pd.DataFrame({"a": [1.5, None], "word": ["x", "y"], "flag": [True, False]})


def content(data: Any, **options: Any) -> tuple[bytes, str]:
    payload = payload_of(data, **options)
    with payload.open() as file:
        read = file.read()
    assert len(read) == payload.size
    return read, payload.headers["Content-Type"]


def arrow_rows(sent: bytes) -> list[dict[str, Any]]:
    return list(pa.ipc.open_stream(sent).read_all().to_pylist())


@pytest.fixture
def without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)


class PolarsFrame:
    """The part of a polars DataFrame that the client uses: it writes an Arrow stream by itself."""

    columns = ("a",)

    def write_csv(self) -> str:
        raise AssertionError("Arrow keeps the types")

    def write_ipc_stream(self, file: io.BytesIO, compat_level: Any) -> None:
        assert compat_level == "oldest"
        file.write(b"arrow")


class PolarsSeries:
    """The part of a polars Series that the client uses: values without an index."""

    def to_frame(self) -> PolarsFrame:
        return PolarsFrame()

    def to_list(self) -> list[Any]:
        return [1.5, None]


def test_files_and_bytes_are_sent_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "rows.libsvm.gz"
    file.write_bytes(b"compressed")
    payload = payload_of(file)
    assert payload.headers == {"Content-Type": "text/x-libsvm", "Content-Encoding": "gzip"}
    assert content(str(file))[0] == b"compressed"
    assert content(b"a,b\n") == (b"a,b\n", CSV)
    assert content(b"PAR1...")[1] == "application/vnd.apache.parquet"
    assert content(b"1 1:2", content_type="libsvm") == (b"1 1:2", "text/x-libsvm")
    assert content(io.BytesIO(b"x,y\n")) == (b"x,y\n", CSV)
    assert content(io.StringIO("ä\n")) == ("ä\n".encode(), CSV)
    with file.open("rb") as opened:
        assert payload_of(opened).headers["Content-Encoding"] == "gzip"
    (tmp_path / "rows.xyz").touch()
    with pytest.raises(ValueError, match=r"rows.xyz: the suffix must be one of .csv"):
        payload_of(tmp_path / "rows.xyz")
    with pytest.raises(TypeError, match="cannot upload int"):
        payload_of(3)


def test_frames_keep_their_types() -> None:
    sent, media_type = content(FRAME)
    assert media_type == ARROW
    assert arrow_rows(sent) == [{"a": 1.5, "word": "x", "flag": True}, {"a": None, "word": "y", "flag": False}]
    assert arrow_rows(content(pa.table({"a": [1]}))[0]) == [{"a": 1}]
    assert arrow_rows(content(pd.DataFrame([[1, 2]]))[0]) == [{"0": 1, "1": 2}]


@pytest.mark.usefixtures("without_pyarrow")
def test_frames_are_csv_without_pyarrow() -> None:
    payload = payload_of(pd.DataFrame([ROW]))
    assert content(pd.DataFrame([ROW])) == (b"a,b\n1.5,-2.0\n", CSV)
    assert payload.options == {"header": "true"}
    body = rows_body(pd.DataFrame([ROW]))
    assert (body.content, body.headers["Content-Type"]) == (b"a,b\n1.5,-2.0\n", "text/csv; header=present")


def test_a_polars_frame_writes_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    class Level:
        @staticmethod
        def oldest() -> str:
            return "oldest"

    monkeypatch.setitem(sys.modules, "polars", type("polars", (), {"CompatLevel": Level}))
    assert content(PolarsFrame()) == (b"arrow", ARROW)
    body = rows_body(PolarsFrame())
    assert (body.content, body.headers["Accept"]) == (b"arrow", ARROW)


@pytest.mark.parametrize("X", [np.eye(3), sp.csr_array(np.eye(3)), sp.coo_matrix(np.eye(3)), np.eye(3).tolist()])
def test_a_pair_is_npz(X: Any) -> None:
    sent, media_type = content((X, pd.Series(["a", "b", "a"])), weight=np.ones(3), group=[1, 1, 2])
    assert media_type == NPZ
    archive = np.load(io.BytesIO(sent), allow_pickle=False)
    rows = archive["X"] if "X" in archive else sp.csr_array((archive["data"], archive["indices"], archive["indptr"]))
    np.testing.assert_array_equal(rows if isinstance(rows, np.ndarray) else rows.toarray(), np.eye(3))
    assert archive["y"].tolist() == ["a", "b", "a"]
    assert (archive["weight"].tolist(), archive["group"].tolist()) == ([1, 1, 1], [1, 1, 2])


def test_a_pair_with_a_frame_names_its_target() -> None:
    payload = payload_of((FRAME, pd.Series(["yes", "no"], name="member")))
    with payload.open() as file:
        assert [row["member"] for row in arrow_rows(file.read())] == ["yes", "no"]
    assert payload.options == {"target": "member"}
    assert payload_of((pa.table({"a": [1]}), ["x"])).options == {"target": "target"}
    with pytest.raises(ValueError, match="has a column 'a' already"):
        payload_of((FRAME, pd.Series([1, 2], name="a")))
    with pytest.raises(TypeError, match="weight: name a column"):
        payload_of(FRAME, weight=[1, 2])


def test_a_series_or_a_dict_is_one_row() -> None:
    assert rows_body(ROW).json == {"instances": [ROW]}
    assert rows_body(pd.DataFrame([ROW]).iloc[0]).json == {"instances": [ROW]}
    assert rows_body(pd.Series([1.5, np.nan])).json == {"instances": [[1.5, None]]}
    mixed = pd.Series(
        [np.float64(1.5), "word", pd.NA, None, pd.Timestamp("2026-01-02"), pd.NaT], index=list("abcdef"), dtype=object
    )
    expected = {"a": 1.5, "b": "word", "c": None, "d": None, "e": "2026-01-02T00:00:00", "f": None}
    assert rows_body(mixed).json == {"instances": [expected]}
    assert rows_body(PolarsSeries()).json == {"instances": [[1.5, None]]}


def test_arrays_are_npy_and_words_json() -> None:
    body = rows_body(np.array([1.0, 2.0]))
    assert body.content is not None
    assert np.load(io.BytesIO(body.content)).tolist() == [[1.0, 2.0]]
    words = np.array([["a", 1], [None, 2]], dtype=object)
    assert rows_body(words).json == {"instances": [["a", 1], [None, 2]]}
    assert rows_body(sp.csr_array(np.eye(2))).headers == {"Content-Type": NPZ}


def test_a_frame_comes_back_with_its_index() -> None:
    frame = FRAME.set_axis([7, 3])
    answer = io.BytesIO()
    table = pa.table({"label": ["007", "b"], "score": [0.5, -1.0]})
    with pa.ipc.new_stream(answer, table.schema) as writer:
        writer.write_table(table)
    found = predicted_frame(frame, answer.getvalue(), ARROW)
    assert (found.index.tolist(), found["label"].tolist()) == ([7, 3], ["007", "b"])
    assert predicted_frame(pa.table({"a": [1, 2]}), answer.getvalue(), ARROW) == table
    as_json = json.dumps({"predictions": [{"label": "007"}, {"label": "b"}]}).encode()
    found = predicted_frame(frame, as_json, "application/json")
    assert (found.index.tolist(), found["label"].tolist()) == ([7, 3], ["007", "b"])
