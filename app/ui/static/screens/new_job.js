// A training job from the API's own description, judged while it is typed: seconds, memory and every mistake.
import { html, useEffect, useState } from '../html.js';
import { get, post } from '../api.js';
import { useResource, useSettled } from '../data.js';
import { bytes, plural, seconds } from '../format.js';
import { Announce, Card, Empty, ErrorBox, Field, Loading, Page, Snippets, Stat } from '../parts.js';
import { go, href } from '../router.js';
import { resolve, SchemaForm } from '../schema_form.js';
import { asPreprocess, columnEdits } from './columns.js';
import { asRequest } from './job.js';

const FIRST = ['model', 'task', 'loss', 'C', 'tol', 'calibrate', 'class_weight'];
const HIDDEN = ['type', 'dataset_id', 'webhook'];

export function NewJob({ route }) {
  const document = useResource('openapi.json');
  const datasets = useResource('v1/datasets', { status: 'ready', limit: 200 });
  const solvers = useResource('v1/solvers');
  const [value, setValue] = useState(null);
  const [state, setState] = useState({ busy: false, error: null });
  const from = route.query.get('from');
  const chosen = route.query.get('dataset');

  useEffect(() => {
    if (from) get(`v1/jobs/${encodeURIComponent(from)}`).then((job) => setValue(asRequest(job)), (error) => { setState({ busy: false, error }); setValue({}); });
  }, [from]);
  useEffect(() => {  // a dataset that is named, or else the newest
    if (from || value || !(chosen || datasets.data)) return;
    const dataset = chosen || datasets.data?.data[0]?.id;
    const columns = dataset ? asPreprocess(columnEdits(dataset)) : {};
    setValue({ ...(dataset ? { dataset_id: dataset } : {}), split: { test: 0.2 }, ...(Object.keys(columns).length ? { preprocess: { columns } } : {}) });
  }, [chosen, datasets.data, from]);

  const asked = useSettled(value);
  const [judged, setJudged] = useState({ data: null, error: null });
  useEffect(() => {
    if (!asked?.dataset_id) return undefined;
    let stopped = false;
    post('v1/jobs', asked, { query: { validate_only: true } }).then(
      (data) => { if (!stopped) setJudged({ data, error: null }); },
      (error) => { if (!stopped) setJudged({ data: null, error }); });
    return () => { stopped = true; };
  }, [asked]);

  const crumbs = [['Jobs', href('jobs')]];
  const problem = document.error || datasets.error;
  if (problem) return html`<${Page} title="New job" crumbs=${crumbs}><${ErrorBox} error=${problem} retry=${document.reload} /></${Page}>`;
  if (!document.data || !datasets.data || !value) return html`<${Page} title="New job" crumbs=${crumbs}><${Card}><${Loading} lines=${8} /></${Card}></${Page}>`;
  if (datasets.data.data.length === 0 && !value.dataset_id) {
    return html`<${Page} title="New job" crumbs=${crumbs}><${Card}><${Empty} title="There is nothing to train on yet" actions=${html`<a class="button primary" href=${href('datasets')}>Go to the datasets</a>`}>Upload a table, or load the sample data set there.</${Empty}></${Card}></${Page}>`;
  }
  const components = document.data.components.schemas;
  const schema = resolve(components.TrainRequest, components);
  const errors = [...(judged.data?.errors || []), ...(judged.error?.errors || []), ...(state.error?.errors || [])];
  const known = datasets.data.data;
  const special = { solver: ({ value: one, set, input }) => html`<select ...${input} value=${one || ''} onChange=${(event) => set(event.target.value || undefined)}><option value="">default: auto</option>${solvers.data?.data.map((solver) => html`<option value=${solver.name}>${solver.name}</option>`)}</select>` };
  const rest = Object.keys(schema.properties).filter((name) => !FIRST.includes(name) && !HIDDEN.includes(name) && name !== 'split');
  const send = async (event) => {
    event.preventDefault();
    setState({ busy: true, error: null });
    try { go(['jobs', (await post('v1/jobs', value)).id]); } catch (error) { setState({ busy: false, error }); }
  };
  const estimate = judged.data?.estimate;
  const isWrong = judged.error || (judged.data && !judged.data.valid);
  return html`<${Page} title="New training job" crumbs=${crumbs} lead="Everything has a default. What you leave out is chosen by the data, and the result says why.">
    <form class="with-side" onSubmit=${send}>
      <div class="stack">
        <${Card} title="Data"><div class="form">
          <${Field} label="Dataset" error=${errors.find((one) => one.field === 'dataset_id')?.detail}>${(input) => html`<select ...${input} value=${value.dataset_id || ''} onChange=${(event) => setValue({ ...value, dataset_id: event.target.value })}>
            ${!known.some((one) => one.id === value.dataset_id) && html`<option value=${value.dataset_id || ''}>${value.dataset_id || 'choose one'}</option>`}
            ${known.map((one) => html`<option value=${one.id}>${one.name || one.id} · ${plural(one.n_rows, 'row')}</option>`)}</select>`}</${Field}>
          <${Split} value=${value.split} datasets=${known.filter((one) => one.id !== value.dataset_id)} onChange=${(split) => setValue({ ...value, split })} errors=${errors} />
        </div></${Card}>
        <${Card} title="Model"><${SchemaForm} schema=${schema} components=${components} value=${value} onChange=${setValue} errors=${errors} only=${FIRST} /></${Card}>
        <${Card}><details open=${rest.some((name) => value[name] !== undefined)}><summary>Everything else: solver, limits, preprocessing, folds</summary>
          <${SchemaForm} schema=${schema} components=${components} value=${value} onChange=${setValue} errors=${errors} only=${rest} special=${special} /></details></${Card}>
      </div>
      <div class="stack sticky">
        <${Card} title="Before it runs">
          <div class="stack tight" aria-live="polite">
            ${!judged.data && !judged.error && html`<p class="muted">Checking …</p>`}
            ${judged.data?.valid && html`<div class="notice good-notice">The job is valid.</div>`}
            ${estimate && html`<dl class="stats"><${Stat} label="About" value=${seconds(estimate.seconds)} note="on an idle machine" /><${Stat} label="Memory" value=${bytes(estimate.peak_bytes)} note="at its peak" /></dl>`}
            ${judged.data?.errors.map((one) => html`<div class="notice error-notice"><span><code>${one.field}</code></span><bdi>${one.detail}</bdi></div>`)}
            <${ErrorBox} error=${judged.error || state.error} />
          </div>
          <div class="actions end"><button class="primary" disabled=${state.busy || isWrong || !value.dataset_id}>Start training</button></div>
          <${Announce} text=${isWrong ? 'The job is not valid.' : ''} />
        </${Card}>
        <${Card} title="The request"><${Snippets} request=${{ method: 'POST', path: 'v1/jobs', body: value }} /></${Card}>
      </div>
    </form>
  </${Page}>`;
}

function Split({ value, datasets, onChange, errors }) {
  const kind = !value ? 'none' : value.test_dataset_id !== undefined ? 'dataset' : value.fold_column ? 'folds' : 'share';
  const error = errors.find((one) => one.field?.startsWith('split'))?.detail;
  const choose = (next) => onChange(next === 'none' ? null : next === 'dataset' ? { test_dataset_id: datasets[0]?.id || '' } : next === 'folds' ? { fold_column: 'fold' } : { test: 0.2 });
  return html`<${Field} label="Test on" error=${error}>${(input) => html`<select ...${input} value=${kind} onChange=${(event) => choose(event.target.value)}>
      <option value="share">a share of the rows</option><option value="dataset">another dataset</option><option value="folds">folds that a column names</option><option value="none">nothing: training figures only</option></select>`}</${Field}>
    ${kind === 'share' && html`<${Field} label=${`Share: ${Math.round(100 * (value.test ?? 0.2))} %`} hint="held out, of each class">${(input) => html`<input ...${input} type="range" min="0.05" max="0.5" step="0.05" value=${value.test ?? 0.2} onInput=${(event) => onChange({ ...value, test: Number(event.target.value) })} />`}</${Field}>`}
    ${kind === 'dataset' && html`<${Field} label="Test dataset">${(input) => html`<select ...${input} value=${value.test_dataset_id} onChange=${(event) => onChange({ test_dataset_id: event.target.value })}>${datasets.map((one) => html`<option value=${one.id}>${one.name || one.id}</option>`)}</select>`}</${Field}>`}
    ${kind === 'folds' && html`<${Field} label="Fold column" hint="the column that the upload named as its group">${(input) => html`<input ...${input} type="text" value=${value.fold_column} onInput=${(event) => onChange({ fold_column: event.target.value || 'fold' })} />`}</${Field}>`}`;
}
