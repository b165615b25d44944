"""Starts a service for the duration of one command: for `hyperplane demo`, and for the client's commands if no service
answers."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from app.config import PREFIX, Settings
from app.runtime.launcher import START_SECONDS, base_url, server_answers

__all__ = ["reachable_service"]


@contextmanager
def reachable_service(settings: Settings, data_dir: Path, say: Callable[[str], object]) -> Iterator[str]:
    """Yield the URL of the service that runs with these settings. If none answers, start one on `data_dir` and stop it
    at the end."""
    address = base_url(settings)
    if server_answers(address, "/livez"):
        yield address
        return
    say(f"No service answers at {address}. Starting one on {data_dir} for this command.")
    port = _free_port()
    address = f"http://127.0.0.1:{port}"
    flags = {"HOST": "127.0.0.1", "PORT": str(port), "DATA_DIR": str(data_dir), "LOG_LEVEL": "warning"}
    environment = os.environ | {f"{PREFIX}{name}": value for name, value in flags.items()}
    server = subprocess.Popen(
        [sys.executable, "-m", "app.cli", "serve"], env=environment, stdout=subprocess.DEVNULL, start_new_session=True
    )  # in its own session, so that Ctrl-C reaches only the command, which then stops the service
    try:
        deadline = time.monotonic() + START_SECONDS
        while not server_answers(address) and server.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        yield address
    finally:
        server.terminate()
        server.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
