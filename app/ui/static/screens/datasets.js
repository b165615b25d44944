// All datasets, and the place to drop new ones.
import { html, useRef, useState } from '../html.js';
import { usePages } from '../data.js';
import { bytes, number, percent } from '../format.js';
import { Announce, Bar, Card, Code, Empty, ErrorBox, Labels, Loading, Page, Pager, Status, Table, When } from '../parts.js';
import { go, href } from '../router.js';
import { can } from '../session.js';
import { kindOf, SUFFIXES, uploadFile, uploadSample } from '../upload.js';
import { Choice, Typed } from './jobs.js';

export function Datasets({ route }) {
  const filters = { status: route.query.get('status'), name: route.query.get('name'), task: route.query.get('task') };
  const page = usePages('v1/datasets', filters, route.query.get('cursor'));
  const rows = page.data?.data || [];
  const filtered = Object.values(filters).some(Boolean);
  const change = (changes) => go('datasets', { ...Object.fromEntries(route.query), cursor: '', back: '', ...changes });
  return html`<${Page} title="Datasets" lead="Tables as they are: CSV, TSV, Parquet, Arrow, ndjson, libsvm or npz, compressed or not." actions=${html`<${Code} request=${{ path: 'v1/datasets', query: filters }} />`}>
    ${can('write') && html`<${Upload} isEmpty=${page.data && rows.length === 0 && !filtered} />`}
    <form class="filters" role="search" aria-label="Filter datasets" onSubmit=${(event) => event.preventDefault()}>
      <${Choice} label="Status" value=${filters.status} options=${['ready', 'processing', 'invalid']} onChange=${(status) => change({ status })} />
      <${Choice} label="Labels suggest" value=${filters.task} options=${['binary', 'multiclass', 'regression']} onChange=${(task) => change({ task })} />
      <${Typed} label="Name" value=${filters.name} placeholder="exact name" onChange=${(name) => change({ name })} />
      ${filtered && html`<button type="button" class="ghost" onClick=${() => go('datasets')}>Clear</button>`}
    </form>
    <${ErrorBox} error=${page.error} retry=${page.reload} />
    <${Card} flush>
      ${page.loading && !page.data ? html`<${Loading} lines=${6} />` : rows.length === 0
        ? html`<${Empty} title=${filtered ? 'No dataset matches' : 'No dataset yet'}>${filtered ? 'Change or clear the filters.' : 'What you upload appears here, with what was understood of its columns.'}</${Empty}>`
        : html`<${Table} caption="Datasets" busy=${page.loading} link=${(one) => href(['datasets', one.id])} rowKey=${(one) => one.id} rows=${rows} columns=${[
          { head: 'Name', cell: (one) => html`<a href=${href(['datasets', one.id])}><bdi class="clip">${one.name || one.id}</bdi></a>` },
          { head: 'Status', cell: (one) => html`<${Status} status=${one.status} />` },
          { head: 'Rows', num: true, cell: (one) => number(one.n_rows) },
          { head: 'Features', num: true, cell: (one) => number(one.n_features) },
          { head: 'Task', minor: true, cell: (one) => one.task_hint || '–' },
          { head: 'Size', num: true, minor: true, cell: (one) => bytes(one.bytes) },
          { head: 'Labels', minor: true, cell: (one) => html`<${Labels} labels=${one.labels} />` },
          { head: 'Uploaded', minor: true, cell: (one) => html`<${When} at=${one.created_at} />` },
        ]} />`}
      <${Pager} page=${page.data} route=${route} busy=${page.loading} />
    </${Card}>
  </${Page}>`;
}

function Upload({ isEmpty }) {
  const input = useRef(null);
  const abort = useRef(null);
  const [over, setOver] = useState(false);
  const [state, setState] = useState(null);
  const send = async (file) => {
    if (!file) return;
    abort.current = new AbortController();
    setState({ file, sent: 0, busy: true, error: null });
    try {
      const dataset = await uploadFile(file, { signal: abort.current.signal, onProgress: (sent) => setState((before) => ({ ...before, sent })) });
      go(['datasets', dataset.id]);
    } catch (error) {
      setState(error.name === 'AbortError' ? null : { file, sent: 0, busy: false, error });
    }
  };
  const sample = async () => {
    setState({ busy: true, error: null, file: { name: 'ionosphere.csv', size: 1 }, sent: 0 });
    try { go(['datasets', (await uploadSample()).id]); } catch (error) { setState({ busy: false, error }); }
  };
  const drop = (event) => { event.preventDefault(); setOver(false); send(event.dataTransfer.files[0]); };
  return html`<div class=${`drop${over ? ' over' : ''}`} onDragOver=${(event) => { event.preventDefault(); setOver(true); }} onDragLeave=${() => setOver(false)} onDrop=${drop}>
    ${state?.busy ? html`<strong><bdi>${state.file.name}</bdi></strong><div class="upload-bar"><${Bar} value=${state.sent / state.file.size} label="Upload" /></div>
        <span class="muted">${state.sent < state.file.size ? `${bytes(state.sent)} of ${bytes(state.file.size)}` : 'The file is being read …'}</span>
        <button type="button" class="ghost small" onClick=${() => abort.current?.abort()}>Stop</button>
        <${Announce} text=${`Uploading, ${percent(Math.floor((10 * state.sent) / state.file.size) / 10, 0)}`} />`
      : html`<strong>Drop a file here</strong>
        <span class="muted">or choose one. A large file goes on where a broken connection left it.</span>
        <div class="actions">
          <button type="button" class="primary" onClick=${() => input.current.click()}>Choose a file</button>
          ${isEmpty !== false && html`<button type="button" class="ghost" onClick=${sample}>Load the sample data set</button>`}
          <${Code} request=${{ method: 'POST', path: 'v1/datasets', query: { name: 'rows' }, file: 'rows.csv', type: 'text/csv' }} />
        </div>
        <input ref=${input} type="file" class="offscreen" aria-label="File to upload" tabindex="-1" accept=${[...SUFFIXES, 'gz', 'zst'].map((one) => `.${one}`).join(',')}
          onChange=${(event) => { send(event.target.files[0]); event.target.value = ''; }} />`}
    ${state?.error && html`<${ErrorBox} error=${state.error} retry=${state.file && kindOf(state.file.name) && state.file instanceof Blob ? () => send(state.file) : null} />`}
  </div>`;
}
