"""The registry of formats: what declarations promise, and what knowing them costs."""

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from app.datasets.formats import InvalidOption, ReadOptions, file_formats, read


def test_the_formats_are_found() -> None:
    assert set(file_formats()) >= {"arrow", "csv", "libsvm", "ndjson", "npz", "parquet", "tsv"}
    assert list(file_formats()) == sorted(file_formats())


def test_no_two_formats_share_a_media_type_or_a_suffix() -> None:
    formats = file_formats().values()
    suffixes = [suffix for one in formats for suffix in one.suffixes]
    assert len(set(suffixes)) == len(suffixes)
    assert len({one.media_type for one in formats}) == len(formats)


def test_declared_options_exist_and_each_option_has_a_format() -> None:
    declared = {option for one in file_formats().values() for option in one.options}
    assert declared == {field.name for field in fields(ReadOptions)} - {"encoding"}


def test_knowing_the_formats_loads_no_heavy_library() -> None:
    script = (
        "import sys; from app.datasets.formats import file_formats; from app.datasets.reading import receive\n"
        "print(len(file_formats()), sorted({'numba', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{len(file_formats())} []"


def test_an_unknown_format_is_refused_with_those_that_exist(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match=r"There is no format xlsx; the formats are arrow, csv, .*, tsv"):
        read(tmp_path / "table.xlsx", "xlsx", ReadOptions())
