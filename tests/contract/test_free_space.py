"""The disk space that stays free: uploads, parts of uploads, jobs and statistics are refused before it is used."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.datasets.formats import ReadOptions, TooLarge
from app.datasets.reading import parse
from app.errors import SpaceReserved
from app.main import create_app
from app.storage import free_space
from app.storage.blobs import make_folders
from app.storage.free_space import require_free_space
from app.web.context import context_of
from tests.support.builders import InProcess, checked_problem, in_chunks, migrated_database, temporary_settings

CSV = {"Content-Type": "text/csv"}


@pytest.fixture
def http(tmp_path: Path) -> Iterator[InProcess]:
    settings = temporary_settings(tmp_path, free_space_bytes=1 << 60)
    with migrated_database(settings.resolved_database_url):
        app = create_app(settings)
        yield InProcess(app)
        context_of(app).database.close()


def test_what_would_use_the_reserve_is_refused(tmp_path: Path) -> None:
    require_free_space(tmp_path, 0, 1 << 62)
    require_free_space(tmp_path, 1)
    require_free_space(tmp_path / "unmounted", 1 << 62)  # the store is away: its own check says so
    with pytest.raises(SpaceReserved, match="HYPERPLANE_FREE_SPACE_BYTES"):
        require_free_space(tmp_path, 1 << 62)
    with pytest.raises(SpaceReserved):
        require_free_space(tmp_path, 1, more_bytes=1 << 62)


def test_uploads_and_jobs_are_refused_and_reads_go_on(http: InProcess, tmp_path: Path) -> None:
    for content in (b"a,y\n1,2\n", in_chunks(b"a,y\n1,2\n", 3)):
        problem = checked_problem(http.post("/v1/datasets", content=content, headers=CSV), 507)
        assert problem["code"] == "storage_full"
        assert "HYPERPLANE_FREE_SPACE_BYTES" in problem["detail"]
    checked_problem(http.post("/v1/uploads", headers={**CSV, "Upload-Length": "100"}), 507)
    checked_problem(http.post("/v1/jobs", json={"dataset_id": "ds_1"}), 507)
    assert list((tmp_path / "staging").iterdir()) == []
    assert http.get("/v1/datasets").status_code == 200
    assert http.get("/livez").status_code == 200


def test_a_part_that_comes_when_the_disk_has_become_full_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = temporary_settings(tmp_path, free_space_bytes=1)
    with migrated_database(settings.resolved_database_url):
        app = create_app(settings)
        http = InProcess(app)
        upload = http.post("/v1/uploads", headers=CSV).json()["id"]
        monkeypatch.setattr(free_space.os, "statvfs", lambda _: type("Full", (), {"f_bavail": 0, "f_frsize": 1}))
        part = {"Upload-Offset": "0", "Content-Type": "application/partial-upload"}
        checked_problem(http.request("PATCH", f"/v1/uploads/{upload}", content=b"a,y\n", headers=part), 507)
        assert http.get(f"/v1/uploads/{upload}").json()["offset"] == 0
        context_of(app).database.close()


def test_a_compressed_file_is_bounded_by_its_size_as_text_and_as_arrays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_folders(tmp_path)
    file = tmp_path / "zeros.csv.gz"
    file.write_bytes(gzip.compress((b"0," * 500 + b"1\n") * 200))
    options = ReadOptions(encoding="gzip", header=False)
    parse.parse(tmp_path, file, "csv", options, 1 << 30)
    monkeypatch.setattr("app.datasets.formats.compressed.ANY_RATIO_BYTES", 0)
    with pytest.raises(TooLarge, match="100 times its size"):
        parse.parse(tmp_path, file, "csv", options, 1 << 30)
    monkeypatch.undo()
    monkeypatch.setattr(parse, "ANY_ARRAYS_BYTES", 0)
    with pytest.raises(TooLarge, match="the limit for its size"):
        parse.parse(tmp_path, file, "csv", options, 1 << 30)
    assert list((tmp_path / "staging").iterdir()) == []


def test_parsing_leaves_the_reserve_free(tmp_path: Path) -> None:
    make_folders(tmp_path)
    file = tmp_path / "plain.csv"
    file.write_bytes(b"a,y\n1,2\n3,4\n")
    parse.parse(tmp_path, file, "csv", ReadOptions(), 1 << 30, reserve_bytes=1)
    with pytest.raises(SpaceReserved):
        parse.parse(tmp_path, file, "csv", ReadOptions(), 1 << 30, reserve_bytes=1 << 60)
    assert list((tmp_path / "staging").iterdir()) == []
