// ROC, precision and recall, calibration, confusion: each with its table.
import { html } from '../html.js';
import { axis, Chart, DataTable, faded } from '../chart.js';
import { number, percent } from '../format.js';

const shareAxis = (c, label) => axis(c, { label, labelSize: 18, size: 38, values: (_, ticks) => ticks.map((tick) => number(tick, 2)) });
const unit = { time: false, range: [0, 1] };

function square(c, xLabel, yLabel, diagonal) {
  return {
    scales: { x: unit, y: { range: [0, 1.02] } },
    series: [{}, { stroke: c.accent, width: 2, fill: faded(c.accent, 0.08), points: { show: false } }],
    axes: [shareAxis(c, xLabel), shareAxis(c, yLabel)],
    cursor: { y: false },
    hooks: diagonal ? { drawClear: [(u) => {
      u.ctx.save();
      u.ctx.strokeStyle = c.muted;
      u.ctx.setLineDash([4, 6]);
      u.ctx.beginPath();
      u.ctx.moveTo(u.valToPos(0, 'x', true), u.valToPos(0, 'y', true));
      u.ctx.lineTo(u.valToPos(1, 'x', true), u.valToPos(1, 'y', true));
      u.ctx.stroke();
      u.ctx.restore();
    }] } : {},
  };
}

// uPlot wants rising x; precision-recall curves come from the highest score down, which is rising recall already.
export function Curves({ curves, metrics }) {
  const { roc, pr } = curves;
  return html`<div class="two">
    <${Chart} title=${`ROC, area ${number(metrics?.roc_auc, 4)}`} name="roc" height=${280} shape="roc" describe=${`ROC curve with an area of ${number(metrics?.roc_auc, 4)}`}
      make=${(c) => square(c, 'false positive rate', 'true positive rate', true)} data=${[roc.fpr, roc.tpr]}
      table=${{ columns: ['threshold', 'fpr', 'tpr'], rows: () => roc.fpr.map((_, place) => [roc.threshold[place], roc.fpr[place], roc.tpr[place]]) }} />
    <${Chart} title=${`Precision and recall, area ${number(metrics?.pr_auc, 4)}`} name="precision-recall" height=${280} shape="pr" describe=${`Precision-recall curve with an area of ${number(metrics?.pr_auc, 4)}`}
      make=${(c) => square(c, 'recall', 'precision', false)} data=${[pr.recall, pr.precision]}
      table=${{ columns: ['threshold', 'recall', 'precision'], rows: () => pr.recall.map((_, place) => [pr.threshold[place], pr.recall[place], pr.precision[place]]) }} />
  </div>`;
}

export function Calibration({ curve }) {
  const places = curve.predicted.map((_, place) => place).filter((place) => Number.isFinite(curve.predicted[place]) && Number.isFinite(curve.observed[place]));
  return html`<${Chart} title="Said and seen" name="calibration" height=${280} shape="calibration" describe="Observed share of the class against the predicted probability; honest ones lie on the diagonal"
    make=${(c) => { const made = square(c, 'predicted probability', 'observed share', true); made.series[1] = { stroke: c.accent, width: 2, points: { show: true, size: 7 } }; return made; }}
    data=${[places.map((place) => curve.predicted[place]), places.map((place) => curve.observed[place])]}
    table=${{ columns: ['predicted', 'observed', 'rows'], rows: () => places.map((place) => [curve.predicted[place], curve.observed[place], curve.rows?.[place]]) }} />`;
}

const MOST_CLASSES = 30;

export function Confusion({ confusion }) {
  const labels = confusion.labels.slice(0, MOST_CLASSES);
  const totals = confusion.matrix.map((row) => row.reduce((sum, count) => sum + count, 0));
  const share = (row, column) => (totals[row] ? confusion.matrix[row][column] / totals[row] : 0);
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Confusion matrix"><table class="confusion"><caption class="offscreen">A row for each true class, a column for each predicted one</caption>
    <thead><tr><th scope="col">true \\ predicted</th>${labels.map((label) => html`<th scope="col"><bdi class="clip">${String(label)}</bdi></th>`)}</tr></thead>
    <tbody>${labels.map((label, row) => html`<tr><th scope="row"><bdi class="clip">${String(label)}</bdi></th>${labels.map((_, column) => html`<td class=${`shade-${Math.round(5 * share(row, column))}${row === column ? ' hit' : ''}`}>
      ${number(confusion.matrix[row][column])} <span class="fine">${percent(share(row, column), 0)}</span></td>`)}</tr>`)}</tbody></table></div>
    <${DataTable} caption="confusion" table=${{ columns: ['true', ...confusion.labels.map(String)], rows: () => confusion.matrix.map((row, place) => [confusion.labels[place], ...row]) }} />`;
}
