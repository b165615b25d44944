"""A peer's process seen from here: started in its environment, asked by lines of JSON, ended with its data."""

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["ENVIRONMENT", "PeerProcess", "Trained", "installed"]

ENVIRONMENT = Path(__file__).resolve().parents[2] / ".venv-bench"
"""Made by `make bench`: the peers, with versions of their own."""
EDITIONS = {"liblinear": "liblinear-official", "liblinear-multicore": "liblinear-multicore"}
"""Of the same import name, so that each lies in a folder of its own."""


class Trained(NamedTuple):
    """What one training took, and what came out of it."""

    seconds: float
    """By the clock."""
    cpu: float
    """Of the processor, all threads."""
    weights: NDArray[np.float64]


def installed() -> bool:
    return (ENVIRONMENT / "bin" / "python").exists()


class PeerProcess:
    """One of liblinear, liblinear-multicore, sklearn, snapml; it keeps the rows that it loaded last."""

    def __init__(self, name: str, python: Path = ENVIRONMENT / "bin" / "python") -> None:
        kind = "liblinear" if name in EDITIONS else name
        environment = {**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        environment["PYTHONPATH"] = str(ENVIRONMENT / EDITIONS[name]) if name in EDITIONS else ""
        program = [str(python), str(Path(__file__).with_name("child.py")), kind]
        self._child = subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self._scratch = tempfile.TemporaryDirectory()

    def load(self, folder: Path) -> float:
        """The seconds it took to convert rows that `problems.store` has put there."""
        return float(self._ask(do="load", folder=str(folder))["seconds"])

    def train(self, settings: dict[str, Any], limit: float, clock: str = "seconds") -> Trained | str:
        """Or why there is nothing: it took longer than the limit by that clock, or refused."""
        weights = Path(self._scratch.name) / "weights.npy"
        answer = self._ask(do="train", settings=settings, limit=limit, clock=clock, weights=str(weights))
        if "seconds" not in answer:
            return str(answer.get("error", "late"))
        return Trained(answer["seconds"], answer["cpu"], np.load(weights))

    def close(self) -> None:
        self._child.kill()
        self._child.communicate()
        self._scratch.cleanup()

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(request) + "\n")
        self._child.stdin.flush()
        line = self._child.stdout.readline()
        if not line:
            raise RuntimeError(f"the peer's process ended with {self._child.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer
