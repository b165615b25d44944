// For whoever keeps the service running: readiness, storage, memory, webhooks with their deliveries, the build.
import { html, useState } from '../html.js';
import { call, post } from '../api.js';
import { useResource } from '../data.js';
import { bytes, number, percent, plural, shortId } from '../format.js';
import { Bar, Card, Code, Confirm, Copy, Empty, ErrorBox, Field, Loading, Page, Stat, Status, Table, When } from '../parts.js';
import { href } from '../router.js';
import { can, session } from '../session.js';

const EVENTS = ['job.succeeded', 'job.failed', 'job.cancelled', 'job.queued', 'job.running', 'job.paused', 'job.progress'];

export function Operate({ route }) {
  const system = useResource('v1/system', null, { every: 10_000 });
  const s = system.data;
  return html`<${Page} title="Operate" actions=${html`<${Code} request=${{ path: 'v1/system' }} />`}>
    <${ErrorBox} error=${system.error} retry=${system.reload} />
    ${!s ? html`<${Card}><${Loading} lines=${5} /></${Card}>` : html`
    <dl class="stats">
      <${Stat} label="Service" value=${html`<${Status} status=${s.readiness.status} />`} note=${`training: ${s.readiness.training}`} />
      <${Stat} label="Files" value=${bytes(s.storage.used_bytes)} note=${`${bytes(s.storage.free_bytes)} free of ${bytes(s.storage.total_bytes)}`} tone=${s.storage.free_bytes < 2 * s.storage.reserved_bytes ? 'bad' : ''} />
      <${Stat} label="Training memory" value=${bytes(s.training.memory_needed_bytes)} note=${`of ${bytes(s.training.memory_budget_bytes)} a machine`} />
      <${Stat} label="Workers" value=${number(s.training.workers)} note=${`${plural(s.jobs.running, 'job')} running, ${number(s.jobs.queued)} queued`} />
      <${Stat} label="Version" value=${s.version} note=${s.database} />
    </dl>
    <div class="grid">
      <${Card} title="Readiness"><dl class="facts">${Object.entries(s.readiness.checks).map(([name, outcome]) => html`<dt>${name}</dt><dd><${Status} status=${outcome === 'ok' ? 'ok' : outcome === 'compiling' ? 'compiling' : 'error'} />${outcome !== 'ok' && html` <bdi>${outcome}</bdi>`}</dd>`)}</dl></${Card}>
      <${Card} title="Storage"><div class="stack tight"><${Bar} value=${1 - s.storage.free_bytes / s.storage.total_bytes} label="Disk in use" /><p class="muted">The disk is ${percent(1 - s.storage.free_bytes / s.storage.total_bytes, 0)} full. Uploads and new jobs leave ${bytes(s.storage.reserved_bytes)} free.</p>
        <dl class="facts"><dt>Datasets</dt><dd>${number(s.datasets)}</dd><dt>Models</dt><dd>${number(s.models)}</dd></dl></div></${Card}>
      <${Card} title="Access">${session.required ? html`<dl class="facts"><dt>Key</dt><dd class="mono">${session.key_id}</dd><dt>May</dt><dd>${session.scopes.join(', ')}</dd></dl>` : html`<p>No key exists and the service is bound to loopback: it is open to this machine.</p>`}
        <p class="fine">Keys are made on the server: <code>hyperplane keys create --scope read</code>, listed with <code>keys list</code>, ended with <code>keys revoke</code>.</p></${Card}>
    </div>`}
    <${Webhooks} route=${route} />
  </${Page}>`;
}

function Webhooks({ route }) {
  const hooks = useResource('v1/webhooks', { limit: 100 });
  const [url, setUrl] = useState('');
  const [events, setEvents] = useState(EVENTS.slice(0, 3));
  const [made, setMade] = useState(null);
  const [error, setError] = useState(null);
  const [asking, setAsking] = useState(null);
  const chosen = route.query.get('webhook');
  const body = { url: url || 'https://example.org/hook', events };
  const add = async (event) => {
    event.preventDefault();
    setError(null);
    try { setMade(await post('v1/webhooks', { url, events })); setUrl(''); hooks.reload(); } catch (problem) { setError(problem); }
  };
  const toggle = (name) => setEvents(events.includes(name) ? events.filter((one) => one !== name) : [...events, name]);
  const rows = hooks.data?.data || [];
  return html`<${Card} flush title="Webhooks" note="signed, retried for a day" actions=${html`<${Code} requests=${[['Add', { method: 'POST', path: 'v1/webhooks', body }], ['List', { path: 'v1/webhooks' }], ...rows.slice(0, 1).flatMap((one) => [['Deliveries', { path: `v1/webhooks/${one.id}/deliveries` }], ['Test', { method: 'POST', path: `v1/webhooks/${one.id}/test` }], ['Delete', { method: 'DELETE', path: `v1/webhooks/${one.id}` }]])]} />`}>
    <${ErrorBox} error=${hooks.error} retry=${hooks.reload} />
    ${made && html`<div class="inset notice good-notice"><span>The secret of the new webhook. It is not shown again.</span><span class="row start"><code>${made.secret}</code><${Copy} small text=${made.secret} /></span></div>`}
    ${hooks.loading && !hooks.data ? html`<${Loading} />` : rows.length === 0 ? html`<${Empty} title="No webhook">An address that hears of the end of every job. Messages follow Standard Webhooks.</${Empty}>`
      : html`<${Table} caption="Webhooks" rows=${rows} rowKey=${(one) => one.id} columns=${[
        { head: 'Address', wide: true, cell: (one) => html`<bdi>${one.url}</bdi>${one.disabled_at && html` <span class="chip">disabled</span>`}` },
        { head: 'Events', wide: true, cell: (one) => html`<span class="labels">${one.events.map((name) => html`<span class="label">${name.replace('job.', '')}</span>`)}</span>` },
        { head: 'Of', cell: (one) => (one.job_id ? html`<a class="mono" href=${href(['jobs', one.job_id])}>${shortId(one.job_id)}</a>` : 'all jobs') },
        { head: 'Made', cell: (one) => html`<${When} at=${one.created_at} />` },
        { head: '', cell: (one) => html`<span class="actions"><a class="button ghost small" href=${href('operate', { webhook: one.id })}>Deliveries</a>${can('write') && html`<button type="button" class="ghost small" onClick=${() => test(one)}>Test</button><button type="button" class="danger small" onClick=${() => setAsking(one)}>Delete</button>`}</span>` },
      ]} />`}
    ${can('write') && html`<form class="inset stack tight" onSubmit=${add}><div class="row wrap start"><div class="grow"><${Field} label="New webhook" error=${error?.errors?.[0]?.detail}>${(input) => html`<input ...${input} type="url" required placeholder="https://example.org/hook" value=${url} onInput=${(event) => setUrl(event.target.value)} />`}</${Field}></div></div>
      <fieldset class="labels" aria-label="Events">${EVENTS.map((name) => html`<label class="check"><input type="checkbox" checked=${events.includes(name)} onChange=${() => toggle(name)} /> ${name.replace('job.', '')}</label>`)}</fieldset>
      <div class="actions"><button class="primary" disabled=${!url || events.length === 0}>Add</button></div><${ErrorBox} error=${error} /></form>`}
    ${chosen && html`<${Deliveries} key=${chosen} id=${chosen} />`}
    ${asking && html`<${Confirm} title="Delete the webhook?" text="Nothing more is sent to it, and what was sent is forgotten." action="Delete" danger request=${{ method: 'DELETE', path: `v1/webhooks/${asking.id}` }} onYes=${async () => { await call('DELETE', `v1/webhooks/${asking.id}`); hooks.reload(); }} onClose=${() => setAsking(null)} />`}
  </${Card}>`;

  async function test(one) {
    try { await post(`v1/webhooks/${one.id}/test`); location.hash = href('operate', { webhook: one.id, at: Date.now() }); } catch (problem) { setError(problem); }
  }
}

function Deliveries({ id }) {
  const found = useResource(`v1/webhooks/${encodeURIComponent(id)}/deliveries`, { limit: 25 }, { every: 3000 });
  return html`<div class="inset"><h3>Deliveries</h3><${ErrorBox} error=${found.error} retry=${found.reload} />
    ${found.data && (found.data.data.length === 0 ? html`<p class="muted">Nothing was sent yet.</p>` : html`<${Table} caption="Deliveries" rows=${found.data.data} rowKey=${(one) => one.id} columns=${[
      { head: 'Event', cell: (one) => one.type }, { head: 'Status', cell: (one) => html`<${Status} status=${one.status} />` }, { head: 'Attempt', num: true, cell: (one) => one.attempt },
      { head: 'Error', wide: true, cell: (one) => html`<bdi class="muted">${one.last_error || ''}</bdi>` }, { head: 'Next', cell: (one) => (one.due_at ? html`<${When} at=${one.due_at} />` : '–') }, { head: 'Made', cell: (one) => html`<${When} at=${one.created_at} />` }]} />`)}</div>`;
}
