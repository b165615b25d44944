"""Steps that several commands share: read what is given, show the outcome of a job, write a file."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hyperplane._shared.types import Certificate, JobState, Metrics
from hyperplane.cli.shell import Shell, UsageError

__all__ = ["JOB_FIELDS", "existing", "given", "parsed", "show_figures", "show_outcome", "stem_of", "written"]

JOB_FIELDS = ("id", "type", "status", "progress", "model", "model_id", "relative_gap", "error")
OUTCOME_FIELDS = ("id", "status", "model", "model_id", "relative_gap")


def show_outcome(shell: Shell, job: Mapping[str, Any], fields: Sequence[str] = OUTCOME_FIELDS) -> int:
    """Show a job that is done, with its certificate and metrics. Returns the exit code: 1 if it did not succeed."""
    done = JobState(dict(job))
    if done.status != "succeeded":
        shell.show(done, JOB_FIELDS)
        return 1
    if shell.output == "json":
        shell.show_json(done)
        return 0
    shell.show(done, fields)
    show_figures(shell, done.certificate, done.metrics)
    return 0


def show_figures(shell: Shell, certificate: Certificate | None, metrics: Metrics | None) -> None:
    """Print a certificate and the metrics on test rows. JSON has them already."""
    if shell.output == "json":
        return
    if certificate is not None:
        print(f"certificate   {certificate}")
    test: Any = (metrics.get("test") if metrics else None) or {}
    shown = [f"{name} {value:.4g}" for name, value in test.items() if isinstance(value, float)]
    if shown:
        print(f"test          {', '.join(shown)}")


def written(shell: Shell, content: bytes, to: str | None) -> None:
    """Write a file, or to standard output if none is named."""
    if to is None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        Path(to).write_bytes(content)
        shell.note(f"written: {to}")


def existing(file: str) -> str:
    """Return the name of a file that must exist."""
    if not Path(file).is_file():
        raise UsageError(f"there is no file {file}")
    return file


def stem_of(file: str) -> str:
    """Return the name of a file without its folder and suffixes."""
    return Path(file).name.partition(".")[0]


def given(**values: Any) -> dict[str, Any]:
    """Return the values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def parsed(settings: list[str] | None) -> dict[str, Any]:
    """Parse `name=value` pairs. A value is JSON (`1e-6`, `{"test": 0.2}`), else text."""
    fields = {}
    for setting in settings or []:
        name, equals, value = setting.partition("=")
        if not equals:
            raise UsageError(f"--set {setting}: write name=value")
        try:
            fields[name] = json.loads(value)
        except ValueError:
            fields[name] = value
    return fields
