"""The declaration of an export format, and the registry of the formats in `writers/`."""

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
"""Maximum number of weights of an exported model: TEXT_WEIGHTS for text formats, BINARY_WEIGHTS for binary formats.
Larger: more memory, because an export is built in memory in the API process. Set by hand; no measurement is
recorded."""

Writer = Callable[[Subject, float | None], bytes]
"""Writes the file. The second argument is the measured score difference; None in the draft that is compared."""


class Output(NamedTuple):
    suffix: str
    write: Writer


def _no_headers(_subject: Subject) -> dict[str, str]:
    return {}


@dataclass(frozen=True, kw_only=True)
class ExportFormat:
    """The declaration of a format."""

    name: str
    media_type: str
    suffix: str
    """Suffix of the file name, without a dot."""
    write: Writer
    scores: Callable[[Subject, bytes, Probe], Array]
    """Computes the scores of the probe's rows from the written file."""
    read: Callable[[bytes], Parts] | None = None
    """Reads a file of the format for an import; None: the format is not imported."""
    max_weights: int = BINARY_WEIGHTS
    keeps_sets: bool = False
    """Whether the file contains the fold models of prediction sets."""
    folds_threshold: bool = False
    """Whether the file has no place for a tuned threshold, so that the threshold is subtracted from the intercept."""
    states_difference: bool = True
    """Whether the file contains the measured difference."""
    headers: Callable[[Subject], dict[str, str]] = _no_headers
    """Response headers with information that the file cannot contain."""
    outputs: Mapping[str, Output] = field(default_factory=dict)
    """Alternatives that the query parameter `output` selects; the default is `write`."""

    def giving(self, output: str | None) -> "ExportFormat":
        """Return the format with the writer of this output."""
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
