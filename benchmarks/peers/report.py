"""The comparison as text: lines while it runs, a summary, and the page under docs/benchmarks with JSON and plots."""

import json
import os
import platform
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.peers.cells import Cell, Group, geometric_mean, groups
from benchmarks.peers.ledger import Record
from benchmarks.peers.match import GAPS
from benchmarks.peers.plots import write_curves, write_heat_map
from benchmarks.peers.published import completed, published, stored_match
from benchmarks.peers.reference import GOOD_ENOUGH

__all__ = ["FOLDER", "fastest_methods", "line", "summary", "write"]

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "benchmarks"
HOW = """# Comparison with other solvers

Written by `make bench ARGS=peers` ({when}, {cores} cores, {machine}, load {load} at the end; seconds {clock}).

A cell is a dataset, a loss, a C (as in LIBLINEAR: a factor of the sum over rows) and a relative gap to reach. The
bias is the weight of a constant feature of 1. The gap of any weights is (P - bound) / P, where P is recomputed in
float64 and `bound` is the best proven dual bound.

- **Ours** is `solver="auto"`. It stops at its own certificate, whose time is included.
- **A peer's** time is that of its fastest run that reached the gap. Its runs use tighter and tighter tolerances, so
  it stops as if it knew in advance which tolerance suffices. svmocas prints its objective in every iteration, so one
  run serves for all gaps.
- A ratio is our time divided by the time of the fastest peer. Below 1 we are faster.
- `<` means that no peer reached the gap within its time limit: five times our time and at least 2 s (with `--quick`
  twice and 0.5 s; twice if five times is more than 20 s). The limit then counts as its time, so the true ratio is
  smaller.
- `>` means that ours did not reach the gap.

All runs start from arrays in memory. LIBLINEAR's time does not include the conversion to its own data structure (see
the last table). scikit-learn and Snap ML convert inside `fit`, so their conversion cannot be separated. They get
dense data as CSR if less than half of it is non-zero. In each round, ours and the peers run once to every gap. The
shortest of 3 rounds counts (of 7 for runs below 0.05 s, of 2 above one second, of 1 above five seconds). Once a peer
has reached a gap, the others get twice its time and are not repeated if they need more, because they are not the
fastest. LinearSVC, which contains LIBLINEAR's code, is run with the tolerances that sufficed for LIBLINEAR, and with
tighter ones. A dataset with a date was last run on that day: its row comes from a separate run of the code of that
day, with ours and the peers in turn.
"""


def line(group: Group) -> str:
    """One match, for the terminal."""
    cells = "; ".join(f"{cell.gap:.0e}: {_seconds(cell.ours)} / {_peer(cell)} = {_ratio(cell)}" for cell in group.cells)
    loose = "" if group.known_to <= GOOD_ENOUGH else f" (optimum known to {group.known_to:.0e})"
    return f"{group.data} {group.loss} C={group.C:g}, {_solvers(group)}: {cells}{loose}"


def summary(found: list[Group]) -> str:
    lines = []
    for gap in GAPS:
        cells = [cell for group in found for cell in group.cells if cell.gap == gap]
        ratios = [cell.ratio for cell in cells if cell.ratio is not None]
        mean = geometric_mean(ratios)
        if mean is not None:
            above = [sum(ratio > most for ratio in ratios) for most in (1.0, 0.5)]
            bounded = sum(cell.mark == "<" for cell in cells)
            lines.append(
                f"gap {gap:.0e}: geometric mean {mean:.3f} over {len(ratios)} cells; {above[0]} above 1, {above[1]} "
                f"above 0.5; no peer arrives in {bounded}, ours does not in {sum(cell.ours is None for cell in cells)}"
            )
    return "\n".join(lines)


def fastest_methods(found: list[Group]) -> str:
    """List the cells in which a single solver is faster than `auto`, and that solver."""
    lines = ["Faster alone than `auto`:"]
    for group in found:
        for number, cell in enumerate(group.cells):
            alone = {name: times[number] for name, times in group.methods.items()}
            arrived = {name: seconds for name, seconds in alone.items() if seconds is not None}
            best = min(arrived, key=arrived.__getitem__, default=None)
            if best is not None and (cell.ours is None or arrived[best] < 0.9 * cell.ours):
                lines.append(
                    f"  {cell.data} {cell.loss} C={cell.C:g} {cell.gap:.0e}: {best} {arrived[best]:.4f} s, "
                    f"auto ({cell.solver}) {_seconds(cell.ours)}"
                )
    return "\n".join(lines)


def write(folder: Path, records: list[Record], clock: str) -> None:
    """peers.md, peers.json, methods.json if methods were tried, and the plots; what is not measured stays as it was."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "peers.json"
    one, two = (
        completed(groups(records, threads, clock), published(path, section, clock))
        for section, threads in (("one_thread", 1), ("two_threads", 2))
    )
    conversions = _conversions(records, path)
    when = datetime.now(UTC).strftime("%d %B %Y")
    named_clock = "of processor time" if clock == "cpu" else "of wall-clock time"
    head = HOW.format(
        when=when,
        cores=os.cpu_count(),
        machine=platform.machine(),
        load=f"{os.getloadavg()[0]:.1f}",
        clock=named_clock,
    )
    parts = [head]
    if one:
        parts += ["## One thread", "", *_section(one), "", "![ratios](peers-heat.svg)", ""]
        write_heat_map(folder / "peers-heat.svg", one)
        for loss in dict.fromkeys(group.loss for group in one):
            write_curves(folder / f"peers-{loss}.svg", [group for group in one if group.loss == loss])
            parts.append(f"![time against gap, {loss}](peers-{loss}.svg)")
    if two:
        parts += [
            "",
            "## Two threads, compared with liblinear-multicore and Snap ML with two threads (wall-clock time)",
            "",
            *_section(two),
        ]
    parts += ["", "## Time to convert the data, in seconds, not included above", "", *_table(conversions)]
    (folder / "peers.md").write_text("\n".join(parts).rstrip() + "\n")
    cells = {
        name: [cell.as_json() for group in found for cell in group.cells]
        for name, found in (("one_thread", one), ("two_threads", two))
    }
    matches = {
        name: {f"{g.data}, {g.loss}, C={g.C:g}": stored_match(g, when) for g in found}
        for name, found in (("one_thread", one), ("two_threads", two))
    }
    page = {"when": when, "clock": clock, **cells, "matches": matches, "conversions": conversions}
    _write_json(path, page)
    tried = [
        {"data": g.data, "loss": g.loss, "C": g.C, "gap": gap, "method": name, "seconds": seconds}
        for g in one
        for name, times in {**g.methods, "auto": [cell.ours for cell in g.cells]}.items()
        for gap, seconds in zip(GAPS, times, strict=True)
        if g.methods
    ]
    if tried:
        _write_json(folder / "methods.json", tried)


def _section(found: list[Group]) -> Iterator[str]:
    yield from summary(found).splitlines()
    yield ""
    yield "| set | loss | C | ours | " + " | ".join(f"{gap:.0e}: ours / peer = ratio" for gap in GAPS) + " |"
    yield "|" + "---|" * (4 + len(GAPS))
    for group in found:
        cells = " | ".join(f"{_seconds(cell.ours)} / {_peer(cell)} = **{_ratio(cell)}**" for cell in group.cells)
        name = group.data + (f" ({group.when})" if group.when else "")
        yield f"| {name} | {group.loss} | {group.C:g} | {_solvers(group)} | {cells} |"
    slow = [cell for group in found for cell in group.cells if cell.ratio is not None and cell.ratio > 0.5]
    yield ""
    yield f"Above 0.5: {len(slow)} cells" + (":" if slow else ".")
    yield ""
    for cell in sorted(slow, key=lambda cell: -(cell.ratio or 0.0)):
        what = f"{cell.data}, {cell.loss}, C = {cell.C:g}, {cell.gap:.0e}"
        yield f"- {what}: {_ratio(cell)} ({cell.solver}; {_peer(cell)})"
    loose = [group for group in found if group.known_to > GOOD_ENOUGH]
    if loose:
        yield ""
        yield "The optimum of these problems is known less precisely than 1e-7, so a peer can be closer than measured:"
        yield ", ".join(f"{g.data} {g.loss} C = {g.C:g} ({g.known_to:.0e})" for g in loose) + "."


def _conversions(records: list[Record], published: Path) -> dict[str, dict[str, float]]:
    """Seconds by set and peer."""
    found: dict[str, dict[str, float]] = {}
    if published.exists():
        found = json.loads(published.read_text())["conversions"]
    for record in records:
        of = record["of"]
        if "conversion" in of:
            found.setdefault(of["data"], {})[of["conversion"]] = record["seconds"]
    return found


def _table(found: dict[str, dict[str, float]]) -> Iterator[str]:
    names = sorted({name for times in found.values() for name in times})
    yield "| set | " + " | ".join(names) + " |"
    yield "|" + "---|" * (1 + len(names))
    for data, times in found.items():
        yield f"| {data} | " + " | ".join(_seconds(times.get(name)) for name in names) + " |"


def _solvers(group: Group) -> str:
    return ", ".join(dict.fromkeys(cell.solver for cell in group.cells))


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.2g}" if seconds < 10.0 else f"{seconds:.0f}"


def _peer(cell: Cell) -> str:
    best = cell.best_peer
    return f"none in {cell.limit:.2g} s" if best is None else f"{_seconds(cell.peers[best])} {best}"


def _ratio(cell: Cell) -> str:
    return "neither" if cell.ratio is None else f"{cell.mark}{cell.ratio:.2f}"


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=None, separators=(",", ":")).replace("},{", "},\n{") + "\n")
