"""A blob survives a crash at any moment: its system calls come in order, and a kill at each leaves no torn file.

`strace` shows and injects; the process under it does one `put` and nothing else.
"""

import hashlib
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.storage import BlobStore

OLD, NEW = b"old content", bytes(range(256)) * 2000
PUT_NEW = """
import sys
from pathlib import Path
from app.storage import BlobStore
BlobStore(Path(sys.argv[1])).put(bytes(range(256)) * 2000)
"""
CALL = re.compile(r"^\d+\s+(\w+)\((.*)\)\s+= (-?\d+)", re.MULTILINE)
KILLED = -9


@dataclass(frozen=True)
class Call:
    name: str
    arguments: str


@pytest.fixture
def strace(require_command: Callable[[str], str], tmp_path: Path) -> Callable[..., tuple[int, list[Call]]]:
    """Store NEW under strace with these options; gives the exit code and the calls that succeeded."""
    command = require_command("strace")
    probe = subprocess.run([command, "-o", "/dev/null", "true"], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        pytest.skip("strace may not trace on this machine")

    def run(*options: str) -> tuple[int, list[Call]]:
        log = tmp_path / "strace.log"
        put_new = [sys.executable, "-B", "-c", PUT_NEW, tmp_path / "data"]
        traced = "trace=mkdir,mkdirat,write,fsync,fdatasync,link,linkat,rename,renameat,renameat2,unlink,unlinkat"
        process = subprocess.run(
            [command, "-f", "-y", "-s", "8", "-o", log, "-e", traced, *options, *put_new],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        found = CALL.findall(log.read_text())
        return process.returncode, [Call(name, arguments) for name, arguments, result in found if int(result) >= 0]

    return run


def positions(calls: list[Call], name: str, pattern: str) -> list[int]:
    return [
        number for number, call in enumerate(calls) if call.name.startswith(name) and re.search(pattern, call.arguments)
    ]


def test_a_put_is_written_then_synced_then_renamed_then_its_folder_synced(
    strace: Callable[..., tuple[int, list[Call]]], tmp_path: Path
) -> None:
    code, calls = strace()
    assert code == 0
    sha256 = hashlib.sha256(NEW).hexdigest()
    staging, folder = f"{tmp_path}/data/staging", f"{tmp_path}/data/blobs/{sha256[:2]}"
    staged, second = f"{staging}/blob-", f"{staging}/name-"
    written = positions(calls, "write", re.escape(f"<{staged}"))
    synced = positions(calls, "fsync", re.escape(f"<{staged}"))
    linked = positions(calls, "link", re.escape(f'"{staged}') + ".*" + re.escape(f'"{second}'))
    renamed = positions(calls, "rename", re.escape(f'"{second}') + ".*" + re.escape(f'"{folder}/{sha256[2:]}"'))
    folder_synced = positions(calls, "fsync", re.escape(f"<{folder}>"))
    assert written
    assert [len(synced), len(linked), len(renamed), len(folder_synced)] == [1, 1, 1, 1]
    assert max(written) < synced[0] < linked[0] < renamed[0] < folder_synced[0]


def test_every_new_folder_is_synced_in_its_parent_before_the_file_is_there(
    strace: Callable[..., tuple[int, list[Call]]], tmp_path: Path
) -> None:
    _, calls = strace()
    data, sha256 = tmp_path / "data", hashlib.sha256(NEW).hexdigest()
    renamed = positions(calls, "rename", "")[0]
    for made in (data, data / "blobs", data / "staging", data / "blobs" / sha256[:2]):
        created = positions(calls, "mkdir", re.escape(f'"{made}"'))
        parent_synced = positions(calls, "fsync", re.escape(f"<{made.parent}>"))
        assert len(created) == 1
        assert any(created[0] < position < renamed for position in parent_synced), made


def assert_not_torn(data: Path) -> bool:
    """The store holds whole files only, the old one among them; whether the new one is there."""
    store = BlobStore(data)
    stored = list(store)
    assert all(store.is_intact(sha256) for sha256 in stored), "a torn file has a name"
    old, new = hashlib.sha256(OLD).hexdigest(), hashlib.sha256(NEW).hexdigest()
    assert old in stored
    assert set(stored) <= {old, new}
    return new in stored


@pytest.mark.parametrize("call", ["fsync", "write", "/^link", "/^rename", "/^mkdir"])
def test_a_kill_at_each_call_leaves_the_old_state_or_the_new(
    strace: Callable[..., tuple[int, list[Call]]], tmp_path: Path, call: str
) -> None:
    data = tmp_path / "data"
    BlobStore(data).put(OLD)
    kills, new_seen = 0, []
    for number in range(1, 20):
        code, _ = strace("-e", f"inject={call}:signal=KILL:when={number}")
        new_seen.append(assert_not_torn(data))
        if code == 0:
            break
        assert code == KILLED
        kills += 1
    assert kills >= 1, "nothing was killed"
    assert new_seen[0] is False, "the first call of this kind comes before the file has its name"
    assert new_seen[-1] is True
    store = BlobStore(data)
    store.sweep_staging(grace_seconds=0.0)
    assert list(store.staging.iterdir()) == [], "what the kills left behind is not swept"


@pytest.mark.parametrize("fault", ["fsync:error=EIO:when=1", "write:error=ENOSPC:when=1+", "/^rename:error=EIO:when=1"])
def test_a_call_that_fails_is_an_error_and_leaves_nothing(
    strace: Callable[..., tuple[int, list[Call]]], tmp_path: Path, fault: str
) -> None:
    data = tmp_path / "data"
    store = BlobStore(data)
    store.put(OLD)
    code, _ = strace("-e", f"inject={fault}")
    assert code != 0
    assert assert_not_torn(data) is False
    assert list(store.staging.iterdir()) == []
