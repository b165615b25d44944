"""`hyperplane demo`: upload a CSV, train a model, show its certificate and a prediction."""

import csv
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from app.client import ApiError, Client
from app.config import Settings
from app.runtime.launcher import START_SECONDS, base_url, server_answers

SAMPLE = Path(__file__).parents[1] / "examples" / "ionosphere.csv"
TEST_SHARE = 0.2
"""Fraction of the rows that the demo holds out as a test set. Larger: a more precise test error, less training data."""


def run_demo(url: str | None, api_key: str | None, settings: Settings) -> int:
    console = Console(highlight=False)
    try:
        with _server(url, settings, console) as address, Client(address, api_key) as client:
            _walk_through(client, address, console)
    except ApiError as error:
        console.print(f"[red]The server refused:[/red] {error}")
        return 1
    return 0


@contextmanager
def _server(url: str | None, settings: Settings, console: Console) -> Iterator[str]:
    """Yield the URL of the server: the given one, the one that runs with these settings, or a temporary one."""
    address = url or base_url(settings)
    if url or server_answers(address, "/livez"):
        yield address
        return
    console.print(f"No server responds at {address}. Starting a temporary one.")
    with tempfile.TemporaryDirectory(prefix="hyperplane-demo-") as folder:
        port = _free_port()
        command = [sys.executable, "-m", "app.cli", "serve", "--port", str(port), "--data-dir", folder]
        server = subprocess.Popen([*command, "--host", "127.0.0.1"], stdout=subprocess.DEVNULL)
        try:
            address = f"http://127.0.0.1:{port}"
            deadline = time.monotonic() + START_SECONDS
            while not server_answers(address) and server.poll() is None and time.monotonic() < deadline:
                time.sleep(0.1)
            yield address
        finally:
            server.terminate()
            server.wait()


def _walk_through(client: Client, address: str, console: Console) -> None:
    started = time.perf_counter()
    dataset = client.upload(SAMPLE, name="ionosphere")
    job = client.train(dataset["id"], model="ionosphere", loss="squared_hinge", tol=1e-6, split={"test": TEST_SHARE})
    with Progress(console=console) as bar:
        task = bar.add_task("training", total=1.0)
        job = client.wait(job["id"], lambda seen: bar.update(task, completed=seen["progress"]))
    if job["status"] != "succeeded":
        console.print(f"[red]The job has {job['status']}:[/red] {job['error']}")
        return
    model = client.model(job["model_id"])
    answer = client.predict(model["id"], [_first_row()])
    certificate = model["certificate"]
    for name, value in {
        "rows": dataset["n_rows"],
        "features": dataset["n_features"],
        "objective": f"{certificate['primal']:.6f}",
        "certified gap": f"{certificate['relative_gap']:.1e} relative: no model can have a lower objective by more",
        "test accuracy": f"{model['metrics']['test']['accuracy']:.3f} on {model['metrics']['test']['rows']} rows",
        "first row": f"{answer['predictions'][0]['label']} (score {answer['predictions'][0]['score']:.3f})",
        "seconds": f"{time.perf_counter() - started:.2f} in total, {model['training']['seconds']:.3f} in the solver",
    }.items():
        console.print(f"{name:14} {value}")
    console.print(f"model          {address}/v1/models/{model['id']}")


def _first_row() -> dict[str, float]:
    with SAMPLE.open(newline="") as file:
        row = next(csv.DictReader(file))
    return {name: float(value) for name, value in list(row.items())[:-1]}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
