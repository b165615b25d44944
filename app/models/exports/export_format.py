"""What a format of exported models is, and the registry of those that `writers/` declares."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import NamedTuple

from app.errors import invalid_field
from app.models.exports import writers
from app.models.exports.probe import Probe
from app.models.exports.subject import Subject
from app.models.model_parts import Parts
from app.plugins import declared
from app.tabular.types import Array

__all__ = ["BINARY_WEIGHTS", "TEXT_WEIGHTS", "ExportFormat", "Output", "export_formats"]

TEXT_WEIGHTS = 5_000_000
BINARY_WEIGHTS = 32_000_000
"""Largest models, in weights. Larger ones do not fit beside the service's other work: an export is made in memory."""

Writer = Callable[[Subject, float | None], bytes]
"""Writes the file; the largest difference of its scores from predict's is None in the draft that is compared."""


class Output(NamedTuple):
    suffix: str
    write: Writer


def _no_headers(_subject: Subject) -> dict[str, str]:
    return {}


@dataclass(frozen=True, kw_only=True)
class ExportFormat:
    """The declaration of one format."""

    name: str
    media_type: str
    suffix: str
    """Of the file's name, without its dot."""
    write: Writer
    scores: Callable[[Subject, bytes, Probe], Array]
    """Computes the scores of the probe's rows from the written file."""
    read: Callable[[bytes], Parts] | None = None
    """Reads a file of the format for an import; None: the format is not imported."""
    max_weights: int = BINARY_WEIGHTS
    states_difference: bool = True
    """Whether the file has a place for the difference."""
    headers: Callable[[Subject], dict[str, str]] = _no_headers
    """Headers of the answer that say what the file cannot."""
    outputs: Mapping[str, Output] = field(default_factory=dict)
    """What the query's `output` can choose, where a format can write different things; the default is `write`."""

    def giving(self, output: str | None) -> "ExportFormat":
        """The format as it writes this output."""
        if output is None:
            return self
        if output not in self.outputs:
            able = " or ".join(f"format={one.name}" for one in export_formats().values() if output in one.outputs)
            raise invalid_field("output", "unexpected", f"format={self.name} has no output {output}; choose {able}")
        return replace(self, suffix=self.outputs[output].suffix, write=self.outputs[output].write)


@cache
def export_formats() -> dict[str, ExportFormat]:
    """All formats by name."""
    return declared(writers, ExportFormat)
