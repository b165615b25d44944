"""A line plot as an SVG file, written by hand: a measurement should not need a plotting library."""

from collections.abc import Mapping, Sequence
from pathlib import Path

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 760, 320, 60, 40, 34, 16
COLOURS = ("#1f6f8b", "#c8553d", "#588157", "#8a5a9e")
NAME_WIDTH = 160

Points = Sequence[tuple[float, float]]


def write_plot(
    path: Path, title: str, axes: tuple[str, str], lines: Mapping[str, Points], marks: Mapping[str, float]
) -> None:
    """Each line by its name; `marks` are named moments on the x axis."""
    most_x = max(x for points in lines.values() for x, _ in points) or 1.0
    most_y = 1.1 * max(y for points in lines.values() for _, y in points) or 1.0

    def place(x: float, y: float) -> tuple[float, float]:
        across, down = x / most_x, 1 - y / most_y
        return LEFT + across * (WIDTH - LEFT - RIGHT), TOP + down * (HEIGHT - TOP - BOTTOM)

    parts = [text_element(LEFT, 18, title, size=14)]
    for step in range(5):
        x, y = place(most_x * step / 4, most_y * step / 4)
        ground = HEIGHT - BOTTOM
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(text_element(LEFT - 6, y + 4, _short(most_y * step / 4), anchor="end"))
        parts.append(text_element(x, ground + 16, _short(most_x * step / 4), anchor="middle"))
    parts.append(text_element(WIDTH / 2, HEIGHT - 6, axes[0], anchor="middle"))
    parts.append(text_element(LEFT, TOP - 4, axes[1]))
    for number, (name, moment) in enumerate(marks.items()):
        x, _ = place(moment, 0)
        parts.append(
            f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}" stroke="#999" stroke-dasharray="3 3"/>'
        )
        anchor = "end" if x > WIDTH / 2 else "start"
        parts.append(text_element(x - 3 if anchor == "end" else x + 3, TOP + 12 + 13 * (number % 3), name, 10, anchor))
    for number, (name, points) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in points))
        parts.append(f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts.append(text_element(WIDTH - RIGHT - NAME_WIDTH * number, TOP - 4, name, anchor="end", colour=colour))
    body = "\n".join(parts)
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n{body}\n</svg>\n'
    )


def _short(number: float) -> str:
    return f"{number:.0f}" if number >= 100.0 else f"{number:.3g}"


def text_element(x: float, y: float, text: str, size: int = 11, anchor: str = "start", colour: str = "#333") -> str:
    safe = text.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}">{safe}</text>'
