"""Functions that tests run in children. Light on purpose: a child imports this module before it calls one."""

import ctypes
import os
import signal
import time
from pathlib import Path

from app.datasets.formats import Format, InvalidFile, ReadOptions, words
from app.datasets.reading import parse


def allocate(n_bytes: int) -> int:
    return len(bytearray(n_bytes))


def crash() -> None:
    ctypes.string_at(0)


def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def never_end() -> None:
    while True:
        pass


def raise_anything() -> None:
    raise KeyError("an internal mistake")


def peak_growth(root: Path, path: Path, file_format: Format, max_levels: int = words.MAX_LEVELS) -> int:
    """By how much parsing a file raises the largest memory that the process ever held, in bytes."""
    words.MAX_LEVELS = max_levels
    before = _peak_bytes()
    parse.parse(root, path, file_format, ReadOptions(), 1 << 40)
    return _peak_bytes() - before


def seconds_to_refuse(root: Path, path: Path, file_format: Format) -> float:
    """ParseQueue time: the machine that runs the tests may be busy."""
    began = time.process_time()
    try:
        parse.parse(root, path, file_format, ReadOptions(), 1 << 40)
    except InvalidFile:
        return time.process_time() - began
    raise AssertionError("the file was accepted")


def _peak_bytes() -> int:
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM:"))
