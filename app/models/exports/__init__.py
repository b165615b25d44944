"""Exports of models to other formats. Each file is compared with predict before it is sent. No pickle."""

from dataclasses import dataclass

from app.models.exports.export_format import ExportFormat, export_formats
from app.models.exports.probe import largest_difference, probe_of
from app.models.exports.subject import Subject, not_in

__all__ = ["Export", "ExportFormat", "Subject", "export", "export_formats"]


@dataclass(frozen=True)
class Export:
    content: bytes
    media_type: str
    file_name: str
    max_score_difference: float
    headers: dict[str, str]


def export(subject: Subject, format_name: str, output: str | None) -> Export:
    """Write the model, compare the file with predict, and write it again with the measured difference."""
    chosen = export_formats()[format_name].giving(output)
    if subject.file.coef.size > chosen.max_weights:
        why = f"it has {subject.file.coef.size} weights; the limit is {chosen.max_weights}"
        raise not_in(format_name, why, "use npz or safetensors")
    draft, probe = chosen.write(subject, None), probe_of(subject)
    difference = largest_difference(probe.expected, chosen.scores(subject, draft, probe))
    file_name = f"{subject.name}-{subject.version}.{chosen.suffix}"
    headers = {"X-Max-Score-Difference": repr(difference), **chosen.headers(subject)}
    if subject.file.header.sets is not None and not chosen.keeps_sets:
        headers["X-Left-Out"] = "sets"
    if subject.threshold is not None:
        place = "; subtracted from the intercept" if chosen.folds_threshold else ""
        headers["X-Threshold"] = f"{subject.threshold!r}{place}"
    content = chosen.write(subject, difference) if chosen.states_difference else draft
    return Export(content, chosen.media_type, file_name, difference, headers)
