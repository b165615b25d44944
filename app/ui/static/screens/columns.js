// The guessed columns, to be corrected before training. Kinds and ignored columns go into the job; another target,
// weight or group means reading the stored file again, which makes a new dataset of the same bytes.
import { html, useMemo, useState } from '../html.js';
import { call } from '../api.js';
import { useResource } from '../data.js';
import { number, plural } from '../format.js';
import { Card, Code, Empty, ErrorBox, Table } from '../parts.js';
import { go, href } from '../router.js';
import { can } from '../session.js';

const OTHER_KINDS = { numeric: ['categorical'], boolean: ['categorical'], categorical: ['text'], text: ['categorical'], date: ['numeric'] };
const ROLES = ['feature', 'target', 'weight', 'group', 'ignored'];
const ROLES_OF_ONE = ['target', 'weight', 'group'];
const SHOWN = 200;

// What was changed of a dataset's columns, kept while the browser's tab is open.
export function columnEdits(datasetId) {
  try { return JSON.parse(sessionStorage.getItem(`hyperplane.columns.${datasetId}`)) || {}; } catch { return {}; }
}

function keep(datasetId, edits) {
  try { sessionStorage.setItem(`hyperplane.columns.${datasetId}`, JSON.stringify(edits)); } catch { /* they hold on this page only */ }
}

// Edits as a job's `preprocess.columns`.
export function asPreprocess(edits) {
  const columns = Object.entries(edits).map(([name, edit]) => [name, { ...(edit.kind ? { kind: edit.kind } : {}), ...(edit.role === 'ignored' ? { ignore: true } : {}) }]);
  return Object.fromEntries(columns.filter(([, settings]) => Object.keys(settings).length));
}

export function Columns({ dataset }) {
  const [edits, setEdits] = useState(() => columnEdits(dataset.id));
  const [state, setState] = useState({ busy: false, error: null });
  const [find, setFind] = useState('');
  const all = dataset.columns;
  const more = useResource(dataset.n_columns > all.length ? `v1/datasets/${dataset.id}/columns` : null, { limit: 1 });
  const shown = useMemo(() => all.filter((one) => one.name.toLowerCase().includes(find.toLowerCase())).slice(0, SHOWN), [all, find]);
  if (!all.length) return html`<${Card}><${Empty} title="Columns without names">This format has numbered features and no names. All ${number(dataset.n_features)} of them are used.</${Empty}></${Card}>`;
  const may = can('write');
  const edit = (name, change) => {
    const next = { ...edits, [name]: { ...edits[name], ...change } };
    for (const key of Object.keys(next[name])) if (next[name][key] === null) delete next[name][key];
    if (!Object.keys(next[name]).length) delete next[name];
    if (ROLES_OF_ONE.includes(change.role)) {  // there is one target, one weight, one group
      for (const [other, one] of Object.entries(next)) if (other !== name && one.role === change.role) delete one.role;
    }
    setEdits(next);
    keep(dataset.id, next);
  };
  const roleOf = (column) => edits[column.name]?.role || column.role;
  const moved = Object.entries(edits).filter(([name, one]) => ROLES_OF_ONE.includes(one.role) && all.find((column) => column.name === name)?.role !== one.role);
  const query = { ...Object.fromEntries(moved.map(([name, one]) => [one.role, name])),
    ...(moved.length ? { ignore: all.filter((one) => roleOf(one) === 'ignored').map((one) => one.name) } : {}) };
  const reread = { method: 'POST', path: `v1/datasets/${dataset.id}/reread`, query };
  const changes = Object.keys(asPreprocess(edits)).length;
  const readAgain = async () => {
    setState({ busy: true, error: null });
    try { keep(dataset.id, {}); go(['datasets', (await call('POST', reread.path, { query })).id]); } catch (error) { setState({ busy: false, error }); }
  };
  return html`<${Card} flush title="Columns" note=${`${number(dataset.n_columns)} in all`} actions=${all.length > 15 && html`<input class="find" type="search" aria-label="Find a column" placeholder="Find a column" value=${find} onInput=${(event) => setFind(event.target.value)} />`}>
    ${(moved.length > 0 || changes > 0) && html`<div class="row selection">
      <span>${moved.length > 0 ? html`<strong><bdi>${moved.map(([name, one]) => `${one.role}: ${name}`).join(', ')}</bdi></strong>. The stored file is read again as a new dataset.` : `${plural(changes, 'change')} for the next training.`}</span>
      <span class="actions">${moved.length > 0 ? html`<${Code} request=${reread} /><button type="button" class="primary" disabled=${state.busy} onClick=${readAgain}>Read again</button>`
        : html`<a class="button primary" href=${href(['jobs', 'new'], { dataset: dataset.id })}>Train with them</a>`}
      <button type="button" class="ghost" onClick=${() => { setEdits({}); keep(dataset.id, {}); }}>Undo</button></span></div>`}
    ${state.error && html`<${ErrorBox} error=${state.error} />`}
    <${Table} caption="Columns" rows=${shown} rowKey=${(one) => one.name} columns=${[
      { head: 'Column', cell: (one) => html`<strong><bdi class="clip" title=${one.name}>${one.name}</bdi></strong>` },
      { head: 'Role', cell: (one) => (may ? html`<select class="tight" aria-label=${`Role of ${one.name}`} value=${roleOf(one)} onChange=${(event) => edit(one.name, { role: event.target.value === one.role ? null : event.target.value })}>
        ${ROLES.map((role) => html`<option value=${role}>${role}</option>`)}</select>` : one.role) },
      { head: 'Kind', cell: (one) => (may && one.role === 'feature' && OTHER_KINDS[one.kind] ? html`<select class="tight" aria-label=${`Kind of ${one.name}`} value=${edits[one.name]?.kind || one.kind} onChange=${(event) => edit(one.name, { kind: event.target.value === one.kind ? null : event.target.value })}>
        ${[one.kind, ...OTHER_KINDS[one.kind]].map((kind) => html`<option value=${kind}>${kind}</option>`)}</select>` : one.kind || '–') },
      { head: 'Missing', num: true, cell: (one) => number(one.missing) },
      { head: 'Levels', num: true, cell: (one) => number(one.levels) },
      { head: 'Why', wide: true, cell: (one) => html`<span class="muted">${one.reason || ''}</span>` },
    ]} />
    ${(all.length > shown.length || more.data) && html`<p class="fine foot-note">${number(shown.length)} of ${number(dataset.n_columns)} columns are shown${find ? ' that match' : ''}.</p>`}
  </${Card}>`;
}
