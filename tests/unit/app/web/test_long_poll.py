"""Long polls: one question to the database for all of them, and each is answered when its row is done."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy.orm import Session

from app.db import Database
from app.web import long_poll
from app.web.long_poll import DoneWatch

POLLS = 200


class Rows:
    """The unfinished ones, and the questions that were asked about them."""

    def __init__(self, *unfinished: str) -> None:
        self.unfinished = set(unfinished)
        self.questions: list[int] = []

    def among(self, _session: Session, row_ids: Sequence[str]) -> set[str]:
        self.questions.append(len(row_ids))
        return self.unfinished.intersection(row_ids)


def watch_of(folder: Path, rows: Rows) -> DoneWatch:
    return DoneWatch(Database(f"sqlite:///{folder}/polls.sqlite3"), {"job": rows.among})


def test_many_polls_share_their_looks_and_end_when_the_row_is_done(tmp_path: Path) -> None:
    rows = Rows("job_1", "job_2")
    watch = watch_of(tmp_path, rows)

    async def run() -> int:
        polls = [asyncio.create_task(watch.wait(f"job_{1 + number % 2}", 60)) for number in range(POLLS)]
        other = asyncio.create_task(watch.wait("job_2", 60))
        while not rows.questions:
            await asyncio.sleep(0.005)
        assert max(rows.questions) <= 2  # both rows at once, for any number of waiting polls
        assert not any(poll.done() for poll in polls)
        asked = len(rows.questions)
        rows.unfinished.clear()
        await asyncio.wait_for(asyncio.gather(*polls, other), 30)
        return len(rows.questions) - asked

    questions = asyncio.run(run())
    assert questions < POLLS / 4


def test_a_poll_ends_with_its_time(tmp_path: Path) -> None:
    rows = Rows("job_1")
    watch = watch_of(tmp_path, rows)
    asyncio.run(asyncio.wait_for(watch.wait("job_1", 0.1), 10))
    assert not watch._polls


def test_a_look_that_hangs_holds_up_no_poll_whose_time_is_over(tmp_path: Path) -> None:
    rows = Rows("job_1")
    watch = watch_of(tmp_path, rows)

    async def run() -> None:
        watch._look = asyncio.create_task(asyncio.sleep(3600, set()))  # a database that does not answer
        await asyncio.wait_for(watch.wait("job_1", 0.1), 10)
        watch._look.cancel()

    long_poll_seconds, long_poll.LONGEST_LOOK_SECONDS = long_poll.LONGEST_LOOK_SECONDS, 0.1
    try:
        asyncio.run(run())
    finally:
        long_poll.LONGEST_LOOK_SECONDS = long_poll_seconds
