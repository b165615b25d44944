"""The page: style sheet, heading, and all sections in order."""

import base64
import hashlib
from html import escape
from importlib import resources

from app.models.schemas import Model
from app.reports import origin_sections as origin
from app.reports import result_sections as result
from app.reports.facts import Facts
from app.reports.html_parts import NONE, Html, figure_text, plain

STYLE = resources.files("app.reports").joinpath("report.css").read_text(encoding="utf-8")
POLICY = (
    f"default-src 'none'; style-src 'sha256-{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'; "
    "base-uri 'none'; form-action 'none'"
)
"""Content security policy: the style sheet of the page and nothing else. It is in the file, too, for a saved copy."""


def write_page(facts: Facts) -> str:
    model = facts.model
    title = f"{plain(model.name)}, version {model.version}"
    sections = [
        result.certificate_section(facts),
        origin.warnings_section(facts),
        result.metrics_section(facts),
        result.curves_section(facts),
        result.confusion_section(facts),
        result.weights_section(facts),
        result.convergence_section(facts),
        origin.data_section(facts),
        origin.lineage_section(facts),
        origin.reproduce_section(facts),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>"
        f"<header><h1>{escape(title)}</h1><p class='muted'>{_lead(model)}</p>{_stats(model)}"
        f"{_contents(sections)}</header>"
        f"{''.join(sections)}"
        f"<footer>Written by Hyperplane from model <code>{escape(model.id)}</code>. This file loads nothing.</footer>"
        "</main></body></html>"
    )


def _lead(model: Model) -> str:
    classes = f" of {len(model.classes):,} classes" if model.classes else ""
    origin = "imported" if model.lineage.get("job_id") is None else f"trained with {escape(str(model.solver))}"
    return f"{escape(model.task)}{classes}, {origin} on {model.created_at:%d %B %Y, %H:%M} UTC"


def _stats(model: Model) -> Html:
    measured = model.metrics.get("test") or model.metrics.get("train") or {}
    gap = model.certificate.relative_gap if model.certificate else None
    seconds = model.training.get("seconds")
    pairs = [
        ("Certified gap", NONE if gap is None else f"{gap:.2g}"),
        ("Rows", figure_text(model.training.get("rows"))),
        ("Features", figure_text(model.n_features)),
        ("Solved in", NONE if seconds is None else f"{seconds:.3g} s"),
    ]
    if model.headline is not None:
        name = f"{result.title(model.headline.name)}, {model.headline.rows}"
        pairs.insert(1, (name, figure_text(model.headline.value)))
    elif measured.get("rows"):
        pairs.insert(1, ("Measured rows", figure_text(measured["rows"])))
    items = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs)
    return Html(f"<dl class='stats'>{items}</dl>")


def _contents(sections: list[Html]) -> str:
    """Write links to the sections, whose headings have their titles."""
    items = []
    for one in sections:
        if one:
            key = one.split('id="', 1)[1].split('"', 1)[0]
            heading = one.split(f'id="{key}-h">', 1)[1].split("</h2>", 1)[0]
            items.append(f'<li><a href="#{key}">{heading}</a></li>')
    return f'<nav aria-label="Sections"><ul>{"".join(items)}</ul></nav>'
