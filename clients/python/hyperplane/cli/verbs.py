"""The commands that talk to a service. Each returns its exit code: 0 for success, 1 if the job did not succeed."""

import getpass
import sys
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import hyperplane
from hyperplane._shared.media_types import CSV, JSON
from hyperplane.cli.options import Option, Verb
from hyperplane.cli.shell import Shell, UsageError, save_login
from hyperplane.cli.steps import JOB_FIELDS, existing, given, parsed, show_figures, show_outcome, stem_of, written

__all__ = ["VERBS"]

DATASET_FIELDS = ("id", "name", "status", "n_rows", "n_features", "task_hint", "deduplicated")
MODEL_FIELDS = ("id", "name", "version", "task", "solver", "converged", "relative_gap", "created_at", "aliases")
LARGEST_PAGE = 200
"""Items of a page, at most: the limit of the service. A longer list has several pages."""

Data = Annotated[str, Option("File to train on (its suffix names the format), or the id of a dataset (ds_…).")]
Target = Annotated[str | None, Option("Column to predict, by name or number. Default: the service's choice.")]
ModelName = Annotated[str | None, Option("Name of the model. Default: the name of the file.")]
Settings = Annotated[
    list[str] | None, Option("Further field of the job: name=value, the value as JSON or text. Repeat it.", ("-s",))
]
NoWait = Annotated[bool, Option("Submit the job and do not wait for it.")]
Timeout = Annotated[float | None, Option("Seconds to wait. The job continues afterwards.")]
JobId = Annotated[str, Option("Id of the job (job_…).")]
Ref = Annotated[str, Option("Model: id, name, name:version or name@alias.")]


def upload(
    shell: Shell,
    file: Annotated[str, Option("File to upload. Its suffix names the format.")],
    name: Annotated[str | None, Option("Name of the dataset.")] = None,
    target: Target = None,
    weight: Annotated[str | None, Option("Column of the rows' weights.")] = None,
    group: Annotated[str | None, Option("Column of the rows' groups, for ranking and for folds.")] = None,
    ignore: Annotated[str | None, Option("Columns to leave out, separated by commas.")] = None,
    content_type: Annotated[str | None, Option("Format of the file: csv, libsvm, parquet, … or a media type.")] = None,
    encoding: Annotated[str | None, Option("CSV: character encoding, such as latin-1. Default: recognised.")] = None,
    decimal: Annotated[str | None, Option("Decimal sign of numbers in text: . or ,")] = None,
    thousands: Annotated[str | None, Option("Separator of thousands: , . space apostrophe none")] = None,
    date_order: Annotated[str | None, Option("Order of day and month in dates: ymd, dmy or mdy.")] = None,
    columns: Annotated[list[str], Option("Kind or role of a column, as name:kind. Can be repeated.")] = [],  # noqa: B006
    on_missing_target: Annotated[str | None, Option("Rows without a label: error or drop.")] = None,
) -> int:
    """Upload a file as a dataset and wait until it has been read. An interrupted connection is resumed."""
    dataset = shell.client.datasets.create(
        existing(file),
        name=name,
        target=target,
        content_type=content_type,
        on_progress=_bar(shell),
        **given(
            weight=weight,
            group=group,
            ignore=ignore,
            encoding=encoding,
            decimal=decimal,
            thousands=thousands,
            date_order=date_order,
            columns=columns or None,
            on_missing_target=on_missing_target,
        ),
    )
    shell.show(dataset, DATASET_FIELDS)
    _warn(shell, dataset)
    return 0


def train(
    shell: Shell,
    data: Data,
    target: Target = None,
    model: ModelName = None,
    C: Annotated[float | None, Option("Weight of the errors against the regularization.", ("-C",))] = None,
    loss: Annotated[str | None, Option("Loss: hinge, squared_hinge, logistic, …")] = None,
    task: Annotated[str | None, Option("Task: binary, multiclass, ordinal or regression.")] = None,
    solver: Annotated[str | None, Option("Solver. Default: the service's choice.")] = None,
    tol: Annotated[float | None, Option("Relative gap at which the training ends.")] = None,
    test: Annotated[float | None, Option("Share of the rows to hold out for testing, 0 to 1.")] = None,
    folds: Annotated[int | None, Option("Number of folds of a cross-validation.")] = None,
    set_: Settings = None,
    no_wait: NoWait = False,
    timeout: Timeout = None,
) -> int:
    """Train a model on a file or a dataset, and show the closing gap and the certificate."""
    fields = given(C=C, loss=loss, task=task, solver=solver, tol=tol, cross_validation=folds) | parsed(set_)
    if test is not None:
        fields["split"] = {"test": test}
    dataset = _dataset(shell, data, target)
    job = shell.client.jobs.train(dataset, model=model or _model_name(data), **fields)
    return _followed(shell, job, no_wait, timeout)


def tune(
    shell: Shell,
    data: Data,
    target: Target = None,
    model: ModelName = None,
    metric: Annotated[str | None, Option("Metric to choose by: error, f1, roc_auc, mae, …")] = None,
    folds: Annotated[int | None, Option("Number of folds.")] = None,
    set_: Settings = None,
    no_wait: NoWait = False,
    timeout: Timeout = None,
) -> int:
    """Search the best parameters by cross-validation and train the best model."""
    fields = given(metric=metric, cross_validation=folds) | parsed(set_)
    job = shell.client.jobs.tune(_dataset(shell, data, target), model=model or _model_name(data), **fields)
    return _followed(shell, job, no_wait, timeout)


def jobs_ls(
    shell: Shell,
    status: Annotated[str | None, Option("Only jobs in this state.")] = None,
    type_: Annotated[str | None, Option("Only jobs of this type.")] = None,
    limit: Annotated[int, Option("Number of jobs.")] = 20,
) -> int:
    """List jobs, newest first."""
    jobs = shell.client.jobs.list(limit=min(limit, LARGEST_PAGE), **given(status=status, type=type_))
    shell.show_list(islice(jobs, limit), ("id", "type", "status", "progress", "model", "relative_gap", "created_at"))
    return 0


def jobs_get(shell: Shell, job: JobId) -> int:
    """Show a job."""
    shell.show(shell.client.jobs.get(job), JOB_FIELDS)
    return 0


def jobs_watch(shell: Shell, job: JobId, timeout: Timeout = None) -> int:
    """Follow a job until it is done."""
    return _followed(shell, shell.client.jobs.get(job), False, timeout)


def jobs_cancel(shell: Shell, job: JobId) -> int:
    """Stop a job and discard its work."""
    shell.show(shell.client.jobs.cancel(job), JOB_FIELDS)
    return 0


def models_ls(
    shell: Shell,
    name: Annotated[str | None, Option("Only versions of this name.")] = None,
    limit: Annotated[int, Option("Number of models.")] = 20,
) -> int:
    """List models, newest first."""
    models = shell.client.models.list(limit=min(limit, LARGEST_PAGE), **given(name=name))
    fields = ("id", "name", "version", "task", "solver", "relative_gap", "headline.name", "headline.value")
    shell.show_list(islice(models, limit), fields)
    return 0


def models_get(shell: Shell, model: Ref) -> int:
    """Show a model, its certificate and its metrics on test rows."""
    found = shell.client.models.get(model)
    shell.show(found, MODEL_FIELDS)
    show_figures(shell, found.certificate, found.metrics)
    return 0


def models_export(
    shell: Shell,
    model: Ref,
    format_: Annotated[str, Option("Format: json, npz, safetensors, onnx, liblinear, sql, …", ("-f",))] = "json",
    to: Annotated[str | None, Option("File to write. Default: standard output.")] = None,
) -> int:
    """Export a model."""
    written(shell, shell.client.models.export(model, format_), to)
    return 0


def models_alias(
    shell: Shell,
    model: Annotated[str, Option("Name of the model.")],
    alias: Annotated[str, Option("Name of the alias.")],
    version: Annotated[int, Option("Version that it points to.")],
) -> int:
    """Point an alias to a version."""
    shell.show(shell.client.aliases.set(model, alias, version), ("name", "alias", "version", "revision"))
    return 0


def predict(
    shell: Shell,
    model: Ref,
    file: Annotated[str, Option("File of rows; `-` reads CSV from standard input.")],
    outputs: Annotated[str | None, Option("Outputs, separated by commas: label, score, probability, …")] = None,
    to: Annotated[str | None, Option("File to write. Default: standard output.")] = None,
) -> int:
    """Predict the rows of a file: CSV, or JSON with `-o json`."""
    rows = sys.stdin.buffer.read() if file == "-" else existing(file)
    content_type = CSV if file == "-" else None
    accept = JSON if shell.output == "json" else CSV
    found = shell.client.models.predict_file(model, rows, content_type=content_type, accept=accept, outputs=outputs)
    written(shell, found, to)
    return 0


def report(
    shell: Shell,
    model: Ref,
    to: Annotated[str | None, Option("File to write. Default: NAME-VERSION.html.")] = None,
) -> int:
    """Write the report of a model, one HTML file: certificate, metrics, curves, weights, data, lineage."""
    found = shell.client.models.get(model)
    target = Path(to or f"{found.name}-{found.version}.html")
    shell.client.models.report(found, target=target)
    shell.note(f"written: {target}")
    return 0


def login(shell: Shell) -> int:
    """Check a URL and an API key and keep them for later commands. Without --api-key it asks for the key."""
    key = shell.api_key
    if key is None and sys.stdin.isatty():
        key = getpass.getpass("API key (empty: none): ") or None
    with hyperplane.Client(shell.url, key) as client:
        system = client.system()
        file = save_login(client.url, key)
    shell.note(f"{client.url} runs version {system.version}; written: {file}")
    return 0


VERBS = [
    Verb(("upload",), upload),
    Verb(("train",), train),
    Verb(("tune",), tune),
    Verb(("predict",), predict),
    Verb(("report",), report),
    Verb(("login",), login),
    Verb(("jobs", "ls"), jobs_ls),
    Verb(("jobs", "get"), jobs_get),
    Verb(("jobs", "watch"), jobs_watch),
    Verb(("jobs", "cancel"), jobs_cancel),
    Verb(("models", "ls"), models_ls),
    Verb(("models", "get"), models_get),
    Verb(("models", "export"), models_export),
    Verb(("models", "alias"), models_alias),
]
"""All commands, in the order of the help."""


def _dataset(shell: Shell, data: str, target: str | None) -> Any:
    """Return the dataset that was named, or upload the file."""
    if data.startswith("ds_") and not Path(data).exists():
        if target is not None:
            raise UsageError(f"--target: {data} is a dataset already; upload its file again to name another target")
        return data
    dataset = shell.client.datasets.create(existing(data), target=target, on_progress=_bar(shell))
    _warn(shell, dataset)
    return dataset


def _followed(shell: Shell, job: hyperplane.Job, no_wait: bool, timeout: float | None) -> int:
    """Wait for a job with a progress bar, and show its result."""
    if no_wait:
        shell.show(job, JOB_FIELDS)
        return 0
    try:
        done = shell.client.jobs.wait(job, timeout=timeout, on_progress=_bar(shell), check=False)
    except KeyboardInterrupt:
        shell.note(f"\n{job.id} continues; follow it with: {shell.program} jobs watch {job.id}")
        return 130
    return show_outcome(shell, done)


def _bar(shell: Shell) -> Any:
    return hyperplane.bar if shell.output == "table" else None


def _warn(shell: Shell, dataset: hyperplane.Dataset) -> None:
    for warning in dataset.warnings:
        shell.note(f"warning: {warning.detail}")


def _model_name(data: str) -> str | None:
    """Return the name of a file without its suffixes, as the name of the model."""
    return None if data.startswith("ds_") else stem_of(data)
