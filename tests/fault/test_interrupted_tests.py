"""A test run that is killed leaves no PostgreSQL behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.serving import wait_until

SCRIPT = """
import time
from tests.support.postgres import private_server
with private_server() as server:
    data = server._server.pgdata
    print(data, open(data / "postmaster.pid").readline().strip(), flush=True)
    time.sleep(300)
"""


def test_a_killed_test_run_stops_its_server() -> None:
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        data, postmaster = run.stdout.readline().split()
        assert Path(f"/proc/{postmaster}").exists()
        os.kill(run.pid, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{postmaster}").exists(), 30, "the server to end")
    wait_until(lambda: not Path(data).parent.exists(), 30, "its folder to be deleted")
