"""The order in which a store makes things durable, and what it leaves when a step of that order fails."""

import errno
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.errors import SpaceReserved
from app.storage import BlobStore, blobs, free_space
from app.storage.blobs import StagedArray, UntrustedBytes, make_durable_folder, make_folders
from app.storage.identity import StoreAway
from tests.support.file_calls import FileCalls


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path)


def named(sha256: str) -> tuple[str, str]:
    return f"blobs/{sha256[:2]}", f"blobs/{sha256[:2]}/{sha256[2:]}"


def naming(sha256: str, source: str) -> list[tuple[str, ...]]:
    folder, final = named(sha256)
    return [
        ("utime", source),
        ("link", source, "staging/name-*"),
        ("replace", "staging/name-*", final),
        ("fsync", folder),
    ]


def test_bytes_are_durable_before_they_have_their_name_and_the_name_before_the_end(
    store: BlobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = FileCalls(monkeypatch, tmp_path)
    sha256 = store.put(b"content")
    folder, _ = named(sha256)
    staged = "staging/blob-*"
    assert calls.done == [("fsync", staged), ("mkdir", folder), ("fsync", "blobs"), *naming(sha256, staged)]
    calls.done.clear()
    assert store.put(b"content") == sha256
    assert calls.done == [("fsync", staged), *naming(sha256, staged)], "the folder is durable since the first time"
    assert list(store.staging.iterdir()) == []


@pytest.mark.parametrize("is_large", [False, True])
def test_arrays_are_durable_before_they_have_their_name(
    store: BlobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_large: bool
) -> None:
    monkeypatch.setattr(blobs, "BLOCK_BYTES", 24 if is_large else 25)
    calls = FileCalls(monkeypatch, tmp_path)
    sha256 = store.put_array(np.arange(3.0))
    folder, _ = named(sha256)
    synced = [("fsync", "staging/blob-*")] * (2 if is_large else 1)  # a large one is synced while it is hashed
    assert calls.done == [*synced, ("mkdir", folder), ("fsync", "blobs"), *naming(sha256, "staging/blob-*")]
    assert store.is_intact(sha256)
    np.testing.assert_array_equal(store.load_array(sha256), np.arange(3.0))


def test_a_received_file_is_durable_before_it_has_its_name(
    store: BlobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "received"
    file.write_bytes(b"content")
    os.utime(file, (0, 0))
    sha256 = blobs.hash_file(file)
    calls = FileCalls(monkeypatch, tmp_path)
    store.adopt(file, sha256)
    folder, _ = named(sha256)
    assert calls.done == [("fsync", "received"), ("mkdir", folder), ("fsync", "blobs"), *naming(sha256, "received")]
    assert (file.exists(), store.is_intact(sha256)) == (True, True)
    assert time.time() - store.path(sha256).stat().st_mtime < 3600.0, "its grace period begins now"


def test_a_received_file_that_cannot_be_made_durable_is_not_trusted(
    store: BlobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "received"
    file.write_bytes(b"content")

    def fail(_handle: int) -> None:
        raise OSError(errno.EIO, "made up")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(UntrustedBytes) as raised:
        store.adopt(file, blobs.hash_file(file))
    assert (raised.value.errno, raised.value.strerror) == (errno.EIO, "made up")
    assert list(store) == []


def test_a_large_array_whose_fsync_failed_is_never_committed(store: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blobs, "BLOCK_BYTES", 8)
    fsync, failures = os.fsync, [OSError(errno.EIO, "made up")]

    def sync(handle: int) -> None:
        if failures:
            raise failures.pop()
        fsync(handle)

    monkeypatch.setattr(os, "fsync", sync)
    with store.stage_array(np.dtype("f8"), ()) as staged:
        staged.append(np.arange(3.0))
        with pytest.raises(OSError, match="made up"):
            staged.commit()
        with pytest.raises(ValueError, match="closed file"):
            staged.commit()
    assert (list(store), list(store.staging.iterdir())) == ([], [])


def test_a_rename_that_fails_leaves_no_second_name(store: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "made up")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="made up"):
        store.put(b"content")
    assert (list(store), list(store.staging.iterdir())) == ([], [])


def test_new_folders_are_durable_up_to_the_one_that_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = FileCalls(monkeypatch, tmp_path)
    make_durable_folder(tmp_path / "a" / "b" / "c")
    assert [one for one in calls.done if one[0] == "fsync"] == [("fsync", "a/b"), ("fsync", "a"), ("fsync", ".")]
    calls.done.clear()
    make_durable_folder(tmp_path / "a" / "b" / "c")
    assert calls.done == []
    make_folders(tmp_path / "a")
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["b", "blobs", "staging"]
    assert calls.done.count(("fsync", "a")) == 2


def test_a_folder_is_opened_for_its_fsync_and_closed_again(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        blobs.fsync_folder(tmp_path)
    assert len(os.listdir("/proc/self/fd")) < before + 10
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        blobs.fsync_folder(tmp_path / "file")


# --- what a store holds -----------------------------------------------------------------------------------------------


def checks(store: BlobStore) -> list[bool]:
    """The store asks from now on whether it is the right one; returns how it asked."""
    asked: list[bool] = []
    store._check = asked.append
    return asked


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (lambda store, known: store.put(b"new"), [True, False]),
        (lambda store, known: store.path(known), [False]),
        (lambda store, known: store.holds(known), [False]),
        (lambda store, known: store.size(known), [False]),
        (lambda store, known: list(store), [False]),
        (lambda store, known: store.check_writable(), [True]),
        (lambda store, known: store.sweep_staging(0.0), [True]),
        (lambda store, known: store.adopt(store._file(known), known), [True, False]),
        (lambda store, known: store.explain(FileNotFoundError()), [True]),
        (lambda store, known: store.explain(OSError(errno.EIO, "x")), []),
    ],
)
def test_everything_asks_first_whether_this_is_the_store_and_only_writers_may_found_it(
    store: BlobStore, act: Any, expected: list[bool]
) -> None:
    known = store.put(b"known")
    asked = checks(store)
    act(store, known)
    assert asked == expected


def test_a_store_that_asks_or_is_only_looked_at_makes_no_folders(tmp_path: Path) -> None:
    BlobStore(tmp_path, lambda _establish: None)
    BlobStore(tmp_path, create=False)
    assert list(tmp_path.iterdir()) == []


def test_blobs_are_listed_in_order_and_by_age(store: BlobStore) -> None:
    hashes = [store.put(b"%d" % number) for number in range(30)]
    assert list(store) == sorted(hashes)
    assert [store.size(one) for one in hashes[:2]] == [1, 1]
    old = time.time() - 100.0
    os.utime(store.path(hashes[3]), (old, old))
    assert list(store.untouched(99.0)) == [hashes[3]]
    assert list(store.untouched(110.0)) == []
    assert store.remove(hashes[3], 110.0) == 0
    assert store.remove(hashes[4], 99.0) == 0
    assert store.remove(hashes[3], 99.0) == 1
    assert store.remove(hashes[3]) == 0, "another process was first"
    assert store.remove(hashes[10]) == 2
    assert sorted(set(hashes) - set(store)) == sorted([hashes[3], hashes[10]])


def test_a_blob_that_vanishes_while_it_is_looked_at_is_passed_over(
    store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = sorted([store.put(b"1"), store.put(b"2")])
    monkeypatch.setattr(BlobStore, "__iter__", lambda _store: iter([first, second]))
    store.remove(first)
    assert list(store.untouched(0.0)) == [second]


def test_the_sweep_of_staging_tells_the_bytes(store: BlobStore) -> None:
    for number, age in ((1, 100.0), (2, 100.0), (4, 0.0)):
        file = store.staging / str(number)
        file.write_bytes(b"x" * number)
        os.utime(file, (time.time() - age, time.time() - age))
    assert store.sweep_staging(50.0) == 3
    assert [file.name for file in store.staging.iterdir()] == ["4"]


@pytest.mark.parametrize(("row_shape", "block"), [((), 16), ((2,), 16), ((2,), 1), ((2,), 1 << 20), ((0,), 16)])
def test_an_array_is_read_in_blocks_of_bounded_size(
    store: BlobStore, monkeypatch: pytest.MonkeyPatch, row_shape: tuple[int, ...], block: int
) -> None:
    monkeypatch.setattr(blobs, "BLOCK_BYTES", block)
    rows = np.arange(5 * int(np.prod(row_shape)), dtype="f8").reshape(5, *row_shape)
    with StagedArray(store, rows.dtype, row_shape) as staged:
        staged.append(rows[:2])
        staged.append(rows[2:])
        assert (staged.n_rows, staged.n_bytes) == (5, rows.nbytes)
        found = list(staged.blocks())
    np.testing.assert_array_equal(np.concatenate(found), rows)
    row_bytes = max(1, rows.itemsize * int(np.prod(row_shape)))
    assert [len(one) for one in found[:-1]] == [max(1, block // row_bytes)] * (len(found) - 1)


def test_an_array_never_holds_objects(store: BlobStore, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="arrays of Python objects"):
        store.stage_array(np.dtype(object), ())
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    store.adopt(tmp_path / "objects.npy", sha256 := blobs.hash_file(tmp_path / "objects.npy"))
    for load in (store.map_array, store.load_array):
        with pytest.raises(ValueError, match=r"[Oo]bject|pickle|mmap"):
            load(sha256)


def test_an_array_is_mapped_read_only(store: BlobStore) -> None:
    sha256 = store.put_array(np.arange(3.0))
    mapped = store.map_array(sha256)
    assert isinstance(mapped, np.memmap)
    assert not mapped.flags.writeable
    assert not isinstance(store.load_array(sha256), np.memmap)


def test_a_missing_file_is_explained_and_other_errors_are_not(store: BlobStore) -> None:
    away, missing, failing = StoreAway(errno.ENOTCONN, "away"), FileNotFoundError(), OSError(errno.EIO, "x")
    assert store.explain(missing) is missing

    def check(_establish: bool) -> None:
        raise away

    store._check = check
    assert (store.explain(missing), store.explain(failing)) == (away, failing)


def test_what_would_use_the_reserve_is_refused_to_the_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Status:
        f_bavail, f_bfree, f_frsize, f_bsize = 10, 1000, 100, 7

    monkeypatch.setattr(free_space.os, "statvfs", lambda _folder: Status)
    for reserve, more in ((1000, 0), (1, 999), (0, 10**9)):
        free_space.require_free_space(tmp_path, reserve, more)
    for reserve, more in ((1001, 0), (1, 1000)):
        with pytest.raises(SpaceReserved) as refused:
            free_space.require_free_space(tmp_path, reserve, more)
        assert refused.value.errno == errno.ENOSPC
        assert f"1000 bytes of the disk are free and {reserve} must stay free" in str(refused.value.strerror)
