"""Hostile input of every format: processor time and memory for each byte, and what used to expand.

Each case runs in a forked process of its own, which reports its processor time and the growth of its peak memory. The
tables go to docs/benchmarks/hostile.md. `--quick`: a quarter of the sizes, printed only.
"""

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from app.datasets import formats
from app.datasets.formats import InvalidFile, InvalidOption, TooLarge
from app.errors import AppError
from tests.support.hostile_inputs import BODIES, EXPANDING, FILES, answer, hostile_models

SMALL_BYTES = 256_000
GROWTH = 8
LONGEST_SECONDS = 60.0
MB = 1_000_000
PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks" / "hostile.md"


class Cost(NamedTuple):
    seconds: float
    peak_bytes: int
    """Beyond what the process had before."""
    outcome: str


def run(options: argparse.Namespace) -> None:
    small = SMALL_BYTES // 4 if options.quick else SMALL_BYTES
    lines = []
    for line in _report(small):
        print(line, flush=True)
        lines.append(line)
    if not options.quick:
        PAGE.write_text("\n".join(lines) + "\n")


def _report(small: int) -> Iterator[str]:
    yield "# Hostile input, measured"
    yield ""
    yield "`python -m benchmarks hostile` repeats it. Every case is a process of its own: the processor time of a small"
    yield f"and of a large input ({GROWTH} times as large: linear time grows by about {GROWTH}, quadratic time by"
    yield f"{GROWTH * GROWTH}), and by how much the peak of its memory grew beyond the input itself."
    with tempfile.TemporaryDirectory() as folder:
        models = hostile_models(Path(folder))
        formats.warm()
        yield from _heading("Predict bodies", "answer")
        for name, case in BODIES.items():
            yield _row(name, small, case.make, partial(answer, models[case.model], case.content_type))
        yield from _heading("Uploads", "outcome")
        path = Path(folder) / "upload"
        for name, file in FILES.items():
            yield _row(name, small, file.make, partial(_read, path, file.format, file.options))
        yield ""
        yield "## Predict bodies that stand for much more than they are"
        yield ""
        yield "| body | bytes | seconds | peak memory, MB | answer |"
        yield "|---|---|---|---|---|"
        for name, (content_type, model, make) in EXPANDING.items():
            body = make()
            cost = _measure(partial(answer, models[model], content_type, body))
            yield f"| {name} | {len(body):,} | {cost.seconds:.2f} | {cost.peak_bytes / MB:.0f} | {cost.outcome} |"


def _heading(title: str, outcome: str) -> Iterator[str]:
    columns = f"bytes | seconds | bytes, large | seconds | growth | ns a byte | memory a byte | {outcome}"
    yield from ("", f"## {title}", "", f"| input | {columns} |", "|---" * 9 + "|")


def _row(name: str, size: int, make: Callable[[int], bytes], read: Callable[[bytes], object]) -> str:
    small, large = make(size), make(GROWTH * size)
    first, second = (_measure(partial(read, body)) for body in (small, large))
    growth = second.seconds / max(first.seconds, 1e-9)
    figures = (
        f"{len(small):,} | {first.seconds:.4f} | {len(large):,} | {second.seconds:.4f} | {growth:.1f} | "
        f"{second.seconds / len(large) * 1e9:.0f} | {second.peak_bytes / len(large):.1f}"
    )
    return f"| {name} | {figures} | {second.outcome} |"


def _read(path: Path, file_format: str, options: formats.ReadOptions, body: bytes) -> None:
    path.write_bytes(body)
    formats.read(path, file_format, options)


def _measure(run_case: Callable[[], object]) -> Cost:
    """In a forked process: what it allocates is gone afterwards, and what it takes too long for is ended."""
    processes = multiprocessing.get_context("fork")
    ours, theirs = processes.Pipe(duplex=False)
    child = processes.Process(target=_report_cost, args=(theirs, run_case))
    child.start()
    theirs.close()
    try:
        cost = ours.recv() if ours.poll(LONGEST_SECONDS) else None
    except EOFError:
        cost = None
    if cost is None:
        child.kill()
    child.join()
    return cost or Cost(LONGEST_SECONDS, 0, "ended after a minute, or killed")


def _report_cost(reply: Connection, run_case: Callable[[], object]) -> None:
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before, began = _status("VmRSS"), time.process_time()
    outcome = "taken"
    try:
        run_case()
    except AppError as error:
        outcome = f"{error.status} {error.code}"
    except InvalidFile as error:
        outcome = error.errors[0].code
    except (InvalidOption, TooLarge) as error:
        outcome = type(error).__name__
    reply.send(Cost(time.process_time() - began, max(0, _status("VmHWM") - before), outcome))


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))
