// The building blocks of every screen.
import { html, useEffect, useRef, useState } from './html.js';
import { asCurl, asPython } from './api.js';
import { ago, moment, number } from './format.js';
import { go } from './router.js';
import { session } from './session.js';

export function Page({ title, lead, actions, crumbs, children }) {
  useEffect(() => { document.title = `${typeof title === 'string' ? title : 'Hyperplane'} · Hyperplane`; }, [title]);
  return html`<div class="page">
    <header class="page-head">
      <div class="grow">
        ${crumbs && html`<nav class="crumbs" aria-label="Breadcrumb">${crumbs.map(([text, link], place) => html`${place > 0 && html`<span aria-hidden="true">/</span>`}<a href=${link}>${text}</a>`)}</nav>`}
        <h1 tabindex="-1"><bdi>${title}</bdi></h1>
        ${lead && html`<p class="lead">${lead}</p>`}
      </div>
      ${actions && html`<div class="actions">${actions}</div>`}
    </header>
    ${children}
  </div>`;
}

export function Card({ title, note, actions, children, wide, flush }) {
  return html`<section class=${`card${wide ? ' wide' : ''}${flush ? ' flush' : ''}`}>
    ${(title || actions) && html`<header class="card-head"><h2>${title}</h2>${note && html`<span class="note">${note}</span>`}
      ${actions && html`<div class="actions">${actions}</div>`}</header>`}
    ${children}
  </section>`;
}

export function Status({ status }) {
  return html`<span class=${`status ${status}`}>${status.replaceAll('_', ' ')}</span>`;
}

export function Stat({ label, value, note, tone }) {
  return html`<div class=${`stat ${tone || ''}`}><dt>${label}</dt><dd>${value}</dd>${note && html`<dd class="note">${note}</dd>`}</div>`;
}

export function When({ at }) {
  return at ? html`<time datetime=${at} title=${moment(at)}>${ago(at)}</time>` : html`<span class="muted">–</span>`;
}

export function Bar({ value, label }) {
  const share = Math.max(0, Math.min(1, value || 0));
  return html`<span class="bar" role="progressbar" aria-label=${label || 'Progress'} aria-valuemin="0" aria-valuemax="100"
    aria-valuenow=${Math.round(100 * share)}><i style=${{ width: `${100 * share}%` }}></i></span>`;
}

export function Loading({ lines = 3 }) {
  return html`<div class="skeleton" role="status" aria-label="Loading">${Array.from({ length: lines }, () => html`<i></i>`)}</div>`;
}

export function Empty({ title, children, actions }) {
  return html`<div class="empty"><h3>${title}</h3><div>${children}</div>${actions && html`<div class="actions">${actions}</div>`}</div>`;
}

export function Copy({ text, label = 'Copy', small }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    try { await navigator.clipboard.writeText(text); } catch { copyByHand(text); }
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return html`<button type="button" class=${`ghost${small ? ' small' : ''}`} onClick=${copy} aria-live="polite">${done ? 'Copied' : label}</button>`;
}

// Without https the clipboard API is not there.
function copyByHand(text) {
  const area = Object.assign(document.createElement('textarea'), { value: text, className: 'offscreen' });
  document.body.append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
}

export function ErrorBox({ error, retry }) {
  if (!error) return null;
  const report = [`${error.status || ''} ${error.code}: ${error.message}`, ...error.errors?.map((one) => `${place(one)}: ${one.detail} (${one.code})`) || [],
    error.requestId && `request ${error.requestId}`, error.jobId && `job ${error.jobId}`].filter(Boolean).join('\n');
  return html`<div class="error" role="alert">
    <div class="grow">
      <strong><bdi>${error.message}</bdi></strong>
      ${error.errors?.length > 0 && html`<ul>${error.errors.slice(0, 20).map((one) => html`<li><code>${place(one)}</code> <bdi>${one.detail}</bdi> <span class="muted">${one.code}</span></li>`)}</ul>`}
      <p class="fine"><code>${error.code || 'error'}</code>${error.requestId && html` · request <code>${error.requestId}</code>`}${error.jobId && html` · job <code>${error.jobId}</code>`}</p>
    </div>
    <div class="actions">${retry && html`<button type="button" class="ghost small" onClick=${retry}>Try again</button>`}<${Copy} small text=${report} label="Copy details" /></div>
  </div>`;
}

function place(one) {
  if (one.field) return one.field;
  if (one.line) return `line ${one.line}${one.column ? `, column ${one.column}` : ''}`;
  return 'request';
}

// columns: {head, cell(row), num, wide, minor}; minor ones are left out on a phone. A row with `link` opens as a whole; its first link is what the keyboard uses.
export function Table({ caption, columns, rows, rowKey, link, busy }) {
  const open = (event, row) => {
    if (!link || event.defaultPrevented || event.target.closest('a, button, input, label, summary') || getSelection()?.toString()) return;
    location.hash = link(row);
  };
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${caption} aria-busy=${busy ? 'true' : 'false'}><table>
    <caption class="offscreen">${caption}</caption>
    <thead><tr>${columns.map((one) => html`<th scope="col" class=${classOf(one)}>${one.head}</th>`)}</tr></thead>
    <tbody>${rows.map((row, place) => html`<tr key=${rowKey ? rowKey(row) : place} class=${link ? 'opens' : ''} onClick=${(event) => open(event, row)}>
      ${columns.map((one) => html`<td class=${classOf(one)}>${one.cell(row, place)}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

const classOf = (column) => ['num', 'wide', 'minor'].filter((name) => column[name]).join(' ');

export function Pager({ page, route, busy }) {
  if (!page) return null;
  const query = Object.fromEntries(route.query);
  const back = query.back ? query.back.split(',') : [];
  const turn = (changes) => go(route.parts, { ...query, ...changes });
  if (!page.has_more && !query.cursor) return null;
  return html`<nav class="pager" aria-label="Pages">
    <button type="button" class="ghost" disabled=${!query.cursor || busy} onClick=${() => turn({ cursor: back.at(-1) || '', back: back.slice(0, -1).join(',') })}>Newer</button>
    <span class="muted">Page ${number(back.length + (query.cursor ? 2 : 1))}</span>
    <button type="button" class="ghost" disabled=${!page.has_more || busy} onClick=${() => turn({ cursor: page.next_cursor, back: query.cursor ? [...back, query.cursor].join(',') : '' })}>Older</button>
  </nav>`;
}

export function Dialog({ title, onClose, children, wide }) {
  const box = useRef(null);
  useEffect(() => { const shown = box.current; shown.showModal(); return () => shown.close(); }, []);
  return html`<dialog ref=${box} class=${wide ? 'wide' : ''} aria-label=${title} onClose=${onClose}
      onClick=${(event) => { if (event.target === box.current) onClose(); }}>
    <div class="dialog-body"><header class="card-head"><h2>${title}</h2>
      <button type="button" class="ghost small" onClick=${onClose}>Close</button></header>${children}</div>
  </dialog>`;
}

// The request behind an action or a screen, for a shell or a program. `requests`: several, as [name, request] pairs.
export function Code({ request, requests = [['', request]], label = 'API' }) {
  const [open, setOpen] = useState(false);
  return html`<button type="button" class="ghost" onClick=${() => setOpen(true)} aria-haspopup="dialog"><span aria-hidden="true" class="mono">${'</>'}</span> ${label}</button>
    ${open && html`<${Dialog} title="The same as a request" onClose=${() => setOpen(false)} wide><${Requests} requests=${requests} /></${Dialog}>`}`;
}

function Requests({ requests }) {
  const [place, setPlace] = useState(0);
  return html`<div class="snippets">${requests.length > 1 && html`<${Field} label="Action">${(input) => html`<select ...${input} value=${place} onChange=${(event) => setPlace(Number(event.target.value))}>
    ${requests.map(([name], index) => html`<option value=${index}>${name}</option>`)}</select>`}</${Field}>`}<${Snippets} request=${requests[place][1]} /></div>`;
}

export function Snippets({ request }) {
  const [language, setLanguage] = useState('curl');
  const asked = { ...request, signedIn: session.required };
  const text = language === 'curl' ? asCurl(asked) : asPython(asked);
  return html`<div class="snippets"><div class="row"><${Segmented} label="Language" value=${language} options=${[['curl', 'curl'], ['python', 'Python']]} onChange=${setLanguage} /><${Copy} text=${text} /></div>
    <pre tabindex="0"><code>${text}</code></pre></div>`;
}

export function Segmented({ label, value, options, onChange }) {
  return html`<div class="segmented" role="group" aria-label=${label}>${options.map(([name, text]) =>
    html`<button type="button" aria-pressed=${name === value ? 'true' : 'false'} onClick=${() => onChange(name)}>${text}</button>`)}</div>`;
}

export function Tabs({ label, value, options, link }) {
  return html`<nav class="tabs" aria-label=${label}>${options.map(([name, text]) =>
    html`<a href=${link(name)} aria-current=${name === value ? 'page' : null}>${text}</a>`)}</nav>`;
}

let numbered = 0;

export function Field({ label, hint, error, children, inline }) {
  const id = useRef(null);
  id.current ||= `field-${++numbered}`;
  const described = [hint && `${id.current}-hint`, error && `${id.current}-error`].filter(Boolean).join(' ') || null;
  return html`<div class=${`field${inline ? ' inline' : ''}${error ? ' wrong' : ''}`}>
    <label for=${id.current}>${label}</label>
    ${children({ id: id.current, 'aria-describedby': described, 'aria-invalid': error ? 'true' : null })}
    ${hint && html`<p class="hint" id=${`${id.current}-hint`}>${hint}</p>`}
    ${error && html`<p class="hint bad" id=${`${id.current}-error`}>${error}</p>`}
  </div>`;
}

// Texts of the API are Markdown with no more than code spans.
export const withCode = (text) => text?.split('`').map((part, place) => (place % 2 ? html`<code>${part}</code>` : part));

export function Labels({ labels }) {
  const pairs = Object.entries(labels || {});
  return pairs.length ? html`<span class="labels">${pairs.map(([name, value]) => html`<span class="label" title=${`${name}=${value}`}><bdi>${name}</bdi>=<bdi>${value}</bdi></span>`)}</span>` : null;
}

// `request`: what saying yes sends, to be done by a program instead.
export function Confirm({ title, text, action, danger, request, onYes, onClose }) {
  const [state, setState] = useState({ busy: false, error: null });
  const yes = async () => {
    setState({ busy: true, error: null });
    try { await onYes(); onClose(); } catch (error) { setState({ busy: false, error }); }
  };
  return html`<${Dialog} title=${title} onClose=${onClose}><div class="stack tight"><p>${text}</p><${ErrorBox} error=${state.error} />
    ${request && html`<details><summary>The same as a request</summary><${Snippets} request=${request} /></details>`}</div>
    <div class="actions end"><button type="button" class="ghost" onClick=${onClose}>Back</button>
    <button type="button" class=${danger ? 'danger' : 'primary'} disabled=${state.busy} onClick=${yes}>${action}</button></div></${Dialog}>`;
}

// Says aloud what changed without moving the focus.
export function Announce({ text }) {
  return html`<p class="offscreen" role="status" aria-live="polite">${text}</p>`;
}
