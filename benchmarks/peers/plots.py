"""The comparison as pictures: a heat map of ratios, and time against gap with a curve a solver. Plain SVG."""

import math
from collections.abc import Iterable
from pathlib import Path

from benchmarks.line_plot import text_element
from benchmarks.peers.cells import Curve, Group
from benchmarks.peers.match import GAPS

__all__ = ["write_curves", "write_heat_map"]

NAMES_WIDTH, CELL_WIDTH, CELL_HEIGHT, HEAD = 110, 46, 22, 64
PANEL_WIDTH, PANEL_HEIGHT, PANEL_GAP = 250, 150, 46
COLOURS = {
    "auto": "#111111",
    "LIBLINEAR": "#c8553d",
    "liblinear-multicore": "#c8553d",
    "LinearSVC": "#e0a458",
    "snapml": "#588157",
    "svmocas": "#3d6fb4",
}
DASHED = ("-s 1", "dual")
"""Of two algorithms of a peer, one."""
LEAST_GAP, MOST_GAP = 1e-8, 1.0


def write_heat_map(path: Path, groups: list[Group]) -> None:
    """A row a set, a column for loss, C and gap: green is ours, red is the peer's, white is even."""
    sets = list(dict.fromkeys(group.data for group in groups))
    columns = sorted({(cell.loss, cell.C, -cell.gap) for group in groups for cell in group.cells})
    width, height = NAMES_WIDTH + CELL_WIDTH * len(columns) + 10, HEAD + CELL_HEIGHT * len(sets) + 10
    parts = [text_element(4, 14, "our seconds / fastest peer's, each stopped at the gap", size=12)]
    for number, (loss, C, negative) in enumerate(columns):
        x = NAMES_WIDTH + CELL_WIDTH * (number + 0.5)
        if number % len(GAPS) == 0:
            parts.append(text_element(x - CELL_WIDTH / 2, HEAD - 20, f"{loss.replace('_', ' ')}, C = {C:g}", size=10))
        parts.append(text_element(x, HEAD - 5, f"{-negative:.0e}".replace("e-0", "e-"), size=9, anchor="middle"))
    for group in groups:
        row = sets.index(group.data)
        for cell in group.cells:
            x = NAMES_WIDTH + CELL_WIDTH * columns.index((cell.loss, cell.C, -cell.gap))
            y = HEAD + CELL_HEIGHT * row
            colour = _shade(cell.ratio)
            parts.append(f'<rect x="{x}" y="{y}" width="{CELL_WIDTH - 1}" height="{CELL_HEIGHT - 1}" fill="{colour}"/>')
            shown = "-" if cell.ratio is None else f"{cell.mark}{cell.ratio:.{0 if cell.ratio >= 10.0 else 2}f}"
            parts.append(text_element(x + CELL_WIDTH / 2, y + 15, shown, size=10, anchor="middle"))
    parts += [text_element(4, HEAD + CELL_HEIGHT * row + 15, name) for row, name in enumerate(sets)]
    _write(path, width, height, parts)


def write_curves(path: Path, groups: list[Group]) -> None:
    """A panel a match: relative gap against seconds, both logarithmic; a row a set, a column a C."""
    sets = list(dict.fromkeys(group.data for group in groups))
    costs = sorted({group.C for group in groups})
    width, height = len(costs) * (PANEL_WIDTH + PANEL_GAP) + 10, 40 + len(sets) * (PANEL_HEIGHT + PANEL_GAP)
    shown = list(dict.fromkeys(name for group in groups for name in group.curves))
    parts = []
    for number, name in enumerate(sorted(shown, key=lambda name: name != "auto")):
        x = 12 + 150 * number
        parts.append(f'<path d="M{x} 12h22" {_stroke(name)}/>')
        parts.append(text_element(x + 27, 16, "auto (ours)" if name == "auto" else name, size=11))
    for group in groups:
        left = PANEL_GAP + costs.index(group.C) * (PANEL_WIDTH + PANEL_GAP)
        top = 46 + sets.index(group.data) * (PANEL_HEIGHT + PANEL_GAP)
        parts += _panel(group, left, top)
    _write(path, width, height, parts)


def _panel(group: Group, left: float, top: float) -> Iterable[str]:
    yield text_element(left, top - 5, f"{group.data}, C = {group.C:g}", size=11)
    yield f'<rect x="{left}" y="{top}" width="{PANEL_WIDTH}" height="{PANEL_HEIGHT}" fill="none" stroke="#999"/>'
    times = [max(seconds, 1e-4) for curve in group.curves.values() for seconds, gap in curve if gap <= MOST_GAP]
    if not times:
        return
    first, last = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)) + 1e-9)
    decades = math.log10(MOST_GAP / LEAST_GAP)

    def place(seconds: float, gap: float) -> str:
        x = left + PANEL_WIDTH * (math.log10(max(seconds, 1e-4)) - first) / (last - first)
        y = top + PANEL_HEIGHT * min(1.0, math.log10(MOST_GAP / max(gap, LEAST_GAP)) / decades)
        return f"{x:.0f} {y:.0f}"

    for power in range(first, last + 1):
        x = left + PANEL_WIDTH * (power - first) / (last - first)
        yield text_element(x, top + PANEL_HEIGHT + 12, f"{10.0**power:g} s", size=9, anchor="middle", colour="#777")
    for gap in GAPS:
        y = top + PANEL_HEIGHT * math.log10(MOST_GAP / gap) / decades
        yield f'<path d="M{left} {y:.0f}h{PANEL_WIDTH}" stroke="#ddd"/>'
        label = f"{gap:.0e}".replace("e-0", "e-")
        yield text_element(left - 3, y + 3, label, size=9, anchor="end", colour="#777")
    for name, curve in sorted(group.curves.items(), key=lambda item: item[0] == "auto"):
        points = [place(seconds, gap) for seconds, gap in _improving(curve)]
        if len(points) > 1:
            yield f'<path d="M{"L".join(points)}" {_stroke(name)}/>'
        elif points:
            across, down = points[0].split()
            yield f'<circle cx="{across}" cy="{down}" r="2.5" fill="{_colour(name)}"/>'


def _improving(curve: Curve) -> Curve:
    """The points that are below all earlier ones: what one would have had by then."""
    kept: Curve = []
    for seconds, gap in sorted(curve):
        if gap <= MOST_GAP and (not kept or gap < 0.9 * kept[-1][1]):
            kept.append((seconds, gap))
    return kept


def _colour(name: str) -> str:
    return next((colour for start, colour in COLOURS.items() if name.startswith(start)), "#888888")


def _stroke(name: str) -> str:
    dashes = ' stroke-dasharray="4 2"' if name.endswith(DASHED) else ""
    return f'fill="none" stroke="{_colour(name)}" stroke-width="{2.2 if name == "auto" else 1.3}"{dashes}'


def _shade(ratio: float | None) -> str:
    """Full colour at a factor of ten."""
    if ratio is None:
        return "#dddddd"
    strength = min(1.0, abs(math.log10(ratio)))
    full = (76, 159, 112) if ratio < 1.0 else (212, 84, 68)
    return "#" + "".join(f"{round(255 + strength * (part - 255)):02x}" for part in full)


def _write(path: Path, width: float, height: float, parts: list[str]) -> None:
    body = "\n".join(parts)
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'font-family="sans-serif">\n<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )
