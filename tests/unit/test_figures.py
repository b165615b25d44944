"""Figures in README and docs/explanation/performance.md are those of the pages that the measurements wrote."""

import re

import pytest

from tests.support.documents import ROOT

MEASURED = ROOT / "docs" / "benchmarks"
README = (ROOT / "README.md").read_text()
PERFORMANCE = (ROOT / "docs" / "explanation" / "performance.md").read_text()


def row(page: str, start: str) -> list[str]:
    """The cells of the first row of a page's tables that begins with this text."""
    line = next(line for line in (MEASURED / page).read_text().splitlines() if line.startswith(f"| {start} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_training_beside_peers() -> None:
    text = (MEASURED / "peers.md").read_text()
    gaps = re.findall(r"^gap (\S+): geometric mean (\S+) over (\d+) cells; (\d+) above 1, (\d+) above 0.5", text, re.M)
    assert len(gaps) >= 3
    for gap, mean, cells, slower, above_half in gaps[:3]:
        slower_text = "none" if slower == "0" else slower
        assert f"{mean} ({cells} cells, {above_half} above 0.5, {slower_text} above 1)" in PERFORMANCE, gap
    (_, three, three_cells, slower3, _), (_, six, six_cells, slower6, _) = gaps[1], gaps[2]
    assert f"{float(three):.2f} of its time to 1e-3, {float(six):.2f} to 1e-6" in README
    assert f"geometric means of {three_cells} and {six_cells} cells; slower in none" in README
    assert (slower3, slower6) == ("0", "0")


def test_from_file_to_predictions() -> None:
    _, ours, sklearn, h2o = row("end_to_end.md", "in all")
    _, our_memory, sklearn_memory, h2o_memory = row("end_to_end.md", "peak memory, MB")
    for peer, memory in ((sklearn, sklearn_memory), (h2o, h2o_memory)):
        assert f"[{ours} s and {peer} s]" in README
        assert f"{our_memory} MB and {int(memory):,} MB" in README
    assert f"{ours} s, scikit-learn {sklearn} s, H2O {h2o} s" in PERFORMANCE


@pytest.mark.parametrize("text", [README, PERFORMANCE], ids=["README", "performance"])
def test_serving(text: str) -> None:
    page = (MEASURED / "serving.md").read_text()
    (times,) = re.findall(r"^(\S+) times its requests a second", page, re.M)
    assert f"{times} times as many" in text
    assert f"{row('serving.md', 'predict by id')[5]} times" in text
