// One dataset: what was understood of its columns, what is wrong with it, how its values spread, its first rows.
import { html, useEffect, useState } from '../html.js';
import { address, call, get } from '../api.js';
import { Bars, DataTable } from '../chart.js';
import { useResource } from '../data.js';
import { bytes, number, plural, shortId } from '../format.js';
import { Card, Code, Confirm, Empty, ErrorBox, Labels, Loading, Page, Stat, Status, Table, Tabs, When, withCode } from '../parts.js';
import { go, href } from '../router.js';
import { can } from '../session.js';
import { Columns } from './columns.js';

const FIGURES = ['name', 'kind', 'count', 'missing', 'zeros', 'min', 'max', 'mean', 'std', 'levels'];
const DRAWN = ['histogram', 'top'];
const STATISTICS_A_PAGE = 24;
const TABS = [['columns', 'Columns'], ['histograms', 'Histograms'], ['preview', 'Preview']];

export function Dataset({ route }) {
  const id = route.parts[1];
  const path = `v1/datasets/${encodeURIComponent(id)}`;
  const loaded = useResource(path);
  const dataset = loaded.data;
  const isReady = dataset?.status === 'ready';
  const issues = useResource(isReady ? `${path}/issues` : null);
  const [asking, setAsking] = useState(false);
  const tab = route.query.get('tab') || 'columns';
  useEffect(() => {  // a file that is still being read: wait for its end with a long poll
    if (!dataset || dataset.done) return undefined;
    let stopped = false;
    get(path, { wait: 30 }).then((next) => { if (!stopped) loaded.change(next); }, () => {});
    return () => { stopped = true; };
  }, [dataset]);
  const crumbs = [['Datasets', href('datasets')]];
  if (loaded.error && !dataset) return html`<${Page} title="Dataset" crumbs=${crumbs}><${ErrorBox} error=${loaded.error} retry=${loaded.reload} /></${Page}>`;
  if (!dataset) return html`<${Page} title="Dataset" crumbs=${crumbs}><${Card}><${Loading} lines=${6} /></${Card}></${Page}>`;
  const remove = async () => { await call('DELETE', path); go('datasets'); };
  return html`<${Page} title=${dataset.name || dataset.id} crumbs=${[...crumbs, [shortId(id), href(['datasets', id])]]}
    lead=${html`<${Status} status=${dataset.status} /> · ${dataset.format} · <code>${dataset.id}</code> · uploaded <${When} at=${dataset.created_at} /> <${Labels} labels=${dataset.labels} />`}
    actions=${html`<${Code} request=${{ path }} /><a class="button ghost" href=${address(`${path}/content`).href} download>Download</a>
      ${can('write') && html`<button type="button" class="danger" onClick=${() => setAsking(true)}>Delete</button>`}
      ${can('write') && isReady && html`<a class="button ghost" href=${href(['jobs', 'new'], { dataset: id, type: 'tune' })}>Tune</a><a class="button primary" href=${href(['jobs', 'new'], { dataset: id })}>Train</a>`}`}>
    ${dataset.status === 'invalid' && html`<${ErrorBox} error=${{ ...dataset.error, message: dataset.error?.message, errors: dataset.errors, requestId: null }} />`}
    ${dataset.status === 'processing' && html`<${Card}><${Empty} title="The file is being read">This page shows its columns as soon as that is done.</${Empty}></${Card}>`}
    ${isReady && html`
      <dl class="stats">
        <${Stat} label="Rows" value=${number(dataset.n_rows)} /><${Stat} label="Features" value=${number(dataset.n_features)} note=${dataset.storage === 'csr' ? `${number(dataset.nnz)} entries, sparse` : 'dense'} />
        <${Stat} label="Labels suggest" value=${dataset.task_hint} note=${dataset.classes.length ? plural(dataset.classes.length, 'class', 'classes') : null} /><${Stat} label="Size" value=${bytes(dataset.bytes)} />
      </dl>
      <div class="with-side"><div class="stack">
        <${Tabs} label="Views of the dataset" value=${tab} options=${TABS} link=${(name) => href(['datasets', id], { tab: name })} />
        ${tab === 'columns' && html`<${Columns} dataset=${dataset} />`}
        ${tab === 'histograms' && html`<${Histograms} path=${path} />`}
        ${tab === 'preview' && html`<${Preview} path=${path} />`}
      </div><div class="stack">
        <${Issues} issues=${issues} />
        ${dataset.warnings.length > 0 && html`<${Card} title="How it was read"><div class="stack tight">${dataset.warnings.map((one) => html`<div class="notice"><span><code>${one.code}</code></span><bdi>${one.detail}</bdi></div>`)}</div></${Card}>`}
        ${dataset.classes.length > 0 && html`<${Card} title="Classes"><${Bars} caption="Rows of each class" rows=${dataset.classes.slice(0, 20).map((one) => ({ name: String(one.label), value: one.count }))} />
          <${DataTable} caption="classes" table=${{ columns: ['label', 'rows'], rows: () => dataset.classes.map((one) => [one.label, one.count]) }} /></${Card}>`}
      </div></div>`}
    ${asking && html`<${Confirm} title="Delete this dataset?" text="Its bytes are freed. Models that were trained on it stay." action="Delete" danger request=${{ method: 'DELETE', path }} onYes=${remove} onClose=${() => setAsking(false)} />`}
  </${Page}>`;
}

function Issues({ issues }) {
  const found = issues.data?.data;
  return html`<${Card} title="Issues" note=${found ? plural(found.length, 'issue') : null}>
    <${ErrorBox} error=${issues.error} retry=${issues.reload} />
    ${issues.loading && html`<${Loading} />`}
    ${found && (found.length === 0 ? html`<div class="notice good-notice">Nothing stands out: no conflicting duplicates, constant or leaking columns.</div>`
      : html`<div class="stack tight">${found.map((one) => html`<div class=${`notice ${one.severity === 'error' ? 'error-notice' : one.severity === 'warning' ? 'warning' : ''}`}>
        <span><strong>${one.code.replaceAll('_', ' ')}</strong>${one.count !== null && html` <span class="muted">${number(one.count)}</span>`}</span><bdi>${withCode(one.detail)}</bdi>
        ${one.columns.length > 0 && html`<span class="labels">${one.columns.slice(0, 8).map((name) => html`<span class="label"><bdi>${name}</bdi></span>`)}</span>`}
        ${one.rows.length > 0 && html`<span class="muted">rows ${one.rows.slice(0, 8).join(', ')}</span>`}
        <span class="muted">Remedy: ${withCode(one.remedy)}</span></div>`)}</div>`)}
  </${Card}>`;
}

function Histograms({ path }) {
  const first = useResource(`${path}/statistics`, { limit: STATISTICS_A_PAGE });
  const [more, setMore] = useState({ rows: [], cursor: undefined, error: null });
  const rows = [...(first.data?.data || []), ...more.rows];
  const next = more.cursor === undefined ? first.data?.next_cursor : more.cursor;
  const read = async () => {
    try {
      const page = await get(`${path}/statistics`, { limit: STATISTICS_A_PAGE, cursor: next });
      setMore((before) => ({ rows: [...before.rows, ...page.data], cursor: page.next_cursor, error: null }));
    } catch (error) { setMore((before) => ({ ...before, error })); }
  };
  return html`<${Card} title="Values of each column" actions=${html`<${Code} request=${{ path: `${path}/statistics` }} />`}>
    <${ErrorBox} error=${first.error || more.error} retry=${first.reload} />
    ${first.loading && html`<${Loading} lines=${6} />`}
    <div class="tiles">${rows.map((one) => html`<div class="tile" key=${one.index}><div class="row"><strong class="clip" title=${one.name}><bdi>${one.name ?? `#${one.index}`}</bdi></strong><span class="muted fine">${one.kind}</span></div>
      ${one.histogram ? html`<${Histogram} of=${one} />` : one.top ? html`<${Bars} caption=${`Levels of ${one.name}`} rows=${one.top.slice(0, 5).map((level) => ({ name: level.level, value: level.count }))} />` : html`<p class="fine">no range to draw</p>`}
      ${one.missing > 0 && html`<p class="fine warn">${number(one.missing)} missing</p>`}</div>`)}</div>
    ${rows.length > 0 && html`<div class="row">${next ? html`<button type="button" class="ghost" onClick=${read}>More columns</button>` : html`<span></span>`}
      <${DataTable} caption="statistics" table=${{ columns: [...FIGURES, ...DRAWN], rows: () => rows.map((one) => [...FIGURES.map((name) => one[name]), ...DRAWN.map((name) => (one[name] ? JSON.stringify(one[name]) : null))]) }} /></div>`}
  </${Card}>`;
}

function Histogram({ of }) {
  const { counts } = of.histogram;
  const most = Math.max(...counts, 1);
  return html`<svg class="spark" viewBox="0 0 100 40" preserveAspectRatio="none" role="img" aria-label=${`${of.name}: from ${number(of.min)} to ${number(of.max)}, mean ${number(of.mean)}`}>
    ${counts.map((count, place) => html`<rect x=${place * 10 + 0.6} width="8.8" y=${40 - (40 * count) / most} height=${(40 * count) / most} />`)}</svg>
    <p class="row fine"><span>${number(of.min, 3)}</span><span>mean ${number(of.mean, 3)}</span><span>${number(of.max, 3)}</span></p>`;
}

const PREVIEW_COLUMNS = 60;

function Preview({ path }) {
  const preview = useResource(`${path}/preview`, { rows: 25 });
  const found = preview.data;
  if (!found) return html`<${Card}><${ErrorBox} error=${preview.error} retry=${preview.reload} />${preview.loading && html`<${Loading} lines=${8} />`}</${Card}>`;
  const width = found.columns?.length ?? found.n_features;
  const places = Array.from({ length: Math.min(width, PREVIEW_COLUMNS) }, (_, place) => place);
  const cell = (row, place) => (row.indices ? row.values[row.indices.indexOf(place)] : row.values[place]);
  const shown = (value) => (value === null ? html`<span class="muted">missing</span>` : typeof value === 'number' ? number(value) : html`<bdi class="clip">${String(value ?? '')}</bdi>`);
  return html`<${Card} flush title="First rows" note=${width > PREVIEW_COLUMNS ? `the first ${PREVIEW_COLUMNS} of ${number(width)} columns` : null} actions=${html`<${Code} request=${{ path: `${path}/preview`, query: { rows: 25 } }} />`}>
    <${Table} caption="First rows" rows=${found.data} columns=${[
      { head: html`<bdi>${found.target || 'label'}</bdi>`, cell: (row) => html`<strong><bdi class="clip">${String(row.label)}</bdi></strong>` },
      ...places.map((place) => ({ head: html`<bdi class="clip">${found.columns?.[place] ?? `#${place}`}</bdi>`, num: true, cell: (row) => shown(cell(row, place)) })),
    ]} /></${Card}>`;
}

