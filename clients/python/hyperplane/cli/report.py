"""`report`: one page about a model that needs no network and no scripts."""

from html import escape
from typing import Any

import hyperplane
from hyperplane._shared.html import convergence_svg, model_html

__all__ = ["model_report"]

STRONGEST = 20
"""Features of each class that are listed. Larger: a longer table. Set by hand."""
SIZE = 260
"""Width and height of a curve in pixels. Set by hand."""
PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>body{{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}}
:root{{color-scheme:light dark}}th,td{{padding:.15rem .8rem .15rem 0;text-align:left;vertical-align:top}}
figure{{display:inline-block;margin:0 2rem 0 0}}
</style></head><body><h1>{title}</h1>{content}</body></html>
"""


def model_report(client: hyperplane.Client, model: hyperplane.Model) -> str:
    """Write the page of a model: its certificate, metrics, curves, convergence, strongest features and parameters."""
    parts = [model_html(model), _curves(model), _convergence(client, model), _weights(client, model), _params(model)]
    title = f"{escape(model.name)}, version {model.version}"
    return PAGE.format(title=title, content="".join(parts))


def _curves(model: hyperplane.Model) -> str:
    curves = model.get("curves")
    if not curves:
        return ""
    roc = _curve("ROC", "false positive rate", curves["roc"]["fpr"], curves["roc"]["tpr"])
    pr = _curve("Precision over recall", "recall", curves["pr"]["recall"], curves["pr"]["precision"])
    return f"<h2>Curves on the {escape(str(curves.get('rows', '')))} rows</h2>{roc}{pr}"


def _curve(title: str, axis: str, xs: list[float], ys: list[float]) -> str:
    room = SIZE - 20
    points = " ".join(f"{10 + room * x:.1f},{10 + room * (1 - y):.1f}" for x, y in zip(xs, ys, strict=True))
    return (
        f'<figure><svg width="{SIZE}" height="{SIZE}" role="img" aria-label="{escape(title)}">'
        f'<rect x="10" y="10" width="{room}" height="{room}" fill="none" stroke="#8886"/>'
        f'<polyline points="{points}" fill="none" stroke="#36c" stroke-width="2"/></svg>'
        f"<figcaption>{escape(title)} ({escape(axis)})</figcaption></figure>"
    )


def _convergence(client: hyperplane.Client, model: hyperplane.Model) -> str:
    job_id = model.lineage.get("job_id")
    if job_id is None:
        return ""
    try:
        plot = convergence_svg(client.jobs.trace(job_id))
    except hyperplane.ApiError:  # the job was deleted
        return ""
    return f"<h2>Convergence</h2>{plot}" if plot else ""


def _weights(client: hyperplane.Client, model: hyperplane.Model) -> str:
    try:
        found = client.models.weights(model, top=STRONGEST)
    except hyperplane.ApiError:  # the model has no names for its features
        return ""
    tables = []
    for one in found["classes"]:
        rows = "".join(
            f"<tr><td>{escape(str(weight['feature']))}</td><td>{weight['weight']:.4g}</td></tr>"
            for weight in one["weights"]
        )
        heading = "" if one.get("label") is None else f"<h3>{escape(str(one['label']))}</h3>"
        tables.append(f"{heading}<table><tr><th>feature</th><th>weight</th></tr>{rows}</table>")
    return f"<h2>Strongest features</h2>{''.join(tables)}"


def _params(model: hyperplane.Model) -> str:
    return f"<h2>Parameters</h2>{_rows(model['params'])}<h2>Lineage</h2>{_rows(model['lineage'])}"


def _rows(values: dict[str, Any]) -> str:
    cells = "".join(
        f"<tr><th>{escape(str(name))}</th><td>{escape(str(value))}</td></tr>" for name, value in values.items()
    )
    return f"<table>{cells}</table>"
