"""The journal of a search: what a killed process leaves is read, what it was writing is not."""

from pathlib import Path

import numpy as np
import pytest

from app.worker.tune.journal import Journal

TABLES = [{"outer": -1, "fold": fold, "C": 0.1, "solver": "dcd", "coef": np.array([fold, np.nan])} for fold in range(3)]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    journal = Journal(tmp_path, "job_1", 1, "code data")
    for table in TABLES:
        journal.add(table)
    (file,) = tmp_path.iterdir()
    return file


def later(folder: Path, version: str = "code data") -> Journal:
    return Journal(folder, "job_1", 2, version)


def test_the_next_attempt_finds_every_training(written: Path) -> None:
    found = later(written.parent).find()
    assert [table["fold"] for table in found] == [0, 1, 2]
    assert (found[0]["solver"], found[0]["C"]) == ("dcd", 0.1)
    np.testing.assert_array_equal(found[2]["coef"], TABLES[2]["coef"])


def test_a_file_cut_at_any_byte_gives_the_records_before_it(written: Path) -> None:
    content = written.read_bytes()
    counts = []
    for length in range(0, len(content), 37):
        written.write_bytes(content[:length])
        counts.append(len(later(written.parent).find()))
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (0, 2)


def test_a_changed_byte_ends_the_reading(written: Path) -> None:
    content = bytearray(written.read_bytes())
    content[-10] ^= 1
    written.write_bytes(content)
    assert len(later(written.parent).find()) == 2


def test_trainings_of_other_code_or_data_are_not_used(written: Path) -> None:
    assert later(written.parent, "other data").find() == []
    assert Journal(written.parent, "job_2", 1, "code data").find() == []


def test_clearing_deletes_the_files_of_all_attempts_of_this_job(written: Path) -> None:
    other = written.parent / "search-job_2-1"
    other.touch()
    later(written.parent).clear()
    assert list(written.parent.iterdir()) == [other]


def test_a_folder_that_is_gone_is_no_error(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "gone", "job_1", 1, "code data")
    journal.add(TABLES[0])
    assert journal.find() == []
    journal.clear()
