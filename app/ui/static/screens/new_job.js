// A training job from the API's own description, judged while it is typed: seconds, memory and every mistake.
import { html, useEffect, useState } from '../html.js';
import { get, post } from '../api.js';
import { useResource, useSettled } from '../data.js';
import { bytes, plural, seconds } from '../format.js';
import { Announce, Card, Empty, ErrorBox, Field, Loading, Page, Segmented, Snippets, Stat } from '../parts.js';
import { go, href } from '../router.js';
import { resolve, SchemaForm } from '../schema_form.js';
import { asPreprocess, columnEdits } from './columns.js';
import { asRequest, asTraining } from './job_data.js';

// The types that this form can make, with the names of their schemas and the fields that come first.
const TYPES = {
  train: { text: 'Train', schema: 'TrainRequest', title: 'New training job', action: 'Start training', lead: 'Everything has a default. What you leave out is chosen by the data, and the result says why.',
    first: ['model', 'task', 'loss', 'C', 'tol', 'calibrate', 'class_weight'] },
  tune: { text: 'Tune', schema: 'TuneRequest', title: 'New search', action: 'Start the search', lead: 'Searches C, and every combination of the values you name, by cross-validation. On request it proves that no C of the range is better.',
    first: ['model', 'task', 'C', 'certify', 'loss', 'metric', 'cross_validation', 'rule'] },
  race: { text: 'Race', schema: 'RaceRequest', title: 'New race', action: 'Start the race', lead: 'Several solvers solve the same problem. The first to reach tol wins; all curves are kept.',
    first: ['model', 'solvers', 'task', 'loss', 'C', 'tol'] },
};
const HIDDEN = ['type', 'dataset_id', 'webhook'];

// Another address is another form.
export function NewJob({ route }) {
  return html`<${JobForm} key=${route.query.toString()} route=${route} />`;
}

function JobForm({ route }) {
  const document = useResource('openapi.json');
  const datasets = useResource('v1/datasets', { status: 'ready', limit: 200 });
  const solvers = useResource('v1/solvers');
  const [value, setValue] = useState(null);
  const [state, setState] = useState({ busy: false, error: null });
  const from = route.query.get('from');
  const chosen = route.query.get('dataset');
  const cost = Number(route.query.get('C')) || null;

  useEffect(() => {
    if (from) get(`v1/jobs/${encodeURIComponent(from)}`).then((job) => setValue(cost ? asTraining(job, cost, route.query.get('variant')) : asRequest(job)), (error) => { setState({ busy: false, error }); setValue({}); });
  }, [from]);
  useEffect(() => {  // a dataset that is named, or else the newest
    if (from || value || !(chosen || datasets.data)) return;
    const dataset = chosen || datasets.data?.data[0]?.id;
    const columns = dataset ? asPreprocess(columnEdits(dataset)) : {};
    const type = route.query.get('type');
    setValue({ ...(TYPES[type] && type !== 'train' ? { type, ...(type === 'race' ? { solvers: ['auto', 'dcd'] } : {}) } : {}), ...(dataset ? { dataset_id: dataset } : {}), split: { test: 0.2 }, ...(Object.keys(columns).length ? { preprocess: { columns } } : {}) });
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
  const kind = TYPES[value.type] && components[TYPES[value.type].schema] ? value.type : 'train';
  const about = TYPES[kind];
  const schema = resolve(components[about.schema], components);
  const offered = Object.entries(TYPES).filter(([, one]) => components[one.schema]).map(([name, one]) => [name, one.text]);
  const turn = (name) => {  // what both types know is kept
    const next = resolve(components[TYPES[name].schema], components).properties;
    const { type: _, C: __, ...kept } = Object.fromEntries(Object.entries(value).filter(([field, one]) => next[field] && !Array.isArray(one)));
    setValue({ ...(name === 'train' ? {} : { type: name }), ...(name === 'race' ? { solvers: ['auto', 'dcd'] } : {}), ...kept });
    setJudged({ data: null, error: null });
  };
  const errors = [...(judged.data?.errors || []), ...(judged.error?.errors || []), ...(state.error?.errors || [])];
  const known = datasets.data.data;
  const special = {
    ...(kind === 'tune' ? { C: (one) => html`<${Costs} ...${one} />`, certify: (one) => html`<${Proof} ...${one} />` } : {}),
    solvers: ({ value: one = [], set, input }) => html`<div class="checks" role="group" id=${input.id}>${['auto', ...(solvers.data?.data || []).map((solver) => solver.name)].map((solver) => html`<label class="check"><input type="checkbox" checked=${one.includes(solver)}
      onChange=${() => set(one.includes(solver) ? one.filter((name) => name !== solver) : [...one, solver])} /> ${solver}</label>`)}</div>`,
    class_weight: kind === 'tune' ? undefined : (one) => html`<${ClassWeight} ...${one} />`,
    solver: ({ value: one, set, input }) => html`<select ...${input} value=${one || ''} onChange=${(event) => set(event.target.value || undefined)}><option value="">default: auto</option>${solvers.data?.data.map((solver) => html`<option value=${solver.name}>${solver.name}</option>`)}</select>` };
  const first = about.first.filter((name) => schema.properties[name]);
  const rest = Object.keys(schema.properties).filter((name) => !first.includes(name) && !HIDDEN.includes(name) && name !== 'split');
  const send = async (event) => {
    event.preventDefault();
    setState({ busy: true, error: null });
    try { go(['jobs', (await post('v1/jobs', value)).id]); } catch (error) { setState({ busy: false, error }); }
  };
  const estimate = judged.data?.estimate;
  const isWrong = judged.error || (judged.data && !judged.data.valid);
  return html`<${Page} title=${about.title} crumbs=${crumbs} lead=${about.lead} actions=${offered.length > 1 && html`<${Segmented} label="Type of job" value=${kind} options=${offered} onChange=${turn} />`}>
    <form class="with-side" onSubmit=${send}>
      <div class="stack">
        <${Card} title="Data"><div class="form">
          <${Field} label="Dataset" error=${errors.find((one) => one.field === 'dataset_id')?.detail}>${(input) => html`<select ...${input} value=${value.dataset_id || ''} onChange=${(event) => setValue({ ...value, dataset_id: event.target.value })}>
            ${!known.some((one) => one.id === value.dataset_id) && html`<option value=${value.dataset_id || ''}>${value.dataset_id || 'choose one'}</option>`}
            ${known.map((one) => html`<option value=${one.id}>${one.name || one.id} · ${plural(one.n_rows, 'row')}</option>`)}</select>`}</${Field}>
          ${schema.properties.split && html`<${Split} value=${value.split} datasets=${known.filter((one) => one.id !== value.dataset_id)} onChange=${(split) => setValue({ ...value, split })} errors=${errors} />`}
        </div></${Card}>
        <${Card} title="Model"><${SchemaForm} key=${kind} schema=${schema} components=${components} value=${value} onChange=${setValue} errors=${errors} only=${first} special=${special} /></${Card}>
        <${Card}><details open=${rest.some((name) => value[name] !== undefined)}><summary>Everything else: solver, limits, preprocessing, folds</summary>
          <${SchemaForm} key=${kind} schema=${schema} components=${components} value=${value} onChange=${setValue} errors=${errors} only=${rest} special=${special} /></details></${Card}>
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
          <div class="actions end"><button class="primary" disabled=${state.busy || isWrong || !value.dataset_id}>${about.action}</button></div>
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

// Values of C of a search: chosen by the data, a range, or a list.
function Costs({ value, set, input }) {
  const kind = Array.isArray(value) ? 'list' : value && typeof value === 'object' ? 'range' : 'auto';
  const [text, setText] = useState(Array.isArray(value) ? value.join(', ') : '0.01, 0.1, 1, 10, 100');
  const listed = (next) => { setText(next); set(next.split(',').map(Number).filter((one) => one > 0)); };
  const choose = (next) => (next === 'auto' ? set(undefined) : next === 'range' ? set({ min: 0.001, max: 1000 }) : listed(text));
  const end = (name, label) => html`<input type="number" step="any" min="0" aria-label=${label} value=${value[name]} onInput=${(event) => Number(event.target.value) > 0 && set({ ...value, [name]: Number(event.target.value) })} />`;
  return html`<div class="stack tight"><select ...${input} value=${kind} onChange=${(event) => choose(event.target.value)}><option value="auto">auto: a range that suits the data</option><option value="range">a range</option><option value="list">a list of values</option></select>
    ${kind === 'range' && html`<div class="row">${end('min', 'Smallest C')}<span class="muted">to</span>${end('max', 'Largest C')}</div>`}
    ${kind === 'list' && html`<input type="text" inputmode="decimal" aria-label="Values of C" value=${text} onInput=${(event) => listed(event.target.value)} />`}</div>`;
}

// Factors of C: none, by the size of the classes, or a table.
function ClassWeight({ value, set, input }) {
  const kind = value && typeof value === 'object' ? 'table' : value || 'none';
  const [text, setText] = useState(kind === 'table' ? JSON.stringify(value) : '{"spam": 2}');
  const typed = (next) => { setText(next); try { set(JSON.parse(next)); } catch { /* it counts when it can be read */ } };
  const choose = (next) => (next === 'none' ? set(undefined) : next === 'balanced' ? set('balanced') : typed(text));
  return html`<div class="stack tight"><select ...${input} value=${kind} onChange=${(event) => choose(event.target.value)}><option value="none">default: none</option><option value="balanced">balanced: small classes count more</option><option value="table">a factor for each class</option></select>
    ${kind === 'table' && html`<input type="text" class="mono" aria-label="Factor of each class, as JSON" value=${text} onInput=${(event) => typed(event.target.value)} />`}</div>`;
}

// The proof of a search: none, one standard error, or a number in units of the metric.
function Proof({ value, set, input }) {
  const epsilon = value?.epsilon;
  const kind = !value ? 'none' : typeof epsilon === 'number' ? 'number' : '1se';
  const choose = (next) => set(next === 'none' ? undefined : { epsilon: next === '1se' ? '1se' : 0.01 });
  return html`<div class="stack tight"><select ...${input} value=${kind} onChange=${(event) => choose(event.target.value)}><option value="none">no proof: faster</option><option value="1se">up to one standard error</option><option value="number">up to an epsilon</option></select>
    ${kind === 'number' && html`<input type="number" step="any" min="0" aria-label="Epsilon to prove" value=${epsilon} onInput=${(event) => event.target.value !== '' && set({ epsilon: Number(event.target.value) })} />`}</div>`;
}
