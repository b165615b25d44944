"""States as a checkpoint file gives them back."""

import tempfile
from pathlib import Path

import numpy as np

from app.storage import BlobStore
from app.worker.train import checkpoint_file

HEADER = checkpoint_file.Header(
    job_id="job_x",
    fence=1,
    data="0" * 64,
    code=checkpoint_file.code_version(),
    seed=0,
    seconds=1.5,
    training=0,
    folds=[],
    progress=0.25,
    first_gap=None,
    curve=[{"passes": 1, "primal": None}],
)


class Interruption(Exception):
    """What a worker that has to stop leaves a solver with."""


def written_and_read(state):
    with tempfile.TemporaryDirectory() as folder:
        blobs = BlobStore(Path(folder))
        sha256, size = checkpoint_file.write(blobs, HEADER, state)
        assert size == blobs.size(sha256)
        header, read = checkpoint_file.read(blobs, sha256)
    assert header.model_copy(update={"arrays": {}, "scalars": {}}) == HEADER
    assert read.keys() == state.keys()
    for name, value in state.items():
        assert np.asarray(read[name]).tobytes() == np.asarray(value).tobytes(), name
    return read
