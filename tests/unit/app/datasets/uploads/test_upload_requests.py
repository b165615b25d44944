"""Resumable uploads over HTTP: the responses to the client, and what becomes of the file."""

import base64
import errno
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.config import Settings
from app.datasets import endpoints as dataset_endpoints
from app.datasets.reading.receive import UploadBuffers
from app.datasets.schemas import Dataset
from app.datasets.uploads import endpoints, service
from app.datasets.uploads.part_files import Part, PartFiles
from app.db import Database
from app.db.tables import UploadRow
from app.errors import AppError, Invalid, Unavailable
from app.main import create_app
from app.storage.blobs import UntrustedBytes
from app.web.context import context_of
from tests.support.builders import NOBODY, InProcess, dataset_row, empty_tables, migrated_database, temporary_settings

CSV = {"Content-Type": "text/csv"}
MOST = 1000


@pytest.fixture
def parts(tmp_path: Path) -> PartFiles:
    return PartFiles(tmp_path)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return temporary_settings(tmp_path_factory.mktemp("uploads"), max_upload_bytes=MOST, upload_idle_seconds=100.0)


@pytest.fixture(scope="module")
def module_database(settings: Settings) -> Iterator[Database]:
    with migrated_database(settings.resolved_database_url) as database:
        yield database


@pytest.fixture
def database(module_database: Database) -> Database:
    empty_tables(module_database.engine)
    return module_database


class Server:
    """The application, in which a whole upload becomes a dataset at once, or an error of the test's choice."""

    def __init__(self, settings: Settings) -> None:
        self.http = InProcess(create_app(settings))
        self.context = context_of(self.http.app)
        self.context.blobs.check()
        self.made: list[Any] = []
        self.error: Exception | None = None

    async def create(self, _request: Any, response: Any, file: Path, whole: Any, prefer: str | None) -> Dataset:
        self.made.append((file.read_bytes(), whole, prefer))
        if self.error is not None:
            raise self.error
        response.status_code = 201
        shown = dataset_endpoints._show_new(dataset_row(id=f"ds_{NOBODY}"))
        return Dataset.model_validate({**shown, "deduplicated": False})

    def begin(self, **heads: str) -> str:
        made = self.http.post("/v1/uploads", headers={**CSV, **heads})
        assert made.status_code == 201, made.text
        location: str = made.headers["location"]
        return location

    def send(self, location: str, content: Any, offset: int, **heads: str) -> Any:
        return self.http.request("PATCH", location, content=content, headers={"Upload-Offset": str(offset), **heads})

    def head(self, location: str, **heads: str) -> Any:
        return self.http.request("HEAD", location, headers=heads)


@pytest.fixture(scope="module")
def module_server(settings: Settings, module_database: Database) -> Iterator[Server]:
    server = Server(settings)
    yield server
    server.context.database.close()


@pytest.fixture
def server(module_server: Server, database: Database, monkeypatch: pytest.MonkeyPatch) -> Server:
    with module_server.context.database.write() as session:  # the tables were emptied, also of the store's id
        from app.db.tables import StoreRow

        identity = (module_server.context.settings.data_dir / "store.id").read_text().strip()
        session.add(StoreRow(number=1, id=identity))
    module_server.made, module_server.error = [], None
    monkeypatch.setattr(endpoints, "create_from", module_server.create)
    return module_server


def test_an_upload_tells_how_far_it_is(server: Server) -> None:
    location = server.begin(**{"Upload-Length": "10", "Tus-Resumable": "1.0.0"})
    shown = server.http.get(location)
    assert (shown.json()["id"], shown.json()["length"]) == (location.rpartition("/")[2], 10)
    for answer in (shown, server.head(location)):
        assert answer.headers["upload-offset"] == "0"
        assert answer.headers["upload-complete"] == "?0"
        assert answer.headers["upload-length"] == "10"
        assert answer.headers["cache-control"] == "no-store"
        assert "tus-resumable" not in answer.headers
    assert server.head(location, **{"Tus-Resumable": "1.0.0"}).headers["tus-resumable"] == "1.0.0"
    answer = server.send(location, b"12345", 0)
    assert (answer.status_code, answer.headers["upload-offset"], answer.content) == (204, "5", b"")
    assert (server.head(location).headers["upload-offset"], server.made) == ("5", [])
    last = server.send(location, b"67890", 5, Prefer="wait=3")
    assert (last.status_code, last.headers["upload-complete"], last.json()["id"]) == (201, "?1", f"ds_{NOBODY}")
    ((content, whole, prefer),) = server.made
    assert (content, whole.size, whole.file_format, prefer) == (b"1234567890", 10, "csv", "wait=3")
    assert server.head(location).headers["upload-complete"] == "?1"
    assert server.http.get(location).json()["dataset_id"] == f"ds_{NOBODY}"
    assert server.send(location, b"", 10).json()["code"] == "upload_complete"


def test_a_length_need_not_be_known(server: Server) -> None:
    location = server.begin()
    assert "upload-length" not in server.head(location).headers
    assert server.send(location, b"123", 0, **{"Upload-Complete": "?0"}).status_code == 204
    assert server.send(location, b"", 3, **{"Upload-Complete": "?1"}).status_code == 201
    assert server.made[0][0] == b"123"


def test_a_last_part_that_is_too_short_is_refused_and_can_go_on(server: Server) -> None:
    location = server.begin(**{"Upload-Length": "10"})
    refused = server.send(location, b"123", 0, **{"Upload-Complete": "?1"})
    assert (refused.status_code, refused.json()["code"]) == (422, "upload_incomplete")
    assert server.head(location).headers["upload-offset"] == "3"


@pytest.mark.parametrize("write_bytes", [1, 1 << 20])
@pytest.mark.parametrize(
    ("length", "sizes"), [("10", (4, 6, 1)), (None, (500, 500, 1)), ("10", (11,)), (None, (1001,))]
)
def test_more_than_was_announced_or_is_allowed_is_refused(
    server: Server, monkeypatch: pytest.MonkeyPatch, length: str | None, sizes: tuple[int, ...], write_bytes: int
) -> None:
    monkeypatch.setattr(UploadBuffers, "write_bytes", write_bytes)
    location = server.begin(**({"Upload-Length": length} if length else {}))

    async def chunks() -> AsyncIterator[bytes]:
        for size in sizes:
            yield b"x" * size

    assert server.send(location, chunks(), 0).status_code == 413
    assert server.head(location).headers["upload-offset"] == str(sum(sizes[:-1])), "what came before is kept"
    assert server.made == []


@pytest.mark.parametrize("length", ["1001", str(2**62)])
def test_a_length_that_is_too_large_is_refused_at_once(server: Server, length: str) -> None:
    assert server.http.post("/v1/uploads", headers={**CSV, "Upload-Length": length}).status_code == 413
    assert server.http.post("/v1/uploads", headers={**CSV, "Upload-Length": str(2**62 + 1)}).status_code == 422


def test_space_is_asked_for_before_it_is_used(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(UploadBuffers, "require_free_space", lambda _buffers, more: asked.append(more))
    location = server.begin(**{"Upload-Length": "10"})
    server.begin()
    server.send(location, b"123", 0)
    server.send(location, b"", 3)
    assert asked == [10, 0, 3]


def test_bytes_are_written_in_large_pieces_and_made_durable_now_and_then(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(UploadBuffers, "write_bytes", 4)
    monkeypatch.setattr(endpoints, "SYNC_BYTES", 8)
    location = server.begin()
    done: list[Any] = []
    write, acknowledge = Part.write, service.acknowledge
    monkeypatch.setattr(Part, "write", lambda part, chunk: (done.append(bytes(chunk)), write(part, chunk))[1])
    monkeypatch.setattr(
        service, "acknowledge", lambda database, one, part: (done.append(part.offset), acknowledge(database, one, part))
    )

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(9):
            yield b"xy"

    assert server.send(location, chunks(), 0).headers["upload-offset"] == "18"
    assert done == [b"xyxy", b"xyxy", b"xyxy", 12, b"xyxy", b"xy", 18]


@pytest.mark.parametrize(
    ("error", "status", "is_kept"),
    [
        (Invalid("no rows"), 422, False),
        (AppError("an internal fault"), 500, True),
        (Unavailable("later"), 503, True),
        (UntrustedBytes(errno.EIO, "lost"), 503, True),
    ],
)
def test_a_file_that_can_never_be_a_dataset_is_abandoned(
    server: Server, error: Exception, status: int, is_kept: bool
) -> None:
    location = server.begin()
    server.error = error
    assert server.send(location, b"123", 0, **{"Upload-Complete": "?1"}).status_code == status
    head = server.head(location)
    assert head.status_code == (204 if is_kept else 404)
    if is_kept:
        assert head.headers["upload-offset"] == ("0" if isinstance(error, UntrustedBytes) else "3")
        assert head.headers["upload-complete"] == "?0"
    file = server.context.settings.data_dir / "uploads" / location.rpartition("/")[2]
    assert file.exists() is is_kept


def test_an_upload_is_abandoned_by_its_client(server: Server) -> None:
    location = server.begin()
    assert server.http.request("DELETE", location).status_code == 204
    for method in ("DELETE", "GET"):
        assert server.http.request(method, location).status_code == 404
    assert server.send(location, b"1", 0).status_code == 404


def test_the_type_of_a_part_is_that_of_a_part(server: Server) -> None:
    location = server.begin()
    offset = 0
    for media_type in ("application/partial-upload", "application/offset+octet-stream", "application/octet-stream", ""):
        assert server.send(location, b"1", offset, **{"Content-Type": media_type}).status_code == 204
        offset += 1
    refused = server.send(location, b"1", offset, **CSV)
    assert (refused.status_code, "application/partial-upload" in refused.text) == (415, True)


def encoded(name: str) -> str:
    return base64.b64encode(name.encode()).decode()


@pytest.mark.parametrize(
    ("metadata", "status", "file_format"),
    [
        (f"filename {encoded('data.libsvm')}", 201, "libsvm"),
        (f"note {encoded('x.csv')}, filename {encoded('data.csv.gz')}", 201, "csv"),
        (f"note {encoded('x.csv')}", 415, None),
        (None, 415, None),
        ("filename b@d!", 400, None),
        (f"filename {encoded('data.csv')[:4]}@{encoded('data.csv')[4:]}", 400, None),
        (f"filename {base64.b64encode(bytes([255, 254])).decode()}", 400, None),
    ],
)
def test_the_format_can_be_told_by_the_name_of_the_file(
    server: Server, database: Database, metadata: str | None, status: int, file_format: str | None
) -> None:
    heads = {"Content-Type": "application/octet-stream"} | ({"Upload-Metadata": metadata} if metadata else {})
    made = server.http.post("/v1/uploads?name=n&label.k=v", headers=heads)
    assert made.status_code == status, made.text
    if file_format is not None:
        with database.read() as session:
            row = service.get(session, made.json()["id"])
        assert (row.format, row.name, row.labels) == (file_format, "n", {"k": "v"})
        assert row.options["encoding"] == ("gzip" if metadata and "note" in metadata else "identity")


@pytest.mark.parametrize(("delimiter", "status"), [("tab", 201), (";", 201), ("ab", 422), ("", 422), ("5", 422)])
def test_a_delimiter_is_checked_before_anything_is_sent(server: Server, delimiter: str, status: int) -> None:
    answer = server.http.post("/v1/uploads", headers=CSV, params={"delimiter": delimiter})
    assert answer.status_code == status
    if status == 422:
        assert "must be 'tab' or one ASCII character" in answer.json()["errors"][0]["detail"]


def test_a_store_that_is_away_is_seen_before_anything_is_written(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise OSError(errno.ENOTCONN, "away")

    parts = server.context.part(PartFiles)
    monkeypatch.setattr(parts, "check", away)
    assert server.http.post("/v1/uploads", headers=CSV).status_code == 503
    with server.context.database.read() as session:
        assert session.query(UploadRow).count() == 0


@pytest.mark.parametrize("is_away", [True, False])
def test_a_store_that_goes_away_in_the_middle_is_waited_for(
    server: Server, monkeypatch: pytest.MonkeyPatch, is_away: bool
) -> None:
    """Its files are missing then. A file that is missing from an available store is an internal fault."""
    location = server.begin(**{"Upload-Length": "5"})
    folder = server.context.settings.data_dir
    seal = Part.seal

    def seal_without_store(part: Part) -> str:
        (folder if is_away else part.path).rename(folder.parent / "unmounted")
        return seal(part)

    monkeypatch.setattr(Part, "seal", seal_without_store)
    try:
        answer = server.send(location, b"12345", 0)
    finally:
        (folder.parent / "unmounted").rename(folder if is_away else folder / "uploads" / location.rpartition("/")[2])
    assert (answer.status_code, answer.json()["retryable"]) == ((503, True) if is_away else (500, False))
    monkeypatch.undo()
    monkeypatch.setattr(endpoints, "create_from", server.create)
    assert server.send(location, b"", 5).status_code == 201
