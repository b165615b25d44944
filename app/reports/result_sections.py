"""What a model is worth: certificate, convergence, metrics, curves, confusion, calibration and weights."""

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

from app.models.schemas import Certificate, Model
from app.reports.facts import Facts
from app.reports.html_parts import Html, bar, facts_list, figure, figure_text, section, share_bar, shown, table
from app.reports.plots import Axis, Line, fitting, line_chart

MAX_CLASSES = 20
"""Maximum classes of a confusion matrix and of tables by class. Of more classes, the largest are shown. Set by hand."""
MAX_WEIGHT_CLASSES = 12
"""Maximum classes whose strongest weights are shown. Larger: a longer page. Set by hand."""
TITLES = {
    "balanced_accuracy": "balanced accuracy",
    "roc_auc": "area under the ROC curve",
    "pr_auc": "average precision",
    "prbep": "break-even of precision and recall",
    "f1": "F1",
    "mae": "mean absolute error",
    "rmse": "root mean squared error",
    "r2": "R²",
    "brier": "Brier score",
    "log_loss": "log loss",
    "matthews": "Matthews correlation",
    "kendall_tau": "Kendall's tau",
    "ndcg": "NDCG",
}
UNIT = Axis("", 0.0, 1.0)


def certificate_section(facts: Facts) -> Html:
    model = facts.model
    one = model.certificate
    if one is None:
        text = (
            "<p>The model was imported without a certificate: nothing is known about its distance to the optimum.</p>"
        )
        return section("certificate", "Certificate", text)
    parts = [f"<p class='statement'>{_in_words(model, one)}</p>"]
    if one.claimed:
        parts.append("<p class='warning'>It came with the imported file. This service has not recomputed it.</p>")
    if improvement := getattr(one, "improvement", None):
        parts.append(
            f"<p>At least {improvement:.2%} of what is possible beyond the best constant model is reached.</p>"
        )
    parts.append(
        facts_list(
            [
                ("Objective, at most", one.primal),
                ("Optimum, at least", one.dual_bound),
                ("Gap", one.gap),
                ("Relative gap", one.relative_gap),
                ("Bound from", one.method),
            ]
        )
    )
    if one.per_class:
        rows = [[part.label, part.primal, part.dual_bound, part.relative_gap] for part in one.per_class[:MAX_CLASSES]]
        parts.append(
            table("Certificate by class", ["class", "objective", "lower bound", "relative gap"], rows, (1, 2, 3))
        )
        parts.append(_left_out(len(one.per_class), "classes"))
    return section("certificate", "Certificate", *parts)


def _in_words(model: Model, one: Certificate) -> str:
    if one.dual_bound is None or one.relative_gap is None:
        return "The objective is not finite, so there is no bound."
    ending = (
        "The training converged: this is within its tolerance." if model.converged else "The training did not converge."
    )
    return (
        f"No weights can have an objective below {figure_text(one.dual_bound)}. These have at most "
        f"{figure_text(one.primal)}. So the model is within {one.relative_gap:.2g} of the best possible, relative "
        f"to its objective. {ending}"
    )


def convergence_section(facts: Facts) -> Html:
    points = [one for one in facts.trace if one["seconds"] > 0]
    if len(points) < 2:
        return Html("")
    seconds = [one["seconds"] for one in points]
    best = list(accumulate((one["primal"] for one in points), min))
    bound = list(accumulate((one["dual_bound"] for one in points), max))
    x = fitting("seconds", seconds, is_log=seconds[-1] > 20 * seconds[0])
    bounds = line_chart(
        f"The best objective fell to {figure_text(best[-1])}, the lower bound rose to {figure_text(bound[-1])}.",
        x,
        fitting("objective", [*best, *bound]),
        [Line("objective", "a", seconds, best), Line("lower bound", "b", seconds, bound)],
    )
    head = ["seconds", "passes", "objective", "lower bound", "relative gap"]
    rows = [[one["seconds"], one["passes"], one["primal"], one["dual_bound"], one["relative_gap"]] for one in points]
    data = table("Convergence", head, rows, (1, 2, 3, 4))
    parts = [figure("Objective and lower bound", bounds, data, "best so far; they meet at the optimum")]
    gaps = [(one["seconds"], one["relative_gap"]) for one in points if one["relative_gap"]]
    if len(gaps) > 1:
        xs, ys = zip(*gaps, strict=True)
        chart = line_chart(
            f"The relative gap fell from {ys[0]:.2g} to {ys[-1]:.2g}.",
            x,
            fitting("relative gap", ys, is_log=True),
            [Line("relative gap", "a", xs, ys)],
        )
        gap_table = table("Relative gap", ["seconds", "relative gap"], gaps, (1,))
        parts.append(figure("Relative gap", chart, gap_table, "of each iterate, logarithmic"))
    return section("convergence", "Convergence", f"<div class='charts'>{''.join(parts)}</div>")


def metrics_section(facts: Facts) -> Html:
    model = facts.model
    measured = {name: model.metrics[name] for name in ("test", "train") if model.metrics.get(name)}
    if not measured:
        return section("metrics", "Metrics", "<p>There are none: the model was imported. Evaluate it on a dataset.</p>")
    columns: dict[str, Mapping[str, Any]] = {f"{name} rows": found for name, found in measured.items()}
    notes = []
    if baseline := model.metrics.get("baseline"):
        columns["constant model"] = baseline
        rows = f"on the {baseline.get('measured_on', 'same')} rows"
        notes.append(
            f"<p class='muted'>The constant model always predicts {shown(baseline.get('prediction'))}, {rows}.</p>"
        )
    if folds := model.cross_validation:
        columns |= {"folds, mean": folds["mean"], "folds, deviation": folds["std"]}
    names = [name for found in columns.values() for name, value in found.items() if _is_figure(name, value)]
    lines = [[title(name), *(found.get(name) for found in columns.values())] for name in dict.fromkeys(names)]
    head = ["metric", *columns]
    parts = [table("Metrics", head, lines, range(1, len(head))), *notes]
    if "test" not in measured:
        parts.append(
            "<p class='warning'>No rows were held out. These figures say how well the model fits its own data.</p>"
        )
    per_class = next(iter(measured.values())).get("per_class")
    if per_class:
        largest = sorted(per_class, key=lambda one: -one["rows"])[:MAX_CLASSES]
        lines = [[one["label"], one["rows"], one["precision"], one["recall"], one["f1"]] for one in largest]
        caption = f"By class, {next(iter(measured))} rows"
        parts.append(table(caption, ["class", "rows", "precision", "recall", "F1"], lines, (1, 2, 3, 4)))
        parts.append(_left_out(len(per_class), "classes"))
    return section("metrics", "Metrics", *parts)


def title(name: str) -> str:
    return TITLES.get(name, name.replace("_", " "))


def _is_figure(name: str, value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and name != "prediction"


def curves_section(facts: Facts) -> Html:
    model, parts = facts.model, []
    if model.curves is not None:
        found = model.metrics.get(model.curves.rows) or {}
        roc, pr = model.curves.roc, model.curves.pr
        parts.append(
            figure(
                "ROC",
                line_chart(
                    f"ROC curve with area {figure_text(found.get('roc_auc'))}.",
                    UNIT._replace(label="false positive rate"),
                    UNIT._replace(label="true positive rate"),
                    [Line("ROC", "a", roc.fpr, roc.tpr)],
                    guide=Line("chance", "guide", (0.0, 1.0), (0.0, 1.0)),
                ),
                table(
                    "ROC",
                    ["threshold", "false positives", "true positives"],
                    _rows(roc.threshold, roc.fpr, roc.tpr),
                    (1, 2),
                ),
                f"area {figure_text(found.get('roc_auc'))}",
            )
        )
        parts.append(
            figure(
                "Precision and recall",
                line_chart(
                    f"Precision-recall curve with average precision {figure_text(found.get('pr_auc'))}.",
                    UNIT._replace(label="recall"),
                    UNIT._replace(label="precision"),
                    [Line("precision", "a", pr.recall, pr.precision)],
                ),
                table(
                    "Precision",
                    ["threshold", "recall", "precision"],
                    _rows(pr.threshold, pr.recall, pr.precision),
                    (1, 2),
                ),
                f"average precision {figure_text(found.get('pr_auc'))}",
            )
        )
    parts += _calibration(model)
    rows = "" if model.curves is None else f"<p class='muted'>Measured on the {shown(model.curves.rows)} rows.</p>"
    charts = f"<div class='charts'>{''.join(parts)}</div>" if parts else ""
    return section("curves", "Curves", rows, charts)


def _rows(*columns: Any) -> list[tuple[Any, ...]]:
    return list(zip(*columns, strict=True))


def _calibration(model: Model) -> list[Html]:
    held_out = (model.calibration or {}).get("held_out") or {}
    curve = (model.metrics.get("test") or {}).get("calibration_curve") or held_out.get("calibration_curve")
    if not curve:
        return []
    chart = line_chart(
        "Observed frequency by predicted probability.",
        UNIT._replace(label="predicted probability"),
        UNIT._replace(label="observed frequency"),
        [Line("observed", "a", curve["predicted"], curve["observed"], dots=True)],
        guide=Line("honest", "guide", (0.0, 1.0), (0.0, 1.0)),
    )
    rows = _rows(curve["predicted"], curve["observed"], curve["rows"])
    data = table("Calibration", ["predicted", "observed", "rows"], rows, (1, 2))
    return [figure("Calibration", chart, data, "honest probabilities lie on the dashed line")]


def confusion_section(facts: Facts) -> Html:
    metrics = facts.model.metrics
    name = next((one for one in ("test", "train") if (metrics.get(one) or {}).get("confusion")), None)
    if name is None:
        return Html("")
    labels, matrix = metrics[name]["confusion"]["labels"], metrics[name]["confusion"]["matrix"]
    if len(labels) > MAX_CLASSES:
        pairs = [(count, k, m) for k, row in enumerate(matrix) for m, count in enumerate(row) if k != m and count]
        rows = [[labels[k], labels[m], count] for count, k, m in sorted(pairs, reverse=True)[:MAX_CLASSES]]
        found = table("Most frequent confusions", ["true class", "predicted as", "rows"], rows, (2,))
        return section("confusion", f"Confusion, {name} rows", found)
    largest = [max(max(row), 1e-300) for row in matrix]
    rows = [
        [label, *(_shaded(count, most, k == m) for m, count in enumerate(row))]
        for k, (label, row, most) in enumerate(zip(labels, matrix, largest, strict=True))
    ]
    caption = "Rows by true class, columns by predicted class"
    found = table(caption, ["true class", *labels], rows, range(1, len(labels) + 1))
    return section("confusion", f"Confusion, {name} rows", found)


def _shaded(count: float, most: float, is_right: bool) -> Html:
    """Write a cell of the matrix with a bar for its share of the row's largest cell."""
    word = "right" if is_right else "wrong"
    return Html(f'<span class="cell {word}">{figure_text(count)}{share_bar(count / most)}</span>')


def weights_section(facts: Facts) -> Html:
    parts = []
    for one in facts.weights[:MAX_WEIGHT_CLASSES]:
        largest = max((abs(weight.strength) for weight in one.weights), default=0.0)
        rows = [[weight.feature, bar(weight.strength, largest), weight.weight, weight.unit] for weight in one.weights]
        if not rows:
            continue
        heading = "" if one.label is None else f"<h3>Speak for {shown(one.label)}</h3>"
        parts.append(
            f"<div>{heading}{table('Strongest weights', ['feature', 'strength', 'weight', 'per'], rows, (2,))}</div>"
        )
    if not parts:
        return Html("")
    note = (
        "<p class='muted'>Bars are comparable between features: they are in the units of the solver. Weights are per "
        "unit of the column.</p>"
    )
    left = _left_out(len(facts.weights), "classes", MAX_WEIGHT_CLASSES)
    return section("weights", "Strongest weights", note, f"<div class='charts'>{''.join(parts)}</div>", left)


def _left_out(count: int, what: str, most: int = MAX_CLASSES) -> str:
    return "" if count <= most else f"<p class='muted'>{most} of {count:,} {what} are shown.</p>"
