"""Parts of a page: text that cannot become markup, tables, figures. All texts of users go through `shown`."""

import math
import unicodedata
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

MAX_NAME = 120
"""Maximum characters of a name that are shown; the number of all follows. Larger: larger files. Set by hand."""

NONE = "\u2013"
"""What is shown in place of a number that does not exist: a dash."""


class Html(str):
    """Markup that is complete and safe. `shown` leaves it as it is."""

    __slots__ = ()


def shown(value: Any, most: int = MAX_NAME) -> Html:
    """Return a value as markup: its text, escaped, cut after `most` characters, and isolated from its neighbours'
    direction of writing."""
    if isinstance(value, Html):
        return value
    if value is None or isinstance(value, bool | int | float):
        return Html(escape(figure_text(value)))
    text = plain(str(value))
    cut = text[:most]
    rest = Html("") if len(text) <= most else Html(f'… <span class="muted">({len(text):,} characters)</span>')
    return Html(f"<bdi>{escape(cut)}</bdi>{rest}")


def plain(text: str) -> str:
    """Replace characters that have no glyph, such as controls of the direction of writing, by a visible one."""
    return "".join("\ufffd" if unicodedata.category(one) in ("Cc", "Cf", "Cs", "Co") else one for one in text)


def figure_text(value: Any) -> str:
    """Return a number as people read it: whole ones with separators, others with six digits."""
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and not math.isfinite(value):
        return NONE
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:.6g}"


def table(caption: str, head: Sequence[Any], rows: Iterable[Sequence[Any]], numbers: Sequence[int] = ()) -> Html:
    """Write a table. The first cell of a row is its heading. `numbers`: the columns that are aligned to the right."""
    kinds = ["n" if place in numbers else "" for place in range(len(head))]
    heads = "".join(f'<th scope="col"{_class(kind)}>{shown(one)}</th>' for one, kind in zip(head, kinds, strict=True))
    lines = []
    for first, *cells in rows:
        line = f'<th scope="row">{shown(first)}</th>'
        line += "".join(f"<td{_class(kind)}>{shown(one)}</td>" for one, kind in zip(cells, kinds[1:], strict=True))
        lines.append(f"<tr>{line}</tr>")
    return Html(
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def facts_list(pairs: Iterable[tuple[str, Any]]) -> Html:
    """Write a list of names and values. Those without a value are left out."""
    items = [f"<dt>{escape(name)}</dt><dd>{shown(value)}</dd>" for name, value in pairs if value not in (None, "")]
    return Html(f"<dl>{''.join(items)}</dl>") if items else Html("")


def figure(title: str, drawing: str, data: Html, note: str = "") -> Html:
    """Write a chart with its title, and the numbers that it shows in a table behind it."""
    said = f" <span>{escape(note)}</span>" if note else ""
    return Html(
        f"<figure><figcaption><strong>{escape(title)}</strong>{said}</figcaption>{drawing}"
        f"<details><summary>The numbers of this chart</summary>{data}</details></figure>"
    )


def section(key: str, title: str, *parts: str) -> Html:
    content = "".join(part for part in parts if part)
    if not content:
        return Html("")
    return Html(
        f'<section id="{key}" aria-labelledby="{key}-h"><h2 id="{key}-h">{escape(title)}</h2>{content}</section>'
    )


def bar(value: float, largest: float) -> Html:
    """Draw a number as a bar from the middle: to the right if it is positive, else to the left."""
    size = 0.0 if not largest else min(1.0, abs(value) / largest) * 50.0
    start = 50.0 if value >= 0 else 50.0 - size
    kind = "a" if value >= 0 else "b"
    return Html(
        '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
        f'<rect class="fill-{kind}" x="{start:.2f}" y="0" width="{size:.2f}" height="10"/>'
        '<line class="axis" x1="50" x2="50" y1="0" y2="10"/></svg>'
    )


def share_bar(share: float) -> Html:
    """Draw a share from 0 to 1 as a bar from the left."""
    width = 100.0 * min(1.0, max(0.0, share))
    return Html(
        '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
        f'<rect class="rail" width="100" height="10"/><rect class="fill-a" width="{width:.2f}" height="10"/></svg>'
    )


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
