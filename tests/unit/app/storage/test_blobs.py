"""Blobs are named by their content, exist complete or not at all, and are deleted only when no row owns them."""

import errno
import hashlib
import io
import os
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from app.storage import BlobStore, blobs

HOUR = 3600.0


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path)


def files(store: BlobStore) -> list[Path]:
    return [path for folder in (store.root, store.staging) for path in folder.rglob("*") if path.is_file()]


def make_old(path: Path, seconds: float) -> None:
    moment = time.time() - seconds
    os.utime(path, (moment, moment))


@pytest.mark.parametrize("content", [b"", b"x", bytes(range(256)) * 5000], ids=["empty", "byte", "1.28 MB"])
def test_content_comes_back_under_its_hash(store: BlobStore, content: bytes) -> None:
    sha256 = store.put(content)
    assert sha256 == hashlib.sha256(content).hexdigest()
    assert store.path(sha256).read_bytes() == content
    assert store.size(sha256) == len(content)
    assert store.is_intact(sha256)
    assert list(store) == [sha256]
    assert files(store) == [store.path(sha256)], "something stayed in the staging folder"


def test_a_staged_file_is_hashed_and_counted_over_its_chunks(store: BlobStore) -> None:
    with store.stage() as staged:
        assert [staged.write(chunk) for chunk in (b"ab", memoryview(b"cd"), b"", b"e")] == [2, 2, 0, 1]
        staged.flush()
        assert staged.path.read_bytes() == b"abcde"
        assert (staged.size, staged.sha256) == (5, hashlib.sha256(b"abcde").hexdigest())
        assert list(store) == [], "visible before it was committed"
        sha256 = staged.commit()
    assert store.path(sha256).read_bytes() == b"abcde"


class FailingOnce:
    """A function that fails with EIO at its first call, as the kernel reports a lost write once."""

    def __init__(self, function: Any) -> None:
        self._function, self._calls = function, 0

    def __call__(self, *arguments: Any) -> Any:
        self._calls += 1
        if self._calls == 1:
            raise OSError(errno.EIO, "made up")
        return self._function(*arguments)


def test_an_abandoned_file_leaves_nothing(store: BlobStore) -> None:
    with store.stage() as staged:
        staged.write(b"half of it")
    assert files(store) == []


def test_a_file_whose_writer_fails_leaves_nothing(store: BlobStore) -> None:
    def fail_half_way() -> None:
        with store.stage() as staged:
            staged.write(b"half of it")
            raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        fail_half_way()
    assert files(store) == []


def test_the_same_content_twice_is_one_file_with_a_new_grace_period(store: BlobStore) -> None:
    sha256 = store.put(b"same")
    make_old(store.path(sha256), 2 * HOUR)
    assert store.put(b"same") == sha256
    assert files(store) == [store.path(sha256)]
    assert list(store.untouched(HOUR)) == [], "its new owner is on the way"
    assert store.is_intact(sha256)


def test_only_what_is_old_is_swept_from_staging(store: BlobStore) -> None:
    with store.stage() as abandoned, store.stage() as in_use:
        abandoned.write(b"1234567")
        abandoned.flush()
        make_old(abandoned.path, 2 * HOUR)
        assert store.sweep_staging(HOUR) == 7
        assert not abandoned.path.exists()
        assert in_use.path.exists()


def test_a_blob_that_is_deleted_before_its_block_ends_is_committed_again(store: BlobStore) -> None:
    with store.stage() as staged:
        staged.write(b"wanted")
        sha256 = staged.commit()
        assert store.remove(sha256) == 6
        assert staged.commit() == sha256
        assert staged.commit() == sha256, "it has its name already"
    assert store.is_intact(sha256)
    assert files(store) == [store.path(sha256)]


@pytest.mark.parametrize("damage", [b"dama ed!", b"", b"damaged, and longer"])
def test_writing_a_blob_again_repairs_it(store: BlobStore, damage: bytes) -> None:
    sha256 = store.put(b"damaged!")
    store.path(sha256).write_bytes(damage)
    assert not store.is_intact(sha256)
    store.put(b"damaged!")
    assert store.is_intact(sha256)
    store.path(sha256).write_bytes(damage)
    received = store.staging / "received"
    received.write_bytes(b"damaged!")
    store.adopt(received, sha256)
    received.unlink()
    assert store.is_intact(sha256)
    assert files(store) == [store.path(sha256)]


def test_a_file_whose_fsync_failed_is_never_committed(store: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second fsync may succeed although the bytes are lost."""
    fail_once = FailingOnce(os.fsync)
    with store.stage() as staged:
        staged.write(b"lost")
        monkeypatch.setattr(os, "fsync", fail_once)
        with pytest.raises(OSError, match="made up"):
            staged.commit()
        with pytest.raises(ValueError, match="closed file"):
            staged.commit()
    assert files(store) == []


def test_a_folder_whose_parent_was_not_synced_is_synced_by_the_next_write(
    store: BlobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, real = [], blobs.fsync_folder
    fail_once = FailingOnce(real)
    monkeypatch.setattr(blobs, "fsync_folder", fail_once)
    with pytest.raises(OSError, match="made up"):
        store.put(b"first")
    monkeypatch.setattr(blobs, "fsync_folder", lambda folder: (synced.append(folder), real(folder)))
    sha256 = store.put(b"first")
    assert synced == [store.root, store.path(sha256).parent]


@pytest.mark.parametrize("position", [0, 1000, 2_000_000])
def test_a_flipped_bit_is_found(store: BlobStore, position: int) -> None:
    sha256, other = store.put(bytes(2_000_001)), store.put(b"other")
    path = store.path(sha256)
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)
    assert not store.is_intact(sha256)
    assert store.is_intact(other)


def test_missing_and_shortened_files_are_not_intact(store: BlobStore) -> None:
    sha256 = store.put(b"12345")
    os.truncate(store.path(sha256), 4)
    assert not store.is_intact(sha256)
    store.path(sha256).unlink()
    assert not store.is_intact(sha256)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0).reshape(3, 4),
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.arange(20, dtype=np.int32)[::2],
        np.zeros(0),
        np.zeros((0, 5), dtype=np.int64),
        np.array([1.5, -0.0, 5e-324], dtype=np.float32),
    ],
    ids=["rows", "columns", "strided", "empty", "no rows", "float32"],
)
def test_an_array_is_mapped_not_copied_and_equal(store: BlobStore, array: np.ndarray[Any, Any]) -> None:
    mapped = store.map_array(store.put_array(array))
    assert isinstance(mapped, np.memmap)
    assert (mapped.dtype, mapped.shape) == (array.dtype, array.shape)
    assert mapped.tobytes() == np.ascontiguousarray(array).tobytes()
    assert not mapped.flags.writeable


def test_an_array_of_objects_is_refused(store: BlobStore) -> None:
    with pytest.raises(ValueError, match="arrays of Python objects"):
        store.put_array(np.array([{}], dtype=object))
    assert files(store) == []


@pytest.mark.parametrize("row_shape", [(), (3,)], ids=["values", "rows"])
def test_an_array_that_grows_is_the_file_that_numpy_writes(store: BlobStore, row_shape: tuple[int, ...]) -> None:
    whole = np.arange(3_000_000.0)[: 900_000 * (3 if row_shape else 1)].reshape(-1, *row_shape)
    with store.stage_array(whole.dtype, row_shape) as staged:
        for first, past in pairwise([0, 1, 1, 500_000, 900_000]):
            staged.append(whole[first:past])
        assert staged.n_bytes == whole.nbytes
        assert np.array_equal(np.concatenate(list(staged.blocks())), whole)
        sha256 = staged.commit()
    expected = io.BytesIO()
    np.save(expected, whole)
    assert store.path(sha256).read_bytes() == expected.getvalue()
    assert files(store) == [store.path(sha256)]


def test_rows_that_do_not_fit_are_refused(store: BlobStore) -> None:
    with store.stage_array(np.dtype(np.float64), (2,)) as staged:
        for rows in (np.zeros((1, 3)), np.zeros((1, 2), dtype=np.float32), np.zeros(2)):
            with pytest.raises(ValueError, match="cannot be appended"):
                staged.append(rows)
    assert files(store) == []


@settings(max_examples=40, deadline=None)
@given(array=hnp.arrays(st.sampled_from([np.float64, np.int64, np.int32]), hnp.array_shapes(max_dims=2)))
def test_any_array_of_numbers_comes_back(tmp_path_factory: pytest.TempPathFactory, array: Any) -> None:
    store = BlobStore(tmp_path_factory.getbasetemp() / "any-array")
    np.testing.assert_array_equal(store.map_array(store.put_array(array)), array)


def test_readiness_is_a_real_write_that_leaves_nothing(store: BlobStore) -> None:
    store.check_writable()
    assert files(store) == []
    store.staging.rmdir()
    with pytest.raises(OSError, match="No such file"):
        store.check_writable()


def test_nobody_sees_what_readiness_writes(store: BlobStore) -> None:
    """The launcher asks for readiness while the first uploads come in: a file with a name would be mistaken for one."""
    try:
        os.close(os.open(store.staging, os.O_TMPFILE | os.O_RDWR))
    except OSError:
        pytest.skip("this file system has no files without a name")
    is_over, seen = threading.Event(), set[Path]()

    def look() -> None:
        while not is_over.is_set():
            seen.update(store.staging.iterdir())

    onlooker = threading.Thread(target=look)
    onlooker.start()
    for _ in range(300):
        store.check_writable()
    is_over.set()
    onlooker.join()
    assert seen == set()


def test_a_store_opens_over_an_existing_one(store: BlobStore, tmp_path: Path) -> None:
    sha256 = store.put(b"kept")
    assert list(BlobStore(tmp_path)) == [sha256]
