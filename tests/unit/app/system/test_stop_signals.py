"""A stop is noticed whatever the main thread is doing when its signals come, and however many come."""

import signal
import subprocess
import sys

import pytest

STORM = """
import os, signal, threading
from app.system.stop_signals import StopSignals

stop = StopSignals()

def storm():
    while True:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=storm, daemon=True).start()
for _ in range(3000):
    stop.asked = False
    stop.wait(0.001)
assert stop.wait(5.0)
print("ended", flush=True)
os._exit(0)
"""
"""Thousands of signals into a main thread that goes in and out of its wait and its handler."""


def test_a_storm_of_signals_neither_blocks_nor_is_missed() -> None:
    """A handler that sets a `threading.Event` hangs in this storm: it waits for a lock that its own thread holds."""
    ended = subprocess.run([sys.executable, "-c", STORM], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "ended\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_wait(number: int) -> None:
    program = f"""
import os, threading, time
from app.system.stop_signals import StopSignals
stop = StopSignals()
assert not stop.wait(0.01)
threading.Timer(0.2, lambda: os.kill(os.getpid(), {int(number)})).start()
began = time.monotonic()
assert stop.wait(60.0) and time.monotonic() - began < 50
assert stop.wait(60.0)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_forked_copy_does_not_write_to_the_pipe_of_its_origin() -> None:
    """Its descriptors are closed, and their numbers may be those of other files."""
    program = """
import os, signal
from app.system.forkserver import copy_process
from app.system.stop_signals import StopSignals
stop = StopSignals()
def show():
    print(signal.set_wakeup_fd(-1), repr(signal.getsignal(signal.SIGTERM)), flush=True)
pid = copy_process("copy", show, ())
os.waitpid(pid, 0)
"""
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert shown.stdout == f"-1 {signal.SIG_DFL!r}\n"
