"""Where a model comes from: its data, its training, its lineage, and how to train it again."""

import json
import pprint
import shlex
from html import escape
from typing import Any

from app.reports.facts import Facts
from app.reports.html_parts import Html, facts_list, figure_text, section, share_bar, shown, table

MAX_COLUMNS = 100
"""Maximum columns of the data card. Larger: a longer page. Set by hand."""
MAX_CLASSES = 20
"""Maximum classes of the data card; the largest are shown. Set by hand."""
MAX_WARNINGS = 50
"""Maximum warnings. Larger: a longer page. Set by hand."""
MAX_CODE = 20_000
"""Maximum characters of a request that is shown. Larger: larger files. Set by hand."""


def warnings_section(facts: Facts) -> Html:
    found = [*facts.model.warnings, *((facts.dataset or {}).get("warnings") or [])]
    items = [
        f"<li><code>{escape(str(one.get('code')))}</code> {shown(one.get('detail', ''), 600)}</li>"
        for one in found[:MAX_WARNINGS]
    ]
    return section("warnings", "Decided automatically, or unwise", f"<ul>{''.join(items)}</ul>" if items else "")


def data_section(facts: Facts) -> Html:
    dataset = facts.dataset
    if dataset is None:
        why = "was deleted" if facts.model.lineage.get("dataset_id") else "is not known: the model was imported"
        return section("data", "Data", f"<p>The dataset {why}.</p>")
    parts: list[str] = [
        facts_list(
            [
                ("Dataset", f"{dataset['name'] or ''} {dataset['id']}".strip()),
                ("Rows", dataset["n_rows"]),
                ("Features", dataset["n_features"]),
                ("File", f"{dataset['format']}, {figure_text(dataset['bytes'])} bytes, stored {dataset['storage']}"),
                ("SHA-256", Html(f"<code>{escape(dataset['sha256'])}</code>")),
            ]
        )
    ]
    if classes := dataset["classes"]:
        total = sum(one["count"] for one in classes) or 1
        largest = sorted(classes, key=lambda one: -one["count"])[:MAX_CLASSES]
        rows = [[one["label"], one["count"], share_bar(one["count"] / total)] for one in largest]
        parts.append(table("Classes", ["class", "rows", "share"], rows, (1,)))
        parts.append(_left_out(len(classes), MAX_CLASSES, "classes"))
    if columns := dataset["columns"]:
        rows = [_column(one, dataset["n_rows"]) for one in columns[:MAX_COLUMNS]]
        parts.append(table("Columns", ["column", "role", "kind", "missing", "levels", "why"], rows, (3, 4)))
        parts.append(_left_out(len(columns), MAX_COLUMNS, "columns"))
    return section("data", "Data", *parts)


def _column(one: dict[str, Any], n_rows: int) -> list[Any]:
    missing = one.get("missing") or 0
    share = f"{missing:,} ({missing / n_rows:.1%})" if missing and n_rows else missing
    levels = one.get("levels")
    count = len(levels) if isinstance(levels, list) else levels
    return [one.get("name"), one.get("role"), one.get("kind"), share, count, one.get("reason") or ""]


def lineage_section(facts: Facts) -> Html:
    model = facts.model
    training, lineage = model.training, model.lineage
    peak = training.get("peak_bytes")
    versions = ", ".join(f"{name} {version}" for name, version in (lineage.get("versions") or {}).items())
    code = {
        name: Html(f"<code>{escape(str(lineage[name]))}</code>")
        for name in ("job_id", "dataset_id", "sha256", "parent")
        if lineage.get(name)
    }
    return section(
        "lineage",
        "Training and lineage",
        facts_list(
            [
                ("Ended", training.get("status")),
                ("Solver", model.solver),
                ("Training rows", training.get("rows")),
                ("Seconds of solving", training.get("seconds")),
                ("Seconds of the job", training.get("total_seconds")),
                ("Iterations", training.get("iterations")),
                ("Passes over the data", training.get("passes")),
                ("Peak memory", f"{peak / 2**20:,.0f} MiB" if peak else None),
                ("Created", model.created_at.isoformat(timespec="seconds")),
                ("Job", code.get("job_id")),
                ("Dataset", code.get("dataset_id")),
                ("SHA-256 of the data", code.get("sha256")),
                ("Started from", code.get("parent")),
                ("Seed", lineage.get("seed")),
                ("Software", versions),
                ("Aliases", ", ".join(model.aliases)),
            ]
        ),
    )


def reproduce_section(facts: Facts) -> Html:
    request = facts.request
    if request is None:
        return section(
            "reproduce", "Train it again", "<p>The model was imported, so its training request is not known.</p>"
        )
    body = json.dumps(request)
    curl = f"curl \"$HYPERPLANE_URL/v1/jobs\" -H 'Content-Type: application/json' -d {shlex.quote(body)}"
    written = pprint.pformat(request, width=100, sort_dicts=False)
    python = (
        "import hyperplane\n\nclient = hyperplane.Client()  # HYPERPLANE_URL, HYPERPLANE_API_KEY\n"
        f"request = {written}\nclient.jobs.create(**request).wait()"
    )
    return section(
        "reproduce",
        "Train it again",
        "<p>The request of the training, with its defaults. It needs the same dataset.</p>",
        _code("curl", curl),
        _code("Python", python),
    )


def _code(name: str, text: str) -> str:
    if len(text) > MAX_CODE:
        return f"<h3>{name}</h3><p>The request has {len(text):,} characters; the job keeps it.</p>"
    return f'<h3>{name}</h3><pre tabindex="0"><code>{escape(text)}</code></pre>'


def _left_out(count: int, most: int, what: str) -> str:
    return "" if count <= most else f"<p class='muted'>{most} of {count:,} {what} are shown.</p>"
