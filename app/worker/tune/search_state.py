"""Stores the finished trainings of a search, so that a later attempt does not repeat them.

Each finished training goes to a local journal at once, and to the store at intervals. Each write to the store adds a
blob with the trainings since the last one. Its header lists the earlier blobs, so the newest blob, which the job's row
names, leads to all of them. The amount written is proportional to the trainings.
"""

import logging
import time
from typing import Any

from app.errors import DatabaseUnavailable
from app.jobs import queue
from app.jobs.repository import Claim
from app.storage.ownership import BlobsGone, reclaim
from app.worker.train import checkpoint_file
from app.worker.train.checkpoint_file import Header, UnusableCheckpoint
from app.worker.train.checkpoints import read_own
from app.worker.train.load import Work
from app.worker.tune.journal import Journal, Table
from app.worker.worker_context import WorkerContext

log = logging.getLogger(__name__)

WRITE_EVERY_SECONDS = 0.5
"""Minimum seconds between two writes to the store. A crash of the machine loses the trainings since the last one; a
crash of the process does not. Larger: fewer files. Set by hand; no measurement is recorded."""
MOST_COST = 0.05
"""Maximum share of the time for writes. Larger: less is lost after a crash, slower searches. Set by hand; no
measurement is recorded."""


class SearchState:
    """The finished trainings of a search."""

    def __init__(self, context: WorkerContext, claim: Claim, work: Work) -> None:
        self._context = context
        self._claim = claim
        self._work = work
        self._segments: list[str] = []
        self._new: list[Table] = []
        version = f"{checkpoint_file.code_version()} {work.dataset.sha256}"
        self._journal = Journal(context.blobs.staging, claim.job_id, claim.fence, version)
        self._next = time.monotonic() + WRITE_EVERY_SECONDS
        self.seconds_before = 0.0
        """Seconds that earlier attempts used."""

    def find(self) -> list[Table]:
        """Return the trainings of earlier attempts. Stores an event if there are any, or if they cannot be used."""
        tables = self._of_store()
        for table in self._journal.find():
            self.add(table)
        tables += self._new
        if tables:
            trainings = len({_name(table) for table in tables})
            self._tell("job.resumed", {"trainings": trainings, "seconds": self.seconds_before})
        return tables

    def _of_store(self) -> list[Table]:
        blob = self._work.job.checkpoint
        if blob is None:
            return []
        try:
            header, state = read_own(self._context, self._work, blob)
            if header.kind != "search":
                return []
            older = [read_own(self._context, self._work, segment)[1] for segment in header.segments]
        except UnusableCheckpoint as reason:
            log.warning("%s starts from the beginning: %s", self._claim.job_id, reason)
            self._tell("job.restarted", {"reason": str(reason)})
            return []
        self._segments, self.seconds_before = [*header.segments, blob], header.seconds
        return [table for one in (*older, state) for table in _tables(one)]

    def add(self, table: Table) -> None:
        self._new.append(table)
        self._journal.add(table)

    def end(self) -> None:
        """Delete the journal: the search has its result."""
        self._journal.clear()

    @property
    def is_due(self) -> bool:
        return bool(self._new) and time.monotonic() >= self._next

    def save(self, seconds: float, progress: float) -> None:
        """Write the trainings since the last write. A failing storage or database does not end the search."""
        if not self._new:
            return
        began = time.monotonic()
        try:
            self._write(seconds, progress)
        except (OSError, DatabaseUnavailable, BlobsGone) as error:
            log.warning("could not store the trainings of %s: %s", self._claim.job_id, error)
        now = time.monotonic()
        self._next = now + max(WRITE_EVERY_SECONDS, (now - began) / MOST_COST)

    def _write(self, seconds: float, progress: float) -> None:
        header = Header(
            kind="search",
            segments=self._segments,
            job_id=self._claim.job_id,
            fence=self._claim.fence,
            data=self._work.dataset.sha256,
            code=checkpoint_file.code_version(),
            seed=self._work.request.seed,
            seconds=self.seconds_before + seconds,
            training=0,
            folds=[],
            progress=progress,
            first_gap=None,
            curve=[],
        )
        arrays = {f"{number}.{name}": value for number, one in enumerate(self._new) for name, value in one.items()}
        written = checkpoint_file.write(self._context.blobs, header, arrays)
        with self._context.database.write() as session:
            replaced = queue.keep(
                session, self._claim, {"checkpoint": written}, self._context.blobs, needed=self._segments
            )
        reclaim(self._context.database, self._context.blobs, replaced)
        self._segments, self._new = [*self._segments, written[0]], []
        self._journal.clear()

    def _tell(self, event: str, data: dict[str, Any]) -> None:
        with self._context.database.write() as session:
            queue.tell(session, self._claim, event, data)


def _name(table: Table) -> tuple[int, int, int, float]:
    """Return what identifies a training within a search."""
    return int(table["outer"]), int(table["variant"]), int(table["fold"]), float(table["C"])


def _tables(state: Table) -> list[Table]:
    """Return the trainings of one blob, in their order."""
    tables: dict[int, Table] = {}
    for name, value in state.items():
        number, _, field = name.partition(".")
        tables.setdefault(int(number), {})[field] = value
    return [tables[number] for number in sorted(tables)]
