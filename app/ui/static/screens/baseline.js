// Metrics of a model beside a baseline: what needs no model at all, or another version.
import { html, useState } from '../html.js';
import { useResource } from '../data.js';
import { DataTable } from '../chart.js';
import { Field } from '../parts.js';
import { LOWER_IS_BETTER, metricNames, metricText, metricTitle } from './model_parts.js';

// What is reached without a model: always the most frequent class, or always the mean. Older models do not store it.
function withoutModel(metrics) {
  if (!metrics) return null;
  if (metrics.confusion) {
    const totals = metrics.confusion.matrix.map((row) => row.reduce((sum, count) => sum + count, 0));
    const rows = totals.reduce((sum, count) => sum + count, 0);
    if (!rows) return null;
    const accuracy = totals.reduce((most, count) => Math.max(most, count), 0) / rows;
    return { accuracy, error: 1 - accuracy, ...(metrics.roc_auc === undefined ? {} : { roc_auc: 0.5 }) };
  }
  return Number.isFinite(metrics.rmse) && metrics.r2 < 1 ? { rmse: metrics.rmse / Math.sqrt(1 - metrics.r2), r2: 0 } : null;
}

export function Baseline({ model, versions }) {
  const part = model.metrics.test ? 'test' : 'train';
  const plain = model.metrics.baseline || withoutModel(model.metrics[part]);
  const others = versions.filter((one) => one.id !== model.id);
  const [chosen, setChosen] = useState(plain ? 'none' : others[0]?.id || 'none');
  const other = useResource(chosen === 'none' ? null : `v1/models/${chosen}`);
  const baseline = chosen === 'none' ? plain : other.data?.metrics[part];
  const names = metricNames(model.metrics);
  const parts = ['train', 'test'].filter((name) => model.metrics[name]);
  const title = chosen === 'none' ? (model.task === 'regression' ? 'always the mean' : 'always the largest class') : (others.find((one) => one.id === chosen) ? `version ${others.find((one) => one.id === chosen).version}` : 'baseline');
  const rows = names.map((name) => {
    const own = model.metrics[part][name];
    const before = baseline?.[name];
    const isKnown = Number.isFinite(own) && Number.isFinite(before);
    const change = isKnown ? own - before : null;
    return { name, before, change, isBetter: isKnown && change !== 0 ? (LOWER_IS_BETTER.has(name) ? change < 0 : change > 0) : null };
  });
  return html`<div class="stack tight"><div class="filters"><${Field} label="Baseline">${(input) => html`<select ...${input} value=${chosen} onChange=${(event) => setChosen(event.target.value)}>
      <option value="none">${model.task === 'regression' ? 'always the mean' : 'always the largest class'}</option>${others.map((one) => html`<option value=${one.id}>version ${one.version}</option>`)}</select>`}</${Field}></div>
    <div class="scroll" tabindex="0" role="region" aria-label="Metrics"><table><caption class="offscreen">Metrics</caption><thead><tr><th scope="col">Metric</th>${parts.map((name) => html`<th scope="col" class="num">${name}</th>`)}<th scope="col" class="num">${title}, ${part}</th><th scope="col" class="num">difference</th></tr></thead>
    <tbody>${rows.map((one) => html`<tr><th scope="row">${metricTitle(one.name)}</th>${parts.map((name) => html`<td class="num">${metricText(one.name, model.metrics[name][one.name])}</td>`)}
      <td class="num muted">${metricText(one.name, one.before)}</td><td class=${`num ${one.isBetter === true ? 'good' : one.isBetter === false ? 'bad' : ''}`}>${one.change === null ? '–' : `${one.change > 0 ? '+' : ''}${metricText(one.name, one.change)}`}${one.isBetter !== null && html`<span class="offscreen"> ${one.isBetter ? 'better' : 'worse'}</span>`}</td></tr>`)}
      <tr><th scope="row">Rows</th>${parts.map((name) => html`<td class="num">${metricText('rows', model.metrics[name].rows)}</td>`)}<td class="num muted">${metricText('rows', chosen === 'none' ? model.metrics[part].rows : baseline?.rows)}</td><td></td></tr></tbody></table></div>
    <${DataTable} caption="metrics" table=${{ columns: ['metric', ...parts, 'baseline', 'difference'], rows: () => rows.map((one) => [one.name, ...parts.map((name) => model.metrics[name][one.name]), one.before, one.change]) }} /></div>`;
}
