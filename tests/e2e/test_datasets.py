"""Datasets over HTTP: every way to send one, what is said while it is read, looking inside, freeing its bytes."""

import gzip
import hashlib
import io
import json
import socket
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.support.builders import checked_problem
from tests.support.serving import Service, checked, running_service, wait_until
from tests.support.tables import csv_text, libsvm_text, noisy_rows

CSV = {"Content-Type": "text/csv"}
ASYNC = {"Prefer": "respond-async"}
X, Y = noisy_rows(40, 3, seed=1)
NAMES = [f"x{number}" for number in range(3)]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running_service(tmp_path_factory.mktemp("service"), workers=0) as service:
        yield service


def table() -> pa.Table:
    return pa.table({**{name: X[:, number] for number, name in enumerate(NAMES)}, "label": Y})


def as_tsv() -> bytes:
    return csv_text(X, Y).replace(b",", b"\t")


def as_ndjson() -> bytes:
    return "".join(json.dumps(row) + "\n" for row in table().to_pylist()).encode()


def as_parquet() -> bytes:
    sink = io.BytesIO()
    pyarrow.parquet.write_table(table(), sink)
    return sink.getvalue()


def as_arrow() -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table().schema) as writer:
        writer.write_table(table())
    return sink.getvalue()


def as_npz() -> bytes:
    sink = io.BytesIO()
    np.savez(sink, X=X, y=Y)
    return sink.getvalue()


WRITERS: dict[str, Callable[[], bytes]] = {
    "text/csv": lambda: csv_text(X, Y),
    "text/tab-separated-values": as_tsv,
    "text/x-libsvm": lambda: libsvm_text(X, Y),
    "application/x-ndjson": as_ndjson,
    "application/vnd.apache.parquet": as_parquet,
    "application/vnd.apache.arrow.stream": as_arrow,
    "application/x-npz": as_npz,
}
ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "identity": lambda content: content,
    "gzip": gzip.compress,
    "zstd": lambda content: pa.compress(content, codec="zstd", asbytes=True),
}


def blobs(service: Service) -> set[str]:
    return {path.parent.name + path.name for path in (service.data_dir / "blobs").glob("??/*")}


def staged(service: Service) -> list[Path]:
    return list((service.data_dir / "staging").iterdir())


def post(service: Service, content: Any, headers: dict[str, str] = CSV, **query: Any) -> httpx.Response:
    return service.http.post("/v1/datasets", content=content, headers=headers, params=query)


def await_end(service: Service, dataset_id: str) -> dict[str, Any]:
    ended = service.get(f"/v1/datasets/{dataset_id}", wait=30)
    assert ended["done"]
    return ended


@pytest.mark.parametrize("encoding", ENCODERS)
@pytest.mark.parametrize("media_type", WRITERS)
def test_every_format_holds_the_same_rows_and_is_given_back_as_it_came(
    service: Service, media_type: str, encoding: str
) -> None:
    content = ENCODERS[encoding](WRITERS[media_type]())
    data = checked(post(service, content, {"Content-Type": media_type, "Content-Encoding": encoding}))
    assert (data["status"], data["done"], data["n_rows"], data["n_features"]) == ("ready", True, 40, 3)
    assert (data["sha256"], data["bytes"]) == (hashlib.sha256(content).hexdigest(), len(content))
    assert data["classes"] == [{"label": -1, "count": int((Y < 0).sum())}, {"label": 1, "count": int((Y > 0).sum())}]
    preview = service.get(f"/v1/datasets/{data['id']}/preview", rows=100)
    assert [row["label"] for row in preview["data"]] == Y.tolist()
    np.testing.assert_array_equal([row["values"] for row in preview["data"]], X)
    with service.http.stream("GET", f"/v1/datasets/{data['id']}/content") as response:
        assert response.headers["content-type"].partition(";")[0] == media_type
        assert response.headers.get("content-encoding", "identity") == encoding
        assert b"".join(response.iter_raw()) == content


@pytest.mark.parametrize(
    "part", [("rows.csv", "text/csv"), ("rows.csv", "application/octet-stream"), ("rows.csv.gz", "")]
)
def test_a_form_with_one_file_is_taken(service: Service, part: tuple[str, str]) -> None:
    name, media_type = part
    content = csv_text(X * 2, Y)
    sent = gzip.compress(content) if name.endswith(".gz") else content
    answer = service.http.post(
        "/v1/datasets", files={"file": (name, sent, media_type)}, params={"name": f"form-{name}"}
    )
    assert checked(answer)["sha256"] == hashlib.sha256(sent).hexdigest()
    assert answer.json()["n_rows"] == 40


@pytest.mark.parametrize(
    ("files", "status"),
    [
        ({"data": ("rows.csv", b"a,y\n1,0\n", "text/csv")}, 422),
        ({"file": ("rows.doc", b"a,y\n1,0\n", "application/octet-stream")}, 415),
        ({"file": ("rows.csv", b"", "text/csv")}, 422),
        ({"file": ("rows.csv", b"a,y\n1,0\n", "text/csv"), "more": ("b.csv", b"1", "text/csv")}, 422),
    ],
)
def test_another_form_is_refused(service: Service, files: dict[str, Any], status: int) -> None:
    before = blobs(service)
    checked_problem(service.http.post("/v1/datasets", files=files), status)
    assert (staged(service), blobs(service)) == ([], before)


def test_a_form_that_breaks_its_own_rules_is_unparsable(service: Service) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    checked_problem(post(service, b"--x\r\nno end", headers), 400)
    checked_problem(post(service, b"x", {"Content-Type": "multipart/form-data"}), 400)


def test_a_file_is_read_in_the_background_when_the_client_does_not_wait(service: Service) -> None:
    header, _, rows = csv_text(*noisy_rows(2000, 20, seed=2)).partition(b"\n")
    answer = post(service, b"\n".join([header, *[rows] * 30]), {**CSV, **ASYNC}, name="large")
    assert answer.status_code == 201
    begun = answer.json()
    assert (begun["status"], begun["done"], begun["n_rows"], begun["storage"]) == ("processing", False, None, None)
    refused = checked_problem(service.http.post("/v1/jobs", json={"dataset_id": begun["id"]}), 409)
    assert refused["code"] == "dataset_not_ready"
    checked_problem(service.http.get(f"/v1/datasets/{begun['id']}/preview"), 409)
    listed = service.get("/v1/datasets", status="processing")["data"]
    assert [one["id"] for one in listed] == [begun["id"]]
    ended = await_end(service, begun["id"])
    assert (ended["status"], ended["n_rows"], ended["n_features"], ended["error"]) == ("ready", 60_000, 20, None)


def test_a_file_found_invalid_later_is_told_for_a_day_and_frees_its_bytes(service: Service) -> None:
    before, content = blobs(service), b"a,y\n1,0\ninf,1\n2,0\n"
    begun = checked(post(service, content, {**CSV, **ASYNC}))
    ended = await_end(service, begun["id"])
    assert (ended["status"], ended["done"], ended["n_rows"]) == ("invalid", True, None)
    assert ended["error"]["code"] == "invalid_file"
    assert (ended["errors"][0]["line"], ended["errors"][0]["column"]) == (3, 1)
    left = datetime.fromisoformat(ended["expires_at"]) - datetime.now(UTC)
    assert timedelta(hours=23) < left <= timedelta(hours=24)
    wait_until(lambda: blobs(service) == before, 5, "the bytes to be freed")
    refused = checked_problem(service.http.post("/v1/jobs", json={"dataset_id": begun["id"]}), 422)
    assert refused["errors"][0]["code"] == "dataset_invalid"
    for inside in ("preview", "statistics", "issues", "content"):
        checked_problem(service.http.get(f"/v1/datasets/{begun['id']}/{inside}"), 409)
    checked_problem(post(service, content), 422)  # the same bytes are tried again, not remembered
    assert service.http.delete(f"/v1/datasets/{begun['id']}").json()["bytes_freed"] == 0


def test_the_same_bytes_and_options_are_one_dataset(service: Service) -> None:
    content = csv_text(X * 3, Y)
    first = checked(post(service, content))
    again = post(service, content)
    assert (again.status_code, again.json()["id"], again.json()["deduplicated"]) == (200, first["id"], True)
    assert checked(post(service, content, target="x0"))["id"] != first["id"]


def test_deleting_frees_what_nothing_else_needs_and_says_how_much(service: Service) -> None:
    before = blobs(service)
    content = csv_text(X * 4, Y)
    first, second = (checked(post(service, content, name=name)) for name in ("one", "two"))
    service.get(f"/v1/datasets/{second['id']}/statistics")
    own = blobs(service) - before
    sizes = {sha: (service.data_dir / "blobs" / sha[:2] / sha[2:]).stat().st_size for sha in own}
    assert service.http.delete(f"/v1/datasets/{first['id']}").json() == {
        "id": first["id"],
        "deleted": True,
        "bytes_freed": 0,
    }
    assert blobs(service) == before | own
    freed = service.http.delete(f"/v1/datasets/{second['id']}").json()["bytes_freed"]
    assert freed == sum(sizes.values())
    assert blobs(service) == before
    checked_problem(service.http.delete(f"/v1/datasets/{second['id']}"), 404)


def test_statistics_are_paged_by_column(service: Service) -> None:
    data = checked(post(service, csv_text(X * 5, Y)))
    path = f"/v1/datasets/{data['id']}/statistics"
    first = service.http.get(path, params={"limit": 2})
    page = first.json()
    assert [one["name"] for one in page["data"]] == ["x0", "x1"]
    assert page["has_more"]
    assert "link" in first.headers
    rest = service.get(path, limit=2, cursor=page["next_cursor"])
    assert ([one["name"] for one in rest["data"]], rest["has_more"]) == (["x2"], False)
    for number, column in enumerate(page["data"] + rest["data"]):
        values = X[:, number] * 5
        assert (column["index"], column["count"], column["missing"], column["zeros"]) == (number, 40, 0, 0)
        assert (column["min"], column["max"]) == (values.min(), values.max())
        assert (column["mean"], column["std"]) == pytest.approx((values.mean(), values.std()))
        assert column["quantiles"]["q50"] == pytest.approx(np.median(values))
        counts, edges = np.histogram(values, bins=10)
        assert column["histogram"]["counts"] == counts.tolist()
        assert column["histogram"]["edges"] == pytest.approx(edges.tolist())
    checked_problem(service.http.get(path, params={"cursor": "am9iXzE"}), 422)


def test_the_doctor_speaks(service: Service) -> None:
    ill = np.column_stack([X, np.full(40, 2.0), X[:, 0] * 1e6])
    data = checked(post(service, csv_text(ill, Y), header="true"))
    for _ in range(2):  # computed, then remembered
        found = {one["code"]: one for one in service.get(f"/v1/datasets/{data['id']}/issues")["data"]}
        assert set(found) == {"constant_columns", "scale_disparity"}
        assert found["constant_columns"]["columns"] == ["x3"]
    sound = checked(post(service, csv_text(X * 6, Y), header="true"))
    assert service.get(f"/v1/datasets/{sound['id']}/issues") == {"dataset_id": sound["id"], "data": []}


def test_a_part_of_the_content_can_be_asked_for(service: Service) -> None:
    content = csv_text(X * 7, Y)
    data = checked(post(service, content, name="parts"))
    path = f"/v1/datasets/{data['id']}/content"
    for wanted, part in (("bytes=3-9", content[3:10]), ("bytes=-5", content[-5:]), ("bytes=7-", content[7:])):
        response = service.http.get(path, headers={"Range": wanted})
        assert (response.status_code, response.content) == (206, part)
    for wrong in (f"bytes={len(content)}-", "bytes=9-3", "bytes=-0", "bytes=0-1,3-4", "lines=1-2", "bytes=-"):
        refused = service.http.get(path, headers={"Range": wrong})
        checked_problem(refused, 416)
        assert refused.headers["content-range"] == f"bytes */{len(content)}"
    whole = service.http.get(path)
    assert whole.headers["etag"] == f'"{data["sha256"]}"'
    assert whole.headers["content-disposition"] == 'attachment; filename="parts.csv"'


def test_lists_are_filtered(service: Service) -> None:
    classes = checked(post(service, csv_text(X * 8, Y), name="filtered", **{"label.team": "blue"}))
    numbers = checked(post(service, csv_text(X * 8, X[:, 0]), name="filtered"))

    def ids(**query: Any) -> list[str]:
        return [one["id"] for one in service.get("/v1/datasets", name="filtered", **query)["data"]]

    assert ids() == [numbers["id"], classes["id"]]
    assert ids(task="regression") == [numbers["id"]]
    assert ids(task="binary", status="ready") == [classes["id"]]
    assert ids(**{"label.team": "blue"}) == [classes["id"]]
    assert ids(created_after=classes["created_at"]) == [numbers["id"]]
    assert ids(created_after="2999-01-01T00:00:00") == []
    checked_problem(service.http.get("/v1/datasets", params={"created_after": "soon"}), 422)
    checked_problem(service.http.get("/v1/datasets", params={"status": "lost"}), 422)


@pytest.mark.parametrize("sent", [0, 1, 70_000, 3_000_000])
def test_a_client_that_leaves_in_the_middle_leaves_nothing(service: Service, sent: int) -> None:
    before = (len(service.get("/v1/datasets", limit=200)["data"]), blobs(service))
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        head = f"POST /v1/datasets HTTP/1.1\r\nHost: 127.0.0.1:{service.port}\r\nContent-Type: text/csv\r\n"
        connection.sendall(head.encode() + b"Content-Length: 5000000\r\n\r\n" + b"1,2,3\n" * (sent // 6))
        if sent:
            wait_until(lambda: staged(service), 10, "the upload to begin")
    wait_until(lambda: staged(service) == [], 10, "the temporary file to be removed")
    assert (len(service.get("/v1/datasets", limit=200)["data"]), blobs(service)) == before


def npz_of_eight_tebibytes() -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for name, shape in (("X", "(1099511627776, 1)"), ("y", "(1099511627776,)")):
            header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
            prefix = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little")
            archive.writestr(f"{name}.npy", prefix + header.encode() + bytes(800))
    return sink.getvalue()


BOMBS = {
    "gzip": ({**CSV, "Content-Encoding": "gzip"}, lambda: gzip.compress(bytes(100_000_000))),
    "npz": ({"Content-Type": "application/x-npz"}, npz_of_eight_tebibytes),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_a_bomb_is_refused_and_the_service_goes_on(service: Service, kind: str) -> None:
    headers, make = BOMBS[kind]
    response = post(service, make(), headers)
    assert response.status_code in (413, 422), response.text
    assert service.http.get("/livez").status_code == 200
    assert staged(service) == []


def test_a_table_of_every_kind_is_described_shown_and_judged(service: Service) -> None:
    random = np.random.default_rng(5)
    rows = [["id", "age", "job", "active", "joined", "note", "y"]]
    for row in range(60):
        age = "?" if row % 10 == 0 else "" if row % 10 == 1 else str(20 + row)
        job = ["Clerk", "Sales, retail", "Ünion"][random.integers(3)]
        active, joined = ["yes", "No"][random.integers(2)], f"2020-01-{1 + row % 28:02}"
        note = f"customer {row} said that {random.integers(10**6)} is far too much"
        rows.append([f"u{row:03}", age, job, active, joined, note, "ab"[row % 2]])
    rows[1][5], rows[2][2] = "long words " * 200, ""
    content = "\n".join(",".join(f'"{cell}"' for cell in row) for row in rows).encode()
    data = checked(post(service, content, header="true"))
    found = {column["name"]: column for column in data["columns"]}
    assert {name: (one["role"], one["kind"], one["missing"]) for name, one in found.items()} == {
        "id": ("ignored", "categorical", 0),
        "age": ("feature", "numeric", 12),
        "job": ("feature", "categorical", 1),
        "active": ("feature", "boolean", 0),
        "joined": ("feature", "date", 0),
        "note": ("feature", "text", 0),
        "y": ("target", "categorical", 0),
    }
    assert (found["job"]["levels"], found["job"]["reason"]) == (3, "3 distinct values")
    assert found["note"]["reason"].startswith("text: ")
    codes = [warning["code"] for warning in data["warnings"]]
    assert codes == ["target_guessed", "marked_missing", "identifier_left_out"]
    preview = service.get(f"/v1/datasets/{data['id']}/preview", rows=4)
    first, second, third, _ = (row["values"] for row in preview["data"])
    assert first[:4] == [None, rows[1][2], rows[1][3] == "yes", "2020-01-01T00:00:00+00:00"]
    assert (len(first[4]), first[4][-1]) == (1000, "…")
    assert second[:2] == [None, None]
    assert (third[0], third[4]) == (22.0, rows[3][5])
    figures = {one["name"]: one for one in service.get(f"/v1/datasets/{data['id']}/statistics")["data"]}
    assert (figures["age"]["count"], figures["age"]["missing"], figures["age"]["min"]) == (48, 12, 22)
    jobs = [row[2] for row in rows[1:] if row[2]]
    assert figures["job"]["top"] == sorted(
        ({"level": level, "count": jobs.count(level)} for level in set(jobs)),
        key=lambda one: (-one["count"], one["level"]),
    )
    assert (figures["job"]["mean"], figures["job"]["levels"], figures["job"]["histogram"]) == (None, 3, None)
    assert figures["note"]["length"]["max"] == 2200
    assert figures["active"]["mean"] == pytest.approx(sum(row[3] == "yes" for row in rows[1:]) / 60)
    issues = {one["code"]: one["columns"] for one in service.get(f"/v1/datasets/{data['id']}/issues")["data"]}
    assert issues == {"marked_missing": ["age"], "identifier_left_out": []}
