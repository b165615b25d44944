"""The comparison as it was last published, read back: a match that this machine has not played stays as it was.

What was measured lies on the machine that measured it (ledger.py). The published page outlives it, so that another
machine can play some of the matches again without losing the others; each match is a comparison within one run.
"""

import json
from pathlib import Path
from typing import Any

from benchmarks import problems
from benchmarks.peers.cells import Cell, Group

__all__ = ["completed", "published", "stored_match"]


def stored_match(group: Group, today: str) -> dict[str, Any]:
    """What `published` needs of a match beside its cells."""
    curves = {
        name: [(float(f"{s:.3g}"), float(f"{gap:.3g}")) for s, gap in curve] for name, curve in group.curves.items()
    }
    return {"when": group.when or today, "known_to": group.known_to, "curves": curves}


def published(path: Path, section: str, clock: str) -> list[Group]:
    """The matches of a page, if it was measured by this clock; none if there is no page."""
    if not path.exists():
        return []
    page = json.loads(path.read_text())
    if page["clock"] != clock:
        return []
    cells = [Cell(**{name: stored[name] for name in Cell._fields}) for stored in page[section]]
    found = []
    for data, loss, C in dict.fromkeys((cell.data, cell.loss, cell.C) for cell in cells):
        match = page["matches"][section][f"{data}, {loss}, C={C:g}"]
        own = [cell for cell in cells if (cell.data, cell.loss, cell.C) == (data, loss, C)]
        curves = {name: [(s, gap) for s, gap in curve] for name, curve in match["curves"].items()}
        found.append(Group(data, loss, C, own, curves, {}, match["known_to"], match["when"]))
    return found


def completed(measured: list[Group], earlier: list[Group]) -> list[Group]:
    """All matches, those measured now in place of earlier ones, from small sets to large ones."""
    by_match = {group[:3]: group for group in [*earlier, *measured]}
    return sorted(by_match.values(), key=lambda group: (_place(group.data), group.loss, group.C))


def _place(data: str) -> int:
    return problems.FULL.index(data) if data in problems.FULL else len(problems.FULL)
