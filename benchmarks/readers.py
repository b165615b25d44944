"""The svmlight reader beside scikit-learn's, the CSV reader beside bare pyarrow and the copy into one array.

Runs alternate within one process. Pinned to one core they are compared by processor time, which other
work on the machine disturbs least; on all cores by the clock. A ratio is the median over the rounds.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.csv
from sklearn.datasets import load_svmlight_file

from app.datasets.formats import ReadOptions, read, warm
from benchmarks import data

ROUNDS = 5
LIBSVM_ROWS = 30_000
CSV_ROWS = 50_000
CSV_COLUMNS = 30
Array = np.ndarray[Any, Any]


def run() -> None:
    warm()
    print(f"{'':28} {'MB':>5} {'cores':>5} {'ours MB/s':>10} {'peer MB/s':>10} {'peer / ours':>12}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data"
        for name, lines in _libsvm_texts().items():
            path.write_text("\n".join(lines))
            _compare(f"svmlight, {name}", path, lambda: read(path, "libsvm", ReadOptions()), _read_by_scikit_learn)
        for name, X, y in _csv_tables():
            _write_csv(path, X, y)
            _compare(f"CSV, {name}", path, lambda: read(path, "csv", ReadOptions(header="false")), _read_bare)
        _write_mixed_csv(path)
        _compare("CSV, words and texts", path, lambda: read(path, "csv", ReadOptions(header="true")), _read_mixed)


def _compare(name: str, path: Path, ours: Callable[[], Any], peer: Callable[[Path], Any]) -> None:
    every_core = os.sched_getaffinity(0)
    megabytes = path.stat().st_size / 1e6
    for cores, clock in (({min(every_core)}, time.process_time), (every_core, time.perf_counter)):
        os.sched_setaffinity(0, cores)
        rounds = [(_time(ours, clock), _time(lambda: peer(path), clock)) for _ in range(ROUNDS)]
        own, other = (megabytes / statistics.median(taken) for taken in zip(*rounds, strict=True))
        ratio = statistics.median(theirs / mine for mine, theirs in rounds)
        print(f"{name:28} {megabytes:5.0f} {len(cores):5} {own:10.0f} {other:10.0f} {ratio:12.2f}", flush=True)


def _time(call: Callable[[], Any], clock: Callable[[], float]) -> float:
    began = clock()
    call()
    return clock() - began


def _read_by_scikit_learn(path: Path) -> Any:
    return load_svmlight_file(str(path))


def _read_bare(path: Path) -> Array:
    """What one cannot do without: pyarrow's conversion, and the columns put side by side."""
    options = pyarrow.csv.ReadOptions(autogenerate_column_names=True, use_threads=len(os.sched_getaffinity(0)) > 1)
    table = pyarrow.csv.read_csv(path, read_options=options)
    X = np.empty(table.shape)
    for j, column in enumerate(table.columns):
        X[:, j] = column.to_numpy()
    return X


def _read_mixed(path: Path) -> Any:
    """What pyarrow makes of it by itself: numbers, dates, strings."""
    options = pyarrow.csv.ReadOptions(use_threads=len(os.sched_getaffinity(0)) > 1)
    return pyarrow.csv.read_csv(path, read_options=options)


def _libsvm_texts() -> dict[str, Iterator[str]]:
    random = np.random.default_rng(0)
    numbers = random.random(100_000)
    spelled = {
        "ones (as a9a)": (40, ["1"]),
        "six decimals (as rcv1)": (75, [f"{number:.6f}" for number in numbers]),
        "full precision": (40, [repr(number) for number in numbers.tolist()]),
    }

    def lines(n_entries: int, values: list[str]) -> Iterator[str]:
        for row in range(LIBSVM_ROWS):
            indices = np.unique(random.integers(1, 47_237, n_entries)).tolist()
            entries = " ".join(f"{index}:{values[(index + row) % len(values)]}" for index in indices)
            yield f"{2 * (row % 2) - 1} {entries}"

    return {name: lines(*kind) for name, kind in spelled.items()}


def _csv_tables() -> Iterator[tuple[str, Array, Array]]:
    random = np.random.default_rng(0)
    yield "full precision", random.random((CSV_ROWS, CSV_COLUMNS)), random.integers(0, 2, CSV_ROWS)
    try:
        yield "covtype", *data.load("covtype")
    except FileNotFoundError:
        print("covtype is not here: left out")


def _write_mixed_csv(path: Path) -> None:
    """A table as people have them: numbers with gaps, a few levels and many, yes and no, dates, texts."""
    random = np.random.default_rng(0)
    words = [f"word{number}" for number in range(5_000)]
    with path.open("w") as file:
        file.write("age,job,city,active,joined,income,note,label\n")
        for row in range(CSV_ROWS):
            age = "" if row % 10 == 0 else str(18 + row % 60)
            note = " ".join(words[place] for place in random.integers(0, 5_000, 15))
            job, city = words[row % 12], words[row * 31 % 5_000]
            active, day = ("yes", "no")[row % 2], 1 + row % 28
            file.write(f"{age},{job},{city},{active},2020-01-{day:02},{random.random()!r},{note},{row % 2}\n")


def _write_csv(path: Path, X: Array, y: Array) -> None:
    rows = X.astype(np.int64).tolist() if (np.trunc(X) == X).all() else X.tolist()
    with path.open("w") as file:
        for row, label in zip(rows, y.tolist(), strict=True):
            file.write(",".join(map(repr, [*row, label])) + "\n")
