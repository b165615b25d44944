// All models, newest first. A name has versions; a version never changes.
import { html, useState } from '../html.js';
import { usePages } from '../data.js';
import { gap, number, plural } from '../format.js';
import { Card, Code, Empty, ErrorBox, Loading, Page, Pager, Table, When } from '../parts.js';
import { go, href } from '../router.js';
import { can } from '../session.js';
import { Choice, Typed } from './jobs.js';
import { metricText, metricTitle } from './model_parts.js';

const MOST = 6;

export function Models({ route }) {
  const filters = { name: route.query.get('name'), task: route.query.get('task') };
  const page = usePages('v1/models', filters, route.query.get('cursor'));
  const [picked, setPicked] = useState([]);
  const rows = page.data?.data || [];
  const filtered = Object.values(filters).some(Boolean);
  const change = (changes) => go('models', { ...Object.fromEntries(route.query), cursor: '', back: '', ...changes });
  const pick = (id) => setPicked(picked.includes(id) ? picked.filter((one) => one !== id) : [...picked, id].slice(-MOST));
  return html`<${Page} title="Models" lead="Every model carries a certificate: how far from the optimum it can be at most." actions=${html`<${Code} request=${{ path: 'v1/models', query: filters }} />${can('write') && html`<a class="button primary" href=${href(['jobs', 'new'])}>Train a model</a>`}`}>
    <form class="filters" role="search" aria-label="Filter models" onSubmit=${(event) => event.preventDefault()}>
      <${Typed} label="Name" value=${filters.name} placeholder="exact name" onChange=${(name) => change({ name })} />
      <${Choice} label="Task" value=${filters.task} options=${['binary', 'multiclass', 'ordinal', 'regression']} onChange=${(task) => change({ task })} />
      ${filtered && html`<button type="button" class="ghost" onClick=${() => go('models')}>Clear</button>`}
    </form>
    <${ErrorBox} error=${page.error} retry=${page.reload} />
    <${Card} flush>
      ${picked.length > 0 && html`<div class="row selection"><span>${plural(picked.length, 'version')} selected</span><span class="actions">
        <a class=${`button ghost${picked.length < 2 ? ' disabled' : ''}`} aria-disabled=${picked.length < 2 ? 'true' : null} href=${picked.length < 2 ? null : href(['models', 'several', 'versions'], { refs: picked.join(',') })}>Side by side</a>
        <button type="button" class="ghost" onClick=${() => setPicked([])}>Clear selection</button></span></div>`}
      ${page.loading && !page.data ? html`<${Loading} lines=${8} />` : rows.length === 0
        ? html`<${Empty} title=${filtered ? 'No model matches' : 'No model yet'} actions=${!filtered && can('write') && html`<a class="button primary" href=${href(['jobs', 'new'])}>Train one</a>`}>${filtered ? 'Change or clear the filters.' : 'A training job ends with a model. Versions of one name are compared, promoted by alias and rolled back here.'}</${Empty}>`
        : html`<${Table} caption="Models" busy=${page.loading} link=${(one) => href(['models', `${one.name}:${one.version}`])} rowKey=${(one) => one.id} rows=${rows} columns=${[
          { head: html`<span class="offscreen">Select</span>`, cell: (one) => html`<input type="checkbox" aria-label=${`Select ${one.name}:${one.version}`} checked=${picked.includes(one.id)} onChange=${() => pick(one.id)} />` },
          { head: 'Model', cell: (one) => html`<a href=${href(['models', `${one.name}:${one.version}`])}><bdi class="clip" title=${one.name}>${one.name}</bdi>:${one.version}</a>` },
          { head: 'Task', minor: true, cell: (one) => one.task },
          { head: 'Metric', num: true, cell: (one) => (one.headline ? html`${metricText(one.headline.name, one.headline.value)} <span class="muted spill">${metricTitle(one.headline.name)}, ${one.headline.rows}</span>` : '–') },
          { head: 'Certified gap', num: true, cell: (one) => html`<span class=${`mono ${one.converged ? 'good' : 'warn'}`}>${gap(one.relative_gap)}</span>` },
          { head: 'Solver', minor: true, cell: (one) => one.solver },
          { head: 'Trained', minor: true, cell: (one) => html`<${When} at=${one.created_at} />` },
        ]} />`}
      <${Pager} page=${page.data} route=${route} busy=${page.loading} />
    </${Card}>
    <p class="fine">${number(rows.length)} shown. Tick up to ${MOST} versions to see them side by side.</p>
  </${Page}>`;
}
