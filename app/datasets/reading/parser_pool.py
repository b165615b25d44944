"""Work on uploaded data in child processes, which a bad file may crash or bloat alone.

A child comes from a forkserver that has the parser's kernels compiled, so it starts in milliseconds.
"""

import signal
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from anyio import CapacityLimiter

from app.datasets.formats import Format, InvalidFile, InvalidOption, ReadOptions, TooLarge
from app.datasets.reading import parse, sandbox
from app.datasets.reading.parse import Parsed
from app.datasets.reading.sandbox import Limits
from app.errors import AppError, ErrorItem, Invalid, PayloadTooLarge, invalid_field
from app.storage.free_space import require_free_space
from app.system.forkserver import FOR_READING, start_forkserver

RUN_AT_ONCE = 2
CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)
SECONDS_A_MIB = 1  # of processor time: the slowest reader needs a tenth of it
EXPANSION = 10  # of a compressed file, for its processor time

Result = TypeVar("Result")


class ParserPool:
    """Runs children. Callers hold its limiter: those that wait then hold no thread."""

    def __init__(
        self, blob_root: Path, most_bytes: int = 16 << 30, limits: Limits | None = None, reserve_bytes: int = 0
    ) -> None:
        self.limiter = CapacityLimiter(RUN_AT_ONCE)
        self.warm = False
        self._blob_root = blob_root
        self._most_bytes = most_bytes
        self._reserve_bytes = reserve_bytes
        self._limits = limits or Limits()
        self._processes = start_forkserver(FOR_READING)

    def warm_up(self) -> None:
        """Wait until the forkserver has compiled its kernels and can give us a child."""
        process = self._processes.Process(target=sandbox.do_nothing, daemon=True)
        process.start()
        process.join()
        self.warm = process.exitcode == 0

    def ingest(self, path: Path, file_format: Format, options: ReadOptions) -> Parsed:
        """Parse a file (blocking). Raises Invalid with every place that is wrong."""
        mebibytes = path.stat().st_size >> 20
        seconds = mebibytes * SECONDS_A_MIB * (1 if options.encoding == "identity" else EXPANSION)
        limits = replace(self._limits, cpu_seconds=self._limits.cpu_seconds + seconds)
        ceilings = self._most_bytes, self._reserve_bytes
        return self._run(limits, parse.parse, self._blob_root, path, file_format, options, *ceilings)

    def run(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """What a function of a module returns in a child (blocking), raised as for `ingest` where it refuses."""
        require_free_space(self._blob_root, self._reserve_bytes)
        return self._run(self._limits, function, *arguments)

    def _run(self, limits: Limits, function: Callable[..., Result], *arguments: Any) -> Result:
        ours, theirs = self._processes.Pipe(duplex=False)
        process = self._processes.Process(
            target=sandbox.run_limited, args=(theirs, limits, function, arguments), daemon=True
        )
        process.start()
        theirs.close()
        try:
            outcome = ours.recv()
        except EOFError:
            process.join()
            raise _judge_death(process.exitcode) from None
        finally:
            ours.close()
            process.join()
        if isinstance(outcome, BaseException):
            raise _translate(outcome) from outcome
        result: Result = outcome
        return result


def _judge_death(exit_code: int | None) -> AppError:
    ended_by = -(exit_code or 0)
    if ended_by in CRASHES:
        detail = "The file made its reader crash: it is damaged or made to. Nothing was stored."
        return Invalid(detail, code="unreadable_file")
    if ended_by == signal.SIGXCPU:
        return Invalid("Reading the file takes too long for its size. Nothing was stored.", code="too_slow")
    return AppError("The process that worked on this file died; nothing was stored.", code="parser_died")


def _translate(refusal: BaseException) -> BaseException:
    if isinstance(refusal, InvalidFile):
        items = [ErrorItem(**asdict(error)) for error in refusal.errors]
        return Invalid(str(refusal), code="invalid_file", errors=items)
    if isinstance(refusal, InvalidOption):
        return invalid_field(refusal.field, "invalid_option", refusal.detail)
    if isinstance(refusal, TooLarge):
        return PayloadTooLarge(f"{refusal} Nothing was stored.")
    if isinstance(refusal, MemoryError):
        return PayloadTooLarge("A row or block of the file needs more memory than is allowed; nothing was stored.")
    return refusal
