"""Writes docs/images/session.svg, a terminal recording of a real session: `make recording`.

A temporary service is started, the lines below are typed into a Python and a shell, and what they print is drawn. Lines
appear one after another; programs that do not animate SVG show the last state. Nothing is loaded from elsewhere.
"""

import code
import io
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from xml.sax.saxutils import escape

import hyperplane

__all__ = ["draw", "main"]

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "docs" / "images" / "session.svg"
SHOWN_ADDRESS = "127.0.0.1:8000"
START_SECONDS = 180.0

STATEMENTS = [
    "# upload a table: 351 radar returns, 34 numbers each",
    'dataset = client.datasets.create(Path("ionosphere.csv"))',
    'dataset["n_rows"], dataset["n_features"], dataset["task_hint"]',
    "# train to a proven relative gap of at most 1e-6",
    'job = client.jobs.train(dataset, model="radar", loss="squared_hinge", tol=1e-6, split={"test": 0.2})',
    "result = job.wait().result",
    'result["solver"], result["status"], round(result["metrics"]["test"]["accuracy"], 3)',
    'result["certificate"]["dual_bound"], result["certificate"]["primal"]   # the optimum is in between',
    "# predict; the exact optimum would give this row the same label",
    'row = {"indices": [0, 2, 4], "values": [1, 0.9, 0.8]}',
    'client.models.predict("radar", [row], outputs=["label", "score", "label_certain"])["predictions"]',
]
"""Lines of Python, typed into an interpreter that has a client and `Path`."""

FETCH = """
curl -sf $URL/v1/models/radar/export?format=verifier -o radar.zip && python -m zipfile -e radar.zip .
JOB=$(curl -sf $URL/v1/models/radar/verify -H 'Content-Type: application/json' -H 'Prefer: wait=60' \\
    -d '{"rows": true}' | grep -o 'job_[0-9a-z]*' | head -n 1)
curl -sf $URL/v1/jobs/$JOB/output -o rows.npz
"""
PROOF = ["# do not trust the service: check the proof with one file that needs only numpy"]
VERIFY = "python verify_model.py model.npz rows.npz"

WIDTH, LINE, LEFT, TOP, SIZE = 116, 20, 20, 52, 14
SECONDS_A_LINE = 0.35


def main() -> None:
    lines = list(_session())
    TARGET.write_text(draw(lines))
    print(f"written: {TARGET.relative_to(ROOT)}")


def draw(lines: list[tuple[str, str]]) -> str:
    """Draw lines, each with its kind: `comment`, `command` or `output`."""
    folded = [(kind, part) for kind, line in lines for part in _fold(line)]
    height = TOP + LINE * len(folded) + 16
    width = int(LEFT * 2 + WIDTH * SIZE * 0.602)
    texts = "\n".join(
        f'<text class="{kind}" x="{LEFT}" y="{TOP + LINE * number}" style="animation-delay:'
        f'{0.5 + SECONDS_A_LINE * number:.2f}s" xml:space="preserve">{escape(part)}</text>'
        for number, (kind, part) in enumerate(folded)
    )
    dots = "".join(
        f'<circle cx="{LEFT + 6 + 20 * place}" cy="20" r="6" fill="{colour}"/>'
        for place, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>A session with Hyperplane: upload, train, predict, verify</title>
<style>
text {{ font: {SIZE}px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #d5dbe5; }}
.comment {{ fill: #7f8c9f; }}
.command {{ fill: #8fd6ff; }}
@media (prefers-reduced-motion: no-preference) {{ text {{ animation: appear .2s backwards; }} }}
@keyframes appear {{ from {{ opacity: 0; }} }}
</style>
<rect width="{width}" height="{height}" rx="10" fill="#12161d"/>
{dots}
{texts}
</svg>
"""


def _session() -> Iterator[tuple[str, str]]:
    with tempfile.TemporaryDirectory(prefix="hyperplane-recording-") as name:
        folder = Path(name)
        (folder / "ionosphere.csv").write_bytes((ROOT / "app" / "examples" / "ionosphere.csv").read_bytes())
        with _service(folder / "data") as address:
            yield from _python(folder, address)
            yield from _shell(folder, address)


def _python(folder: Path, address: str) -> Iterator[tuple[str, str]]:
    yield "command", "$ python"
    console = code.InteractiveConsole(
        {"client": hyperplane.Client(f"http://{address}"), "Path": lambda name: folder / name}
    )
    yield "command", ">>> import hyperplane"
    yield "command", f'>>> client = hyperplane.Client("http://{SHOWN_ADDRESS}")'
    for statement in STATEMENTS:
        is_comment = statement.startswith("#")
        yield "comment" if is_comment else "command", f">>> {statement}"
        printed = io.StringIO()
        with redirect_stdout(printed):
            console.push(statement)
        for line in printed.getvalue().splitlines():
            yield "output", line


def _shell(folder: Path, address: str) -> Iterator[tuple[str, str]]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "URL": f"http://{address}", "PATH": path}
    subprocess.run(["bash", "-eu", "-c", FETCH], cwd=folder, env=environment, check=True)
    for comment in PROOF:
        yield "comment", comment
    yield "command", f"$ {VERIFY}"
    done = subprocess.run(VERIFY.split(), cwd=folder, env=environment, capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        if not line.startswith("  claimed"):
            yield "output", line


@contextmanager
def _service(data_dir: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "app.cli", "serve", "--port", str(port), "--data-dir", str(data_dir)]
    server = subprocess.Popen([*command, "--workers", "1"], cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not _is_ready(port):
            if server.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("the service did not start")
            time.sleep(0.2)
        yield f"127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(30)


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _fold(line: str) -> Iterator[str]:
    """Break a line at the window's width, as a terminal does."""
    while len(line) > WIDTH:
        yield line[:WIDTH]
        line = "  " + line[WIDTH:]
    yield line


if __name__ == "__main__":
    main()
