"""`hyperplane demo`: upload a CSV, train a model, show its certificate and a prediction."""

import csv
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import hyperplane
from rich.console import Console
from rich.progress import Progress

from app.config import Settings
from app.runtime.embedded import reachable_service

SAMPLE = Path(__file__).parents[1] / "examples" / "ionosphere.csv"
TEST_SHARE = 0.2
"""Fraction of the rows that the demo holds out as a test set. Larger: a more precise test error, less training data.
Set by hand; no measurement is recorded."""


def run_demo(url: str | None, api_key: str | None, settings: Settings) -> int:
    console = Console(highlight=False)
    try:
        with _server(url, settings, console) as address, hyperplane.Client(address, api_key) as client:
            _walk_through(client, address, console)
    except hyperplane.HyperplaneError as error:
        console.print(f"[red]The server refused:[/red] {error}")
        return 1
    return 0


@contextmanager
def _server(url: str | None, settings: Settings, console: Console) -> Iterator[str]:
    """Yield the URL of the server: the given one, the one that runs with these settings, or a temporary one."""
    if url:
        yield url
        return
    with (
        tempfile.TemporaryDirectory(prefix="hyperplane-demo-") as folder,
        reachable_service(settings, Path(folder), console.print) as address,
    ):
        yield address


def _walk_through(client: hyperplane.Client, address: str, console: Console) -> None:
    started = time.perf_counter()
    dataset = client.datasets.create(SAMPLE, name="ionosphere")
    options = {"loss": "squared_hinge", "tol": 1e-6, "split": {"test": TEST_SHARE}}
    job = client.jobs.train(dataset, model="ionosphere", **options)
    with Progress(console=console) as bar:
        task = bar.add_task("training", total=1.0)
        job = job.wait(on_progress=lambda seen: bar.update(task, completed=seen.progress))
    model = client.models.get(job.model_id)
    (prediction,) = client.models.predict(model, [_first_row()]).predictions
    assert model.certificate is not None
    test = model.metrics.test
    for name, value in {
        "rows": dataset.n_rows,
        "features": dataset.n_features,
        "objective": f"{model.certificate.primal:.6f}",
        "certified gap": f"{model.relative_gap:.1e} relative: no model can have a lower objective by more",
        "test accuracy": f"{test.accuracy:.3f} on {test.rows} rows",
        "first row": f"{prediction.label} (score {prediction.score:.3f})",
        "seconds": f"{time.perf_counter() - started:.2f} in total, {model.training.seconds:.3f} in the solver",
    }.items():
        console.print(f"{name:14} {value}")
    console.print(f"model          {address}/v1/models/{model.id}")


def _first_row() -> dict[str, float]:
    with SAMPLE.open(newline="") as file:
        row = next(csv.DictReader(file))
    return {name: float(value) for name, value in list(row.items())[:-1]}
