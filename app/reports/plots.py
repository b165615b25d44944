"""Line charts as SVG. Colours are classes of the page's style sheet, so that they follow its theme."""

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from app.jobs.curve_plot import ticks
from app.reports.html_parts import Html

WIDTH, HEIGHT = 460, 300
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 12, 46
"""Size and margins in units of the drawing. The margins leave room for the labels of the axes. Set by hand."""


class Axis(NamedTuple):
    label: str
    low: float
    high: float
    is_log: bool = False

    def share(self, value: float) -> float:
        """Return the place of a value: 0 at the low end, 1 at the high end."""
        low, high = self.low, self.high
        if self.is_log:
            value, low, high = math.log10(value), math.log10(low), math.log10(high)
        return (value - low) / ((high - low) or 1.0)

    def marks(self) -> list[tuple[float, str]]:
        """Return the values to label, and their labels."""
        if not self.is_log:
            return [(value, f"{value:.4g}") for value in ticks(self.low, self.high)]
        first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
        step = max(1, math.ceil((last - first) / 6))
        return [(10.0**power, f"1e{power}") for power in range(first, last + 1, step)]


class Line(NamedTuple):
    name: str
    style: str
    """Class of the style sheet: `a` or `b`."""
    xs: Sequence[float]
    ys: Sequence[float]
    dots: bool = False


def fitting(label: str, values: Sequence[float], *, is_log: bool = False) -> Axis:
    """Return an axis for these values. A logarithmic one ends at powers of 10."""
    low, high = min(values), max(values)
    if is_log:
        low = 10.0 ** math.floor(math.log10(low) + 1e-9)
        high = 10.0 ** math.ceil(math.log10(high) - 1e-9)
        return Axis(label, low, high if high > low else 10.0 * low, True)
    if high <= low:
        room = abs(high) * 0.1 or 1.0
        return Axis(label, low - room, high + room)
    return Axis(label, low, high)


def line_chart(said: str, x: Axis, y: Axis, lines: Sequence[Line], guide: Line | None = None) -> Html:
    """Draw lines. `said`: what the chart shows, for readers who do not see it; `guide`: a thin dashed line."""
    parts = [*_grid(x, y)]
    if guide is not None:
        parts.append(f'<polyline class="guide" points="{_points(x, y, guide)}"/>')
    for line in lines:
        parts.append(f'<polyline class="line-{line.style}" points="{_points(x, y, line)}"/>')
        if line.dots:
            places = (pair.split(",") for pair in _points(x, y, line).split())
            parts += [f'<circle class="fill-{line.style}" cx="{cx}" cy="{cy}" r="3.5"/>' for cx, cy in places]
    if len(lines) > 1:
        parts += _legend(lines)
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}"'
    return Html(f'<svg class="chart" {size} role="img" aria-label="{escape(said)}">{"".join(parts)}</svg>')


def _place(x: Axis, y: Axis, at_x: float, at_y: float) -> tuple[float, float]:
    across = LEFT + x.share(at_x) * (WIDTH - LEFT - RIGHT)
    down = HEIGHT - BOTTOM - y.share(at_y) * (HEIGHT - TOP - BOTTOM)
    return round(across, 1), round(down, 1)


def _points(x: Axis, y: Axis, line: Line) -> str:
    places = (_place(x, y, at_x, at_y) for at_x, at_y in zip(line.xs, line.ys, strict=True))
    return " ".join(f"{across},{down}" for across, down in places)


def _grid(x: Axis, y: Axis) -> list[str]:
    parts = []
    for value, label in x.marks():
        across, _ = _place(x, y, value, y.low)
        parts.append(f'<line class="grid" x1="{across}" x2="{across}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        parts.append(f'<text x="{across}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">{label}</text>')
    for value, label in y.marks():
        _, down = _place(x, y, x.low, value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{down}" y2="{down}"/>')
        parts.append(f'<text x="{LEFT - 7}" y="{down + 4}" text-anchor="end">{label}</text>')
    middle, half = (LEFT + WIDTH - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x.label)}</text>')
    turned = f'transform="rotate(-90 13 {half})"'
    parts.append(f'<text x="13" y="{half}" text-anchor="middle" {turned}>{escape(y.label)}</text>')
    return parts


def _legend(lines: Sequence[Line]) -> list[str]:
    parts, across = [], WIDTH - RIGHT - 8 - max(len(line.name) for line in lines) * 6.6 - 30
    for number, line in enumerate(lines):
        down = TOP + 16 + 18 * number
        parts.append(
            f'<line class="line-{line.style}" x1="{across}" x2="{across + 24}" y1="{down - 4}" y2="{down - 4}"/>'
        )
        parts.append(f'<text x="{across + 30}" y="{down}">{escape(line.name)}</text>')
    return parts
