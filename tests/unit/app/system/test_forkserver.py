"""Processes that are copies of another one: what they keep of it, and how they end."""

import subprocess
import sys

import pytest

# In an interpreter of its own: a test process has threads, and a copy of it would be in the middle of something.
PRELUDE = """
import os, signal, sys, time
from app.system import forkserver, resources
from app.system.forkserver import copy_process

def end_of(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""


def said_by(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + script], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_copy_keeps_only_the_files_that_it_is_given() -> None:
    script = """
kept, closed = os.pipe()
mine, theirs = os.pipe()

def look():
    os.write(theirs, ",".join(sorted(os.listdir("/proc/self/fd"), key=int)).encode())

pid = copy_process("a copy", look, [theirs])
print(end_of(pid), os.read(mine, 100).decode(), theirs)
"""
    code, seen, theirs = said_by(script).split()
    # 3 is free again, and is the folder while it is read
    assert (code, seen.split(",")) == ("0", ["0", "1", "2", "3", theirs])


@pytest.mark.parametrize(
    ("work", "code"),
    [("lambda: None", 0), ("lambda: sys.exit(3)", 3), ("lambda: sys.exit('no')", 1), ("lambda: 1 / 0", 1)],
)
def test_a_copy_ends_with_its_own_code_and_nothing_goes_on_twice(work: str, code: int) -> None:
    script = f"""
try:
    print(end_of(copy_process("a copy", {work}, [])), flush=True)
finally:
    print("once")
"""
    assert said_by(script) == f"{code}\nonce\n"


def test_a_copy_has_its_own_name_and_none_of_our_handlers() -> None:
    script = """
signal.signal(signal.SIGTERM, lambda *_: print("handled", flush=True))
pid = copy_process("short name", lambda: time.sleep(60), [])
deadline = time.monotonic() + 30
while not open(f"/proc/{pid}/cmdline").read().startswith("short name") and time.monotonic() < deadline:
    time.sleep(0.01)
os.kill(pid, signal.SIGTERM)
print(end_of(pid), open(f"/proc/{os.getpid()}/cmdline").read().startswith("short name"))
"""
    assert said_by(script) == "-15 False\n"


def test_a_copied_forkserver_shares_what_is_loaded_and_survives_letting_go_of_code() -> None:
    script = """
import multiprocessing
import numpy as np
import scipy.sparse as sp

forkserver.settle()
context = forkserver.start_forkserver("colorsys", copied=True)  # a module that nothing else loads
process = context.Process(target=exec, args=("import sys; sys.exit(4 + ('colorsys' in sys.modules))",))
process.start()
process.join()
print(process.exitcode, "colorsys" in sys.modules, sp.eye_array(3).sum(), np.linalg.det(np.eye(3)))
"""
    assert said_by(script) == "5 False 3.0 1.0\n"


def test_a_forkserver_that_is_busy_ends_with_its_parent() -> None:
    """It would compile kernels for a minute after its service was stopped."""
    script = """
mine, theirs = os.pipe()

def parent():
    inner = copy_process("inner", lambda: forkserver._run_beside(os.getppid(), "import time; time.sleep(300)"), [])
    time.sleep(0.5)
    os.write(theirs, f"{inner} {os.waitpid(inner, os.WNOHANG)[0]}".encode())

end_of(copy_process("outer", parent, [theirs]))
inner, ended_alone = os.read(mine, 100).decode().split()
deadline = time.monotonic() + 30
def runs():
    try:
        return open(f"/proc/{inner}/stat").read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
while runs() and time.monotonic() < deadline:
    time.sleep(0.01)
print(ended_alone, runs())
"""
    assert said_by(script) == "0 False\n"
