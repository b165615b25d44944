"""The arithmetic of the benchmark against peers, and that an interrupted run continues where it stopped."""

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import solvers
from benchmarks.peers import match as match_module
from benchmarks.peers import report
from benchmarks.peers.cells import Cell, geometric_mean, groups
from benchmarks.peers.ledger import Ledger
from benchmarks.peers.match import GAPS, Match
from benchmarks.peers.process import PeerProcess, Trained
from benchmarks.problems import BinarySet, objective, store

C = 0.5


@pytest.fixture
def data(tmp_path: Path) -> BinarySet:
    random = np.random.default_rng(5)
    X = random.standard_normal((300, 6))
    signs = np.where(X[:, 0] + 0.7 * random.standard_normal(300) > 0.0, 1.0, -1.0)
    store(tmp_path / "rows", X, signs)
    return BinarySet("tiny", X, signs, tmp_path / "rows", "0")


class _Trainer:
    """A peer that is one of our solvers, with a tolerance and a clock of its own."""

    def __init__(self, data: BinarySet, loss: str, kill_after: int | None) -> None:
        self.data, self.loss, self.kill_after = data, loss, kill_after
        self.runs: list[dict[str, Any]] = []

    def ready(self, name: str, folder: Path, note_conversion: Callable[[float], None]) -> "_Trainer":
        assert folder == self.data.folder
        return self

    def train(self, settings: dict[str, Any], limit: float, clock: str) -> Trained | str:
        if len(self.runs) == self.kill_after:
            raise KeyboardInterrupt
        self.runs.append(settings)
        tolerance = float(settings["tol"] if "tol" in settings else settings["flags"].split()[-1])
        result = solvers.train(self.data.X, self.data.signs, solver="dcd", loss=self.loss, C=C, tol=tolerance)
        return Trained(1.5, 1.5, np.append(result.coef, result.intercept))


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_gap_of_weights_is_that_of_the_certificate(data: BinarySet, loss: str) -> None:
    result = solvers.train(data.X, data.signs, loss=loss, C=C, tol=1e-3)
    primal = objective(data.X, data.signs, loss, C, np.append(result.coef, result.intercept))
    bound = result.certificate.dual_bound
    assert bound is not None
    assert (primal - bound) / primal == pytest.approx(result.certificate.relative_gap, rel=1e-9)


def test_scikit_learn_in_its_process_gives_its_weights_and_is_ended_in_time(data: BinarySet) -> None:
    svm = pytest.importorskip("sklearn.svm")
    settings = {"loss": "hinge", "C": C, "max_iter": 1_000_000, "random_state": 0}
    peer = PeerProcess("sklearn", python=Path(sys.executable))
    try:
        peer.load(data.folder)
        trained = peer.train({**settings, "tol": 1e-6}, 60.0)
        never = peer.train({**settings, "C": 1e9, "max_iter": 2_000_000_000, "tol": 1e-300}, 0.2, "cpu")
        again = peer.train({**settings, "tol": 1e-6}, 60.0)
    finally:
        peer.close()
    assert never == "late"
    assert isinstance(trained, Trained)
    assert isinstance(again, Trained)
    np.testing.assert_array_equal(trained.weights, again.weights)
    expected = svm.LinearSVC(**settings, tol=1e-6).fit(data.X, data.signs)
    np.testing.assert_allclose(trained.weights, np.append(expected.coef_, expected.intercept_), rtol=1e-12)
    ours = solvers.train(data.X, data.signs, loss="hinge", C=C, tol=1e-9).certificate
    assert objective(data.X, data.signs, "hinge", C, trained.weights) == pytest.approx(ours.primal, rel=1e-5)


def test_a_killed_match_goes_on_where_it_was(data: BinarySet, tmp_path: Path) -> None:
    whole = _Trainer(data, "squared_hinge", None)
    uninterrupted = Ledger(tmp_path / "whole" / "runs.jsonl")
    Match(data, "squared_hinge", C, 1, "seconds", uninterrupted, whole).play()  # type: ignore[arg-type]

    first, second = _Trainer(data, "squared_hinge", 4), _Trainer(data, "squared_hinge", None)
    path = tmp_path / "killed" / "runs.jsonl"
    with pytest.raises(KeyboardInterrupt):
        Match(data, "squared_hinge", C, 1, "seconds", Ledger(path), first).play()  # type: ignore[arg-type]
    with path.open("a") as file:
        file.write('{"of": {"data": "ti')  # as if killed in the middle of a line
    Match(data, "squared_hinge", C, 1, "seconds", Ledger(path), second).play()  # type: ignore[arg-type]

    assert len(first.runs) == 4
    assert first.runs + second.runs == whole.runs
    third = _Trainer(data, "squared_hinge", 0)
    Match(data, "squared_hinge", C, 1, "seconds", Ledger(path), third).play()  # type: ignore[arg-type]
    assert [json.loads(line)["of"] for line in path.read_text().splitlines()] == [r["of"] for r in Ledger(path)]


def test_ratios_are_ours_over_the_fastest_peer_that_reached_the_gap(
    data: BinarySet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(match_module, "MOST_OCAS_NONZEROS", 0)
    ledger = Ledger(tmp_path / "ledger" / "runs.jsonl")
    Match(data, "hinge", C, 1, "seconds", ledger, _Trainer(data, "hinge", None)).play()  # type: ignore[arg-type]
    (group,) = groups(ledger, 1, "seconds")
    assert [cell.gap for cell in group.cells] == list(GAPS)
    assert group.known_to < 1e-7
    for cell in group.cells:
        assert set(cell.peers.values()) == {1.5}
        assert cell.ours is not None
        assert cell.ratio == cell.ours / 1.5
    loosest = next(record for record in ledger if record["of"]["who"] == "LIBLINEAR -s 3")["of"]["tolerance"]
    assert loosest == 1.0
    report.write(tmp_path / "page", list(ledger), "seconds")
    written = json.loads((tmp_path / "page" / "peers.json").read_text())
    assert [cell["ratio"] for cell in written["one_thread"]] == [cell.ratio for cell in group.cells]
    assert "| tiny | hinge | 0.5 |" in (tmp_path / "page" / "peers.md").read_text()


def test_a_published_match_stays_on_the_page_until_it_is_played_again(
    data: BinarySet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(match_module, "MOST_OCAS_NONZEROS", 0)

    def played(name: str) -> list[Any]:
        ledger = Ledger(tmp_path / name / "runs.jsonl")
        trainer = _Trainer(data, "hinge", None)
        Match(data._replace(name=name), "hinge", C, 1, "seconds", ledger, trainer).play()  # type: ignore[arg-type]
        return list(ledger)

    first, second = played("tiny"), played("other")
    page = tmp_path / "page"
    report.write(page, first, "seconds")
    once = json.loads((page / "peers.json").read_text())
    report.write(page, second, "seconds")
    both = json.loads((page / "peers.json").read_text())
    text = (page / "peers.md").read_text()
    assert [cell for cell in both["one_thread"] if cell["data"] == "tiny"] == once["one_thread"]
    assert {cell["data"] for cell in both["one_thread"]} == {"tiny", "other"}
    assert f"| tiny ({once['when']}) | hinge | 0.5 |" in text
    assert "| other | hinge | 0.5 |" in text
    report.write(page, first, "seconds")
    assert "| tiny | hinge | 0.5 |" in (page / "peers.md").read_text()
    report.write(page, second, "cpu")  # seconds of another clock are no neighbours
    assert {cell["data"] for cell in json.loads((page / "peers.json").read_text())["one_thread"]} == {"other"}


def test_who_does_not_arrive_is_counted_with_the_limit() -> None:
    def cell(ours: float | None, peers: dict[str, float]) -> Cell:
        return Cell("a", "hinge", 1.0, 1e-3, ours, "dcd", peers, 2.0)

    assert (cell(1.0, {"p": 4.0, "q": 2.5}).ratio, cell(1.0, {"p": 4.0}).mark) == (0.4, "")
    assert (cell(1.0, {}).ratio, cell(1.0, {}).mark) == (0.5, "<")
    assert (cell(None, {"p": 0.5}).ratio, cell(None, {"p": 0.5}).mark) == (4.0, ">")
    assert cell(None, {}).ratio is None
    assert geometric_mean([0.25, 1.0, None, 4.0]) == pytest.approx(1.0)
    assert geometric_mean([0.1, 0.4]) == pytest.approx(math.sqrt(0.04))
    assert geometric_mean([None]) is None
