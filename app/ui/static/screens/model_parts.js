// Pieces that the screens of models and jobs share.
import { html } from '../html.js';
import { number, percent } from '../format.js';

const ORDER = ['accuracy', 'error', 'precision', 'recall', 'f1', 'roc_auc', 'pr_auc', 'prbep', 'brier', 'log_loss', 'calibration_error',
  'mae', 'rmse', 'r2', 'swapped_pairs', 'kendall_tau'];
const NAMES = { accuracy: 'Accuracy', error: 'Error', precision: 'Precision', recall: 'Recall', f1: 'F1', roc_auc: 'ROC AUC', pr_auc: 'PR AUC', prbep: 'PRBEP', brier: 'Brier score',
  log_loss: 'Log loss', calibration_error: 'Calibration error', mae: 'MAE', rmse: 'RMSE', r2: 'R²', swapped_pairs: 'Swapped pairs', kendall_tau: 'Kendall tau', rows: 'Rows' };
export const LOWER_IS_BETTER = new Set(['error', 'brier', 'log_loss', 'calibration_error', 'mae', 'rmse', 'swapped_pairs']);
const SHARES = new Set(['accuracy', 'error']);

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

export function Notices({ items }) {
  return items?.length ? html`<div class="stack tight">${items.map((one) => html`<div class="notice warning"><span><code>${one.code}</code></span><bdi>${one.detail}</bdi></div>`)}</div>` : null;
}
