"""What the machine has of memory: by control groups of both kinds, and a limit that bites within its block only."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.system import resources

GIB = 1 << 30


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(resources, "PROC", tmp_path / "proc")
    monkeypatch.setattr(resources, "GROUPS", tmp_path / "cgroup")
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_without_control_groups_the_machine_is_all(root: Path) -> None:
    assert resources.memory_bytes() > GIB // 8
    assert resources.out_of_memory_kills() == 0
    assert resources.writable_bytes() is None


def test_the_narrowest_group_counts_of_version_2(root: Path) -> None:
    write(root / "proc/self/cgroup", "0::/jobs/mine\n")
    write(root / "cgroup/jobs/mine/memory.max", "max\n")
    write(root / "cgroup/jobs/memory.max", f"{GIB // 4}\n")
    write(root / "cgroup/jobs/mine/memory.events", "low 0\noom 7\noom_kill 3\n")
    write(root / "proc/vmstat", "oom_kill 99\n")
    assert resources.memory_bytes() == GIB // 4
    assert resources.out_of_memory_kills() == 3


def test_the_narrowest_group_counts_of_version_1(root: Path) -> None:
    write(root / "proc/self/cgroup", "5:cpu:/elsewhere\n4:memory:/mine\n0::/\n")
    write(root / "cgroup/memory/mine/memory.limit_in_bytes", f"{GIB // 8}\n")
    write(root / "cgroup/memory/memory.limit_in_bytes", f"{2**63 - 4096}\n")
    write(root / "cgroup/memory/mine/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n")
    assert resources.memory_bytes() == GIB // 8
    assert resources.out_of_memory_kills() == 5


def test_who_shares_a_memory_has_the_same_name_for_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(root / "proc/sys/kernel/random/boot_id", "one\n")
    whole = resources.memory_name()
    monkeypatch.setattr(resources.platform, "node", lambda: "container")
    assert resources.memory_name() == whole, "without a limit a container has what the machine has"
    write(root / "proc/self/cgroup", "0::/mine\n")
    write(root / "cgroup/mine/memory.max", f"{2**62}\n")
    assert resources.memory_name() == whole, "a limit beyond the machine is none"
    write(root / "cgroup/mine/memory.max", f"{GIB // 8}\n")
    names = {whole, resources.memory_name()}
    monkeypatch.setattr(resources.platform, "node", lambda: "other")
    names.add(resources.memory_name())
    write(root / "proc/self/cgroup", "0::/mine/inner\n")
    assert resources.memory_name() in names, "the limit is that of the group around it"
    write(root / "proc/sys/kernel/random/boot_id", "two\n")
    names.add(resources.memory_name())
    assert [len(name) for name in names] == [resources.NAME_LENGTH] * 4


def test_the_kernel_counts_where_no_group_does(root: Path) -> None:
    write(root / "proc/vmstat", "nr_free_pages 12\noom_kill 4\n")
    assert resources.out_of_memory_kills() == 4


LIMITED = """
import numpy as np
from app.system.resources import at_most_more
with at_most_more(64 << 20):
    np.ones(6 << 20)
    try:
        np.ones(16 << 20)
    except MemoryError:
        print("refused")
np.ones(16 << 20)
print("free again")
"""


def test_memory_beyond_the_limit_is_refused_within_the_block_only() -> None:
    ended = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True, check=True)
    assert ended.stdout.split("\n") == ["refused", "free again", ""]


NICED = """
import os, pathlib
from app.system import resources

def of_the_group():
    file = pathlib.Path("/proc/self/autogroup")
    return file.read_text().split()[-1:] if os.access(file, os.W_OK) else []

before = of_the_group()
resources.lower_priority(5)
print(os.nice(0), before, of_the_group(), sep="; ")
"""


@pytest.mark.parametrize("leads", [True, False])
def test_a_lower_priority_counts_beside_other_sessions_too(leads: bool) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", NICED], capture_output=True, text=True, check=True, start_new_session=leads
    )
    own, before, after = ran.stdout.strip().split("; ")
    assert int(own) == os.nice(0) + 5
    grouped = before != "[]"  # systems without such groups, and the session that the system began with, say nothing
    assert after == ("['5']" if leads and grouped else before)
