"""Progress of uploads and jobs, and `bar`, which shows either on one line of the terminal."""

import sys
from dataclasses import dataclass
from typing import Any

__all__ = ["UploadProgress", "bar"]

WIDTH = 30
"""Characters of the bar. Larger: finer steps, a longer line. Set by hand."""


@dataclass(frozen=True)
class UploadProgress:
    """How much of a file has been sent."""

    sent_bytes: int
    total_bytes: int

    @property
    def progress(self) -> float:
        """Share of the file that has been sent, 0 to 1."""
        return self.sent_bytes / self.total_bytes if self.total_bytes else 1.0

    @property
    def done(self) -> bool:
        return self.sent_bytes >= self.total_bytes


def bar(state: Any) -> None:
    """Draw the progress of an upload or a job on standard error. Pass it as `on_progress`.

    Where standard error is not a terminal, only the end is printed.
    """
    share = min(1.0, max(0.0, state.progress))
    line = f"{'█' * round(WIDTH * share):░<{WIDTH}} {share:4.0%}  {_figures(state):<48}"
    if state.done:
        print(f"\r{line}" if sys.stderr.isatty() else line.rstrip(), file=sys.stderr, flush=True)
    elif sys.stderr.isatty():
        print(f"\r{line}", end="", file=sys.stderr, flush=True)


def _figures(state: Any) -> str:
    if isinstance(state, UploadProgress):
        return f"{state.sent_bytes / 1e6:,.1f} of {state.total_bytes / 1e6:,.1f} MB"
    gap = f"gap {state.relative_gap:.1e}" if state.relative_gap is not None else ""
    left = f"{state.eta_seconds:.0f} s left" if state.get("eta_seconds") is not None and not state.done else ""
    return "  ".join(part for part in (state.status, gap, left) if part)
