// Pieces that the screens of models and jobs share.
import { html } from '../html.js';
import { number, percent } from '../format.js';

const ORDER = ['accuracy', 'balanced_accuracy', 'error', 'precision', 'recall', 'f1', 'roc_auc', 'pr_auc', 'prbep', 'matthews', 'brier', 'log_loss', 'calibration_error',
  'mae', 'rmse', 'r2', 'swapped_pairs', 'kendall_tau'];
const NAMES = { accuracy: 'Accuracy', balanced_accuracy: 'Balanced accuracy', matthews: 'Matthews correlation', error: 'Error', precision: 'Precision', recall: 'Recall', f1: 'F1', roc_auc: 'ROC AUC', pr_auc: 'PR AUC', prbep: 'PRBEP', brier: 'Brier score',
  log_loss: 'Log loss', calibration_error: 'Calibration error', mae: 'MAE', rmse: 'RMSE', r2: 'R²', swapped_pairs: 'Swapped pairs', kendall_tau: 'Kendall tau', rows: 'Rows' };
export const LOWER_IS_BETTER = new Set(['error', 'brier', 'log_loss', 'calibration_error', 'mae', 'rmse', 'swapped_pairs']);
const SHARES = new Set(['accuracy', 'balanced_accuracy', 'error']);

export function metricNames(metrics) {
  return ORDER.filter((name) => Object.values(metrics).some((part) => Number.isFinite(part?.[name])));
}

export const metricTitle = (name) => NAMES[name] || name;
export const metricText = (name, value) => (value === null || value === undefined ? '–' : SHARES.has(name) ? percent(value, 2) : number(value, 4));

export function MetricsTable({ metrics }) {
  const parts = Object.keys(metrics).filter((name) => metrics[name]);
  const names = metricNames(metrics);
  if (!names.length) return null;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Metrics"><table><caption class="offscreen">Metrics</caption><thead><tr><th scope="col">Metric</th>${parts.map((part) => html`<th scope="col" class="num">${part}</th>`)}</tr></thead>
    <tbody>${[...names, 'rows'].map((name) => html`<tr><th scope="row">${metricTitle(name)}</th>${parts.map((part) => html`<td class="num">${metricText(name, metrics[part][name])}</td>`)}</tr>`)}</tbody></table></div>`;
}

// Of two classes: which one precision, recall and F1 are about, and the score above which the second is predicted.
export function Decision({ metrics, classes, threshold }) {
  const judged = metrics?.test || metrics?.train || metrics;
  if (judged?.positive_class === undefined || judged.positive_class === null) return null;
  return html`<p class="fine">Precision, recall, F1 and PR AUC are those of <strong><bdi>${String(judged.positive_class)}</bdi></strong>. A score above ${number(judged.threshold ?? 0, 4)} predicts <bdi>${classes?.length === 2 ? String(classes[1]) : 'the second class'}</bdi>${
    threshold?.metric ? `: tuned for ${metricTitle(threshold.metric)}, ${number(threshold.held_out, 3)} on ${number(threshold.rows)} held-out rows, ${number(threshold.at_zero, 3)} at 0` : ''}.</p>`;
}

export function Notices({ items }) {
  return items?.length ? html`<div class="stack tight">${items.map((one) => html`<div class="notice warning"><span><code>${one.code}</code></span><bdi>${one.detail}</bdi></div>`)}</div>` : null;
}
