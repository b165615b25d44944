"""Turn an uploaded file into mapped arrays, in a child process that a bad file may crash alone.

The child comes from a forkserver that has the parser's kernels compiled, so it starts in milliseconds.
"""

from dataclasses import asdict
from pathlib import Path

from anyio import CapacityLimiter

from app.datasets import parse
from app.datasets.forkserver import start_forkserver
from app.datasets.formats import Format, InvalidFile, InvalidOption, ReadOptions
from app.datasets.parse import Parsed
from app.errors import AppError, ErrorItem, Invalid, PayloadTooLarge, invalid_field

PARSED_AT_ONCE = 2


class Ingestor:
    """Runs parser children. Callers hold its limiter: those that wait then hold no thread."""

    def __init__(self, blob_root: Path) -> None:
        self.limiter = CapacityLimiter(PARSED_AT_ONCE)
        self._blob_root = blob_root
        self._processes = start_forkserver()
        self.warm = False

    def warm_up(self) -> None:
        """Wait until the forkserver has compiled its kernels and can give us a child."""
        child = self._processes.Process(target=parse.do_nothing, daemon=True)
        child.start()
        child.join()
        self.warm = child.exitcode == 0

    def ingest(self, path: Path, file_format: Format, options: ReadOptions) -> Parsed:
        """Parse a file (blocking). Raises Invalid with every place that is wrong."""
        ours, theirs = self._processes.Pipe(duplex=False)
        arguments = (theirs, self._blob_root, path, file_format, options)
        child = self._processes.Process(target=parse.parse, args=arguments, daemon=True)
        child.start()
        theirs.close()
        try:
            outcome = ours.recv()
        except EOFError:
            outcome = None
        finally:
            ours.close()
            child.join()
        if outcome is None:
            raise AppError("The process that parsed this file died; nothing was stored.", code="parser_died")
        if isinstance(outcome, InvalidFile):
            items = [ErrorItem(**asdict(error)) for error in outcome.errors]
            raise Invalid(str(outcome), code="invalid_file", errors=items) from outcome
        if isinstance(outcome, InvalidOption):
            raise invalid_field(outcome.field, "invalid_option", outcome.detail) from outcome
        if isinstance(outcome, MemoryError):
            raise PayloadTooLarge("The file needs more memory than this machine has; nothing was stored.")
        if isinstance(outcome, BaseException):
            raise outcome
        assert isinstance(outcome, Parsed)
        return outcome
