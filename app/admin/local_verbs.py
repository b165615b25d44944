"""`hyperplane local train` and `hyperplane local predict`: the commands that need no server."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import hyperplane
from hyperplane.cli import Option, Shell, UsageError, Verb
from hyperplane.cli.steps import existing, given, parsed, show_outcome, stem_of, written

if TYPE_CHECKING:
    from app.errors import ErrorItem
    from app.predictions.model_cache import ServedModel

__all__ = ["LOCAL_VERBS"]

CSV, JSON = "text/csv", "application/json"
MODEL_FORMATS = ("json", "safetensors")
"""Formats of model files: those that keep everything of a model, and that a service can import."""

ModelFile = Annotated[str, Option("Model file that `local train` wrote, or an export: .json or .safetensors.")]


def train(
    shell: Shell,
    data: Annotated[str, Option("File to train on. Its suffix names the format.")],
    target: Annotated[str | None, Option("Column to predict, by name or number. Default: the last column.")] = None,
    model: Annotated[
        str | None,
        Option("Model file to write: .json or .safetensors. Default: the name of the data with .json."),
    ] = None,
    C: Annotated[float | None, Option("Weight of the errors against the regularization.", ("-C",))] = None,
    loss: Annotated[str | None, Option("Loss: hinge, squared_hinge, logistic, …")] = None,
    task: Annotated[str | None, Option("Task: binary, multiclass, ordinal or regression.")] = None,
    solver: Annotated[str | None, Option("Solver. Default: chosen by the data.")] = None,
    tol: Annotated[float | None, Option("Relative gap at which the training ends.")] = None,
    test: Annotated[float | None, Option("Share of the rows to hold out for testing, 0 to 1.")] = None,
    folds: Annotated[int | None, Option("Number of folds of a cross-validation.")] = None,
    set_: Annotated[
        list[str] | None, Option("Further field of the job: name=value, the value as JSON or text. Repeat it.", ("-s",))
    ] = None,
) -> int:
    """Train a model on a file without a server, write it to a file, and show its certificate and metrics."""
    from app.admin.local_training import train_file
    from app.datasets.formats import ReadOptions

    fields = given(C=C, loss=loss, task=task, solver=solver, tol=tol, cross_validation=folds) | parsed(set_)
    if test is not None:
        fields["split"] = {"test": test}
    to = Path(model or f"{stem_of(existing(data))}.json")
    file_format, options = _format_of(to), ReadOptions(target=target)
    with _refusals():
        trained = train_file(Path(existing(data)), options, {"model": stem_of(data), **fields}, file_format)
    if trained.content is not None:
        written(shell, trained.content, str(to))
    return show_outcome(shell, trained.job, ("status", "relative_gap"))


def predict(
    shell: Shell,
    model: ModelFile,
    file: Annotated[str, Option("File of rows; `-` reads CSV from standard input.")],
    outputs: Annotated[str | None, Option("Outputs, separated by commas: label, score, probability, …")] = None,
    to: Annotated[str | None, Option("File to write. Default: standard output.")] = None,
) -> int:
    """Predict the rows of a file with a model file, without a server: CSV, or JSON with `-o json`."""
    from app.datasets.reading.receive import SUFFIXES
    from app.predictions.service import predict_with
    from app.web.media_types import guess_type

    if file == "-":
        rows, media_type = sys.stdin.buffer.read(), CSV
    else:
        guessed, encoding = guess_type(existing(file), SUFFIXES)
        if guessed is None or encoding != "identity":
            raise UsageError(f"{file}: the suffix must be one of {', '.join(SUFFIXES)}; unpack a packed file first")
        rows, media_type = Path(file).read_bytes(), guessed
    accept = JSON if shell.output == "json" else CSV
    with _refusals():
        found = predict_with(_opened(Path(existing(model))), rows, media_type, accept, wanted=outputs)
    written(shell, found.content, to)
    return 0


LOCAL_VERBS = [Verb(("local", "train"), train), Verb(("local", "predict"), predict)]
"""The commands, in the order of the help."""


def _opened(path: Path) -> "ServedModel":
    """Read and check a model file as an import does, and open it as for serving."""
    from app.models import file, imports
    from app.models.repository import Location
    from app.predictions.model_cache import ServedModel
    from app.storage import BlobStore

    with TemporaryDirectory(prefix="hyperplane-local-") as folder:
        blobs = BlobStore(Path(folder))
        read = imports.read_model(blobs, path.name, _format_of(path), path.read_bytes()).model
        return ServedModel.opened(Location(read.id, read.name, 1, read.blob), file.read(blobs.path(read.blob)))


def _format_of(path: Path) -> str:
    name = path.suffix.removeprefix(".").lower()
    if name not in MODEL_FORMATS:
        raise UsageError(f"{path}: the suffix of a model file must be one of .{', .'.join(MODEL_FORMATS)}")
    return name


@contextmanager
def _refusals() -> Iterator[None]:
    """Turn what the service would refuse into an error of the command line, with the field or the place in the file."""
    from pydantic import ValidationError

    from app.errors import AppError, item_from_pydantic

    try:
        yield
    except AppError as error:
        detail, items = error.detail, error.errors if len(error.errors) > 1 else []  # one is the detail itself
    except ValidationError as error:
        detail, items = "The job is not valid.", [item_from_pydantic(fault) for fault in error.errors()]
    else:
        return
    lines = [detail, *(f"  {_place(item)}{item.detail}" for item in items[:10])]
    raise hyperplane.HyperplaneError("\n".join(lines))


def _place(item: "ErrorItem") -> str:
    named = {"field": item.field, "line": item.line, "column": item.column}
    parts = [f"{name} {value}" for name, value in named.items() if value is not None]
    return f"{', '.join(parts)}: " if parts else ""
