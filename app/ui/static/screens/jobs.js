// All jobs: filters are part of the address, pages follow cursors, several can be cancelled or compared.
import { html, useState } from '../html.js';
import { post } from '../api.js';
import { useEvents, usePages, useThrottled } from '../data.js';
import { gap, plural, seconds, shortId } from '../format.js';
import { Announce, Bar, Card, Code, Confirm, Empty, ErrorBox, Field, Labels, Loading, Page, Pager, Status, Table, When } from '../parts.js';
import { go, href } from '../router.js';
import { can } from '../session.js';

const STATUSES = ['queued', 'running', 'paused', 'succeeded', 'failed', 'cancelled'];
const TYPES = ['train', 'tune', 'race', 'evaluate', 'predict', 'verify'];
export const MOST_COMPARED = 10;

function asked(query) {
  const filters = { status: query.get('status'), type: query.get('type'), name: query.get('name') };
  const label = query.get('label') || '';
  const [key, ...value] = label.split('=');
  if (key && value.length) filters[`label.${key}`] = value.join('=');
  return filters;
}

export function Jobs({ route }) {
  const filters = asked(route.query);
  const page = usePages('v1/jobs', filters, route.query.get('cursor'));
  const [picked, setPicked] = useState(new Set());
  const [asking, setAsking] = useState(false);
  const [problem, setProblem] = useState(null);
  const refresh = useThrottled(page.reload, 1000);
  useEvents((event) => { if (event.type !== 'job.progress' || page.data?.data.some((job) => job.id === event.job_id)) refresh(); });
  const rows = page.data?.data || [];
  const change = (changes) => go('jobs', { ...Object.fromEntries(route.query), cursor: '', back: '', ...changes });
  const pick = (id) => setPicked((before) => { const next = new Set(before); if (!next.delete(id)) next.add(id); return next; });
  const open = rows.filter((job) => picked.has(job.id) && !job.done);
  const all = rows.length > 0 && rows.every((job) => picked.has(job.id));
  const filtered = Object.values(filters).some(Boolean);

  const cancelAll = async () => {
    const outcomes = await Promise.allSettled(open.map((job) => post(`v1/jobs/${job.id}/cancel`)));
    const refused = outcomes.filter((one) => one.status === 'rejected').map((one) => one.reason);
    setProblem(refused[0] || null);
    setPicked(new Set());
    page.reload();
  };

  return html`<${Page} title="Jobs" actions=${html`<${Code} request=${{ path: 'v1/jobs', query: filters }} />${can('write') && html`<a class="button primary" href=${href(['jobs', 'new'])}>New job</a>`}`}>
    <form class="filters" role="search" aria-label="Filter jobs" onSubmit=${(event) => event.preventDefault()}>
      <${Choice} label="Status" value=${filters.status} options=${STATUSES} onChange=${(status) => change({ status })} />
      <${Choice} label="Type" value=${filters.type} options=${TYPES} onChange=${(type) => change({ type })} />
      <${Typed} label="Model" value=${filters.name} placeholder="exact name" onChange=${(name) => change({ name })} />
      <${Typed} label="Label" value=${route.query.get('label')} placeholder="key=value" onChange=${(label) => change({ label })} />
      ${filtered && html`<button type="button" class="ghost" onClick=${() => go('jobs')}>Clear</button>`}
    </form>
    <${ErrorBox} error=${page.error || problem} retry=${page.reload} />
    <${Card} flush>
      ${picked.size > 0 && html`<div class="row selection"><span>${plural(picked.size, 'job')} selected</span><span class="actions">
        <a class=${`button ghost${picked.size < 2 || picked.size > MOST_COMPARED ? ' disabled' : ''}`} aria-disabled=${picked.size < 2 || picked.size > MOST_COMPARED ? 'true' : null}
          href=${picked.size < 2 || picked.size > MOST_COMPARED ? null : href(['jobs', 'compare'], { ids: [...picked].join(',') })}>Compare${picked.size > MOST_COMPARED ? ` (at most ${MOST_COMPARED})` : ''}</a>
        ${can('write') && html`<button type="button" class="danger" disabled=${open.length === 0} onClick=${() => setAsking(true)}>Cancel ${open.length || ''}</button>`}
        <button type="button" class="ghost" onClick=${() => setPicked(new Set())}>Clear selection</button></span></div>`}
      ${page.loading && !page.data ? html`<${Loading} lines=${8} />` : rows.length === 0
        ? html`<${Empty} title=${filtered ? 'No job matches' : 'No job yet'} actions=${!filtered && can('write') && html`<a class="button primary" href=${href(['jobs', 'new'])}>Train a model</a>`}>
            ${filtered ? 'Change or clear the filters.' : 'A job trains, evaluates, predicts or verifies. It survives the death of its worker and shows here until you delete the database.'}</${Empty}>`
        : html`<${Table} caption="Jobs" busy=${page.loading} link=${(job) => href(['jobs', job.id])} rowKey=${(job) => job.id} rows=${rows} columns=${[
          { head: html`<input type="checkbox" aria-label="Select all on this page" checked=${all} onChange=${() => setPicked(all ? new Set() : new Set(rows.map((job) => job.id)))} />`,
            cell: (job) => html`<input type="checkbox" aria-label=${`Select ${job.id}`} checked=${picked.has(job.id)} onChange=${() => pick(job.id)} />` },
          { head: 'Job', minor: true, cell: (job) => html`<a href=${href(['jobs', job.id])} class="mono" title=${job.id}>${shortId(job.id)}</a>` },
          { head: 'Status', cell: (job) => html`<${Status} status=${job.status} />` },
          { head: 'Model', cell: (job) => html`<a href=${href(['jobs', job.id])} class="plain"><bdi class="clip" title=${job.model}>${job.model}</bdi></a>` },
          { head: 'Type', minor: true, cell: (job) => html`${job.type}${job.solver && html` <span class="muted">${job.solver}</span>`}` },
          { head: 'Gap', num: true, cell: (job) => html`<span class="mono">${gap(job.relative_gap)}</span>` },
          { head: 'Progress', minor: true, cell: (job) => (job.done ? html`<span class="muted">${job.error ? html`<code class="bad">${job.error.code}</code>` : spent(job)}</span>` : html`<${Bar} value=${job.progress} label=${`Progress of ${job.id}`} />`) },
          { head: 'Labels', minor: true, cell: (job) => html`<${Labels} labels=${job.labels} />` },
          { head: 'Created', minor: true, cell: (job) => html`<${When} at=${job.created_at} />` },
        ]} />`}
      <${Pager} page=${page.data} route=${route} busy=${page.loading} />
    </${Card}>
    <${Announce} text=${page.data ? `${plural(rows.length, 'job')} shown` : ''} />
    ${asking && html`<${Confirm} title=${`Cancel ${plural(open.length, 'job')}?`} text="They end and keep nothing. To keep the best model so far, finish a job on its own page." action="Cancel them" danger request=${{ method: 'POST', path: `v1/jobs/${open[0]?.id}/cancel` }}
      onYes=${cancelAll} onClose=${() => setAsking(false)} />`}
  </${Page}>`;
}

function spent(job) {
  const began = Date.parse(job.started_at || job.created_at);
  return job.finished_at ? seconds(Math.max(0, (Date.parse(job.finished_at) - began) / 1000)) : '–';
}

export function Choice({ label, value, options, onChange, all = 'All' }) {
  return html`<${Field} label=${label}>${(input) => html`<select ...${input} value=${value || ''} onChange=${(event) => onChange(event.target.value)}>
    <option value="">${all}</option>${options.map((one) => html`<option value=${one}>${one}</option>`)}</select>`}</${Field}>`;
}

// Typed text becomes part of the address when it is complete: at Enter or when the field is left.
export function Typed({ label, value, placeholder, onChange }) {
  const settle = (event) => { if (event.target.value.trim() !== (value || '')) onChange(event.target.value.trim()); };
  return html`<${Field} label=${label}>${(input) => html`<input ...${input} type="search" placeholder=${placeholder} defaultValue=${value || ''} key=${value || ''}
    onBlur=${settle} onKeyDown=${(event) => { if (event.key === 'Enter') settle(event); }} />`}</${Field}>`;
}
