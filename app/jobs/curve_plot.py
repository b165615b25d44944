"""Draws the cross-validation curve of a search with its proven envelope as an SVG image."""

import math
from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 72, 20, 48, 56
"""Margins in pixels. They leave room for the labels of the axes. Set by hand."""
MOST_TICKS = 6
"""Maximum labels of the vertical axis. Larger: a denser grid. Set by hand."""
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#333}.title{font-size:15px;font-weight:600}.grid{stroke:#ddd}"
    ".band{fill:#4c78a8;fill-opacity:.18;stroke:none}.curve{fill:none;stroke:#4c78a8;stroke-width:2}"
    ".bar{stroke:#4c78a8;stroke-opacity:.5}.dot{fill:#4c78a8}.best{stroke:#e45756;stroke-dasharray:4 3}"
    ".target{stroke:#54a24b;stroke-dasharray:2 3}"
    "@media(prefers-color-scheme:dark){svg{background:#1b1b1f}text{fill:#ddd}.grid{stroke:#3a3a40}}"
)


class Axes(NamedTuple):
    """The ranges of log10 C and of the metric, and their places in the picture."""

    low_x: float
    high_x: float
    low_y: float
    high_y: float

    def x(self, C: float) -> float:
        span = self.high_x - self.low_x or 1.0
        return round(LEFT + (math.log10(C) - self.low_x) / span * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        span = self.high_y - self.low_y or 1.0
        return round(HEIGHT - BOTTOM - (value - self.low_y) / span * (HEIGHT - TOP - BOTTOM), 1)


def curve_svg(result: dict[str, Any]) -> str:
    """Draw the trials of the best combination of a finished search."""
    best, metric, certificate = result["best"], str(result["metric"]), result["certificate"]
    trials = [one for one in result["trials"] if one["variant"] == best["variant"] and one["mean"] is not None]
    steps = [] if certificate is None else [one for one in certificate["steps"] if None not in one]
    axes = _axes(trials, steps)
    parts = [*_grid(axes, metric), *_envelope(axes, steps), *_curve(axes, trials)]
    x = axes.x(best["C"])
    parts.append(f'<line class="best" x1="{x}" x2="{x}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
    said = f"best C = {best['C']:.4g}, {metric} {best['mean']:.4g}"
    if certificate is not None:
        target = axes.y(certificate["lower_bound"])
        parts.append(f'<line class="target" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{target}" y2="{target}"/>')
        said += f"; proven: no C is better by more than {certificate['epsilon_reached']:.4g}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
        f"<title>{escape(said)}</title><style>{STYLE}</style>"
        f'<text class="title" x="{LEFT}" y="24">Cross-validated {escape(metric)} by C</text>'
        f'<text x="{LEFT}" y="40">{escape(said)}</text>{"".join(parts)}</svg>'
    )


def _axes(trials: Sequence[dict[str, Any]], steps: Sequence[Sequence[float]]) -> Axes:
    costs = [math.log10(one["C"]) for one in trials]
    heights = [one["mean"] + side * (one["std"] or 0.0) for one in trials for side in (-1.0, 1.0)]
    heights += [bound for step in steps for bound in step[2:]]
    room = 0.05 * (max(heights) - min(heights)) or 0.01
    return Axes(min(costs), max(costs), min(heights) - room, max(heights) + room)


def _grid(axes: Axes, metric: str) -> list[str]:
    parts = []
    decades = range(math.ceil(axes.low_x - 1e-9), math.floor(axes.high_x + 1e-9) + 1)
    for power in decades:
        x = axes.x(10.0**power)
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        parts.append(f'<text x="{x}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">1e{power}</text>')
    for value in ticks(axes.low_y, axes.high_y):
        y = axes.y(value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{value:.3g}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 14}" text-anchor="middle">C (logarithmic)</text>')
    across = (TOP + HEIGHT - BOTTOM) / 2
    turned = f"rotate(-90 16 {across})"
    parts.append(f'<text x="16" y="{across}" text-anchor="middle" transform="{turned}">{escape(metric)}</text>')
    return parts


def ticks(low: float, high: float) -> list[float]:
    """Return round values between two numbers: multiples of 1, 2 or 5 times a power of 10."""
    rough = (high - low) / MOST_TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    return [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _envelope(axes: Axes, steps: Sequence[Sequence[float]]) -> list[str]:
    """Draw the proven bounds of each step as a rectangle."""
    parts = []
    for low, high, lower, upper in steps:
        x, y = axes.x(low), axes.y(upper)
        width, height = axes.x(high) - x, axes.y(lower) - y
        parts.append(f'<rect class="band" x="{x}" y="{y}" width="{width:.1f}" height="{height:.1f}"/>')
    return parts


def _curve(axes: Axes, trials: Sequence[dict[str, Any]]) -> list[str]:
    places = [(axes.x(one["C"]), axes.y(one["mean"])) for one in trials]
    parts = [f'<polyline class="curve" points="{" ".join(f"{x},{y}" for x, y in places)}"/>']
    for one, (x, y) in zip(trials, places, strict=True):
        if one["std"]:
            ends = axes.y(one["mean"] - one["std"]), axes.y(one["mean"] + one["std"])
            parts.append(f'<line class="bar" x1="{x}" x2="{x}" y1="{ends[0]}" y2="{ends[1]}"/>')
        parts.append(f'<circle class="dot" cx="{x}" cy="{y}" r="2.5"/>')
    return parts
