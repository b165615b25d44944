"""Runs functions on uploaded data in child processes with limits, so that a bad file cannot harm the API process.

Children are forked from a forkserver that has loaded the compiled kernels, so they start in milliseconds.
"""

import logging
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from anyio import CapacityLimiter

from app.datasets.formats import Format, InvalidFile, InvalidOption, ReadOptions, TooLarge
from app.datasets.reading import parse, sandbox
from app.datasets.reading.parse import Parsed
from app.datasets.reading.sandbox import Limits
from app.errors import AppError, ErrorItem, Invalid, PayloadTooLarge, Unavailable, invalid_field
from app.storage.free_space import require_free_space
from app.system.forkserver import FOR_READING, start_forkserver

log = logging.getLogger(__name__)

RUN_AT_ONCE = 2
"""Maximum number of child processes of an API process at the same time. Larger: more files are parsed at once, with
more memory and CPU time. Set by hand; no measurement is recorded."""
CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)
SECONDS_A_MIB = 1
"""Maximum CPU seconds per MiB of a file. Larger: a malicious file occupies a parser for longer. The slowest reader
needs a tenth of it."""
EXPANSION = 10
"""Assumed ratio of decompressed to compressed size, from which the CPU limit of a compressed file is computed. Larger:
more CPU time is allowed. Set by hand; no measurement is recorded."""
WARM_UP_PAUSE_SECONDS = 0.5
"""Seconds between two attempts to start the first child process. Larger: an API process whose forkserver was killed is
ready later. Set by hand; no measurement is recorded."""

Result = TypeVar("Result")


KILLED = "The process that parsed this file was killed; nothing was stored. Send the request again."
FORKSERVER_DIED = 255
"""Exit code that multiprocessing reports for a child whose forkserver has died. The real exit code is unknown."""


class ReaderDied(Unavailable):
    """Raised when the process that parsed the file was killed, for example by the kernel for lack of memory. A retry
    can succeed."""

    code = "parser_died"


class ParserPool:
    """Runs functions in child processes. Callers acquire `limiter` in a coroutine, so a waiting caller occupies no
    thread."""

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
        """Wait until the forkserver has compiled its kernels and can start a child. If the forkserver is killed, wait
        for the next one."""
        while not self.warm:
            process = self._processes.Process(target=sandbox.do_nothing, daemon=True)
            try:
                process.start()
                process.join()
                self.warm = process.exitcode == 0
            except (OSError, EOFError) as error:
                log.warning("the forkserver of parser processes does not respond: %s", error)
            if not self.warm:
                time.sleep(WARM_UP_PAUSE_SECONDS)

    def ingest(self, path: Path, file_format: Format, options: ReadOptions) -> Parsed:
        """Parse a file. Blocks. Raises Invalid with the places of its errors."""
        mebibytes = path.stat().st_size >> 20
        seconds = mebibytes * SECONDS_A_MIB * (1 if options.encoding == "identity" else EXPANSION)
        limits = replace(self._limits, cpu_seconds=self._limits.cpu_seconds + seconds)
        ceilings = self._most_bytes, self._reserve_bytes
        return self._run(limits, parse.parse, self._blob_root, path, file_format, options, *ceilings)

    def run(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Call a module-level function in a child process. Blocks. Raises the errors of the function like `ingest`."""
        require_free_space(self._blob_root, self._reserve_bytes)
        return self._run(self._limits, function, *arguments)

    def _run(self, limits: Limits, function: Callable[..., Result], *arguments: Any) -> Result:
        ours, theirs = self._processes.Pipe(duplex=False)
        process = self._processes.Process(
            target=sandbox.run_limited, args=(theirs, limits, function, arguments), daemon=True
        )
        try:
            process.start()
        except (ConnectionError, EOFError) as error:
            raise ReaderDied(KILLED) from error
        finally:
            theirs.close()
        try:
            outcome = ours.recv()
        except (ConnectionError, EOFError):
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
        detail = "The file crashed its parser, so it is probably damaged. Nothing was stored. Write the file again."
        return Invalid(detail, code="unreadable_file")
    if ended_by == signal.SIGXCPU:
        return Invalid("Reading the file exceeded the time limit for its size. Nothing was stored.", code="too_slow")
    if ended_by > 0 or exit_code == FORKSERVER_DIED:
        return ReaderDied(KILLED)
    return AppError(
        "The process that parsed this file died; nothing was stored. Send the request again.", code="parser_died"
    )


def _translate(refusal: BaseException) -> BaseException:
    if isinstance(refusal, InvalidFile):
        items = [ErrorItem(**asdict(error)) for error in refusal.errors]
        return Invalid(str(refusal), code="invalid_file", errors=items)
    if isinstance(refusal, InvalidOption):
        return invalid_field(refusal.field, "invalid_option", refusal.detail)
    if isinstance(refusal, TooLarge):
        return PayloadTooLarge(f"{refusal} Nothing was stored.")
    if isinstance(refusal, MemoryError):
        return PayloadTooLarge("A row or block of the file exceeds the memory limit of a reader. Nothing was stored.")
    return refusal
