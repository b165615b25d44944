// Versions side by side: what differs is marked, the best figure of each row is bold.
import { html, useEffect, useState } from '../html.js';
import { get } from '../api.js';
import { csv, download, gap, moment, number, seconds, shortId } from '../format.js';
import { Card, Code, Empty, ErrorBox, Loading, Page } from '../parts.js';
import { href } from '../router.js';
import { LOWER_IS_BETTER, metricNames, metricText, metricTitle } from './model_parts.js';

const SMALL = new Set([...LOWER_IS_BETTER, 'relative gap', 'seconds']);
const PARAMETERS = ['loss', 'C', 'tol', 'bias', 'class_weight', 'split', 'calibrate', 'preprocess', 'seed'];

export function Versions({ route }) {
  const refs = (route.query.get('refs') || '').split(',').filter(Boolean).slice(0, 6);
  const [models, setModels] = useState(null);
  const [error, setError] = useState(null);
  const load = () => Promise.all(refs.map((ref) => get(`v1/models/${encodeURIComponent(ref)}`))).then(setModels, setError);
  useEffect(() => { load(); }, [refs.join()]);
  const crumbs = [['Models', href('models')]];
  if (!refs.length) return html`<${Page} title="Side by side" crumbs=${crumbs}><${Card}><${Empty} title="Choose versions" actions=${html`<a class="button primary" href=${href('models')}>Go to the models</a>`}>Tick two or more in the list.</${Empty}></${Card}></${Page}>`;
  if (!models) return html`<${Page} title="Side by side" crumbs=${crumbs}><${ErrorBox} error=${error} retry=${load} />${!error && html`<${Card}><${Loading} lines=${8} /></${Card}>`}</${Page}>`;
  const parts = ['test', 'train'].filter((part) => models.some((one) => one.metrics[part]));
  const groups = [
    ['Certificate', [row('relative gap', models, (one) => one.certificate?.relative_gap, gap), row('primal', models, (one) => one.certificate?.primal, (value) => number(value, 8)),
      row('dual bound', models, (one) => one.certificate?.dual_bound, (value) => number(value, 8)), row('converged', models, (one) => one.converged, (value) => (value ? 'yes' : 'no'))]],
    ...parts.map((part) => [`Metrics, ${part} rows`, metricNames(Object.fromEntries(models.map((one, place) => [place, one.metrics[part] || {}]))).map((name) =>
      row(metricTitle(name), models, (one) => one.metrics[part]?.[name], (value) => metricText(name, value), name))]),
    ['Training', [row('seconds', models, (one) => one.training.seconds, seconds), row('solver', models, (one) => one.solver), row('dataset', models, (one) => one.lineage.dataset_id, shortId), row('trained', models, (one) => one.created_at, moment)]],
    ['Parameters', PARAMETERS.map((name) => row(name, models, (one) => one.params?.[name], (value) => (value === null || value === undefined ? '–' : typeof value === 'object' ? JSON.stringify(value) : String(value))))],
  ];
  const save = () => download('versions.csv', csv(['', ...models.map((one) => `${one.name}:${one.version}`)], groups.flatMap(([, rows]) => rows.map((one) => [one.name, ...one.raw.map((value) => (typeof value === 'object' && value ? JSON.stringify(value) : value))]))));
  return html`<${Page} title="Versions side by side" crumbs=${crumbs} actions=${html`<${Code} requests=${refs.map((ref) => [ref, { path: `v1/models/${ref}` }])} /><button type="button" class="ghost" onClick=${save}>CSV</button>`}>
    <${Card} flush><div class="scroll" tabindex="0" role="region" aria-label="Versions side by side"><table class="versions"><caption class="offscreen">Versions side by side</caption>
      <thead><tr><th scope="col"></th>${models.map((one) => html`<th scope="col" ><a href=${href(['models', `${one.name}:${one.version}`])}><bdi class="clip">${one.name}</bdi>:${one.version}</a>${one.aliases.map((alias) => html` <span class="chip">@<bdi>${alias}</bdi></span>`)}</th>`)}</tr></thead>
      ${groups.map(([title, rows]) => html`<tbody><tr class="group-row"><th scope="rowgroup" colspan=${models.length + 1}>${title}</th></tr>
        ${rows.map((one) => html`<tr class=${one.differs ? '' : 'same'}><th scope="row">${one.name}</th>${one.cells.map((cell, place) => html`<td class=${one.best.has(place) ? 'best' : ''}>${cell}${one.best.has(place) && html`<span class="offscreen"> (best)</span>`}</td>`)}</tr>`)}</tbody>`)}
    </table></div></${Card}>
  </${Page}>`;
}

function row(name, models, read, show = (value) => value ?? '–', key = name) {
  const raw = models.map(read);
  const differs = new Set(raw.map((value) => JSON.stringify(value))).size > 1;
  const isFigure = raw.every((value) => Number.isFinite(value)) && !['primal', 'dual bound'].includes(name) && !PARAMETERS.includes(name);
  const wanted = SMALL.has(key) ? Math.min(...raw) : Math.max(...raw);
  const best = new Set(isFigure && differs ? raw.map((value, place) => (value === wanted ? place : -1)).filter((place) => place >= 0) : []);
  return { name, raw, cells: raw.map(show), differs, best };
}
