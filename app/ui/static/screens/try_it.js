// A prediction by hand: a form from the model's columns, what each column adds, and whether the optimum would say the same.
import { html, useEffect, useMemo, useState } from '../html.js';
import { get, post } from '../api.js';
import { Bars, DataTable } from '../chart.js';
import { useResource, useSettled } from '../data.js';
import { number, percent } from '../format.js';
import { Announce, Card, Code, Empty, ErrorBox, Field, Loading, Page, Stat } from '../parts.js';
import { go, href } from '../router.js';

const SHOWN = 60;

export function TryIt({ route }) {
  const ref = route.query.get('model');
  const models = useResource('v1/models', { limit: 100 });
  const chosen = ref || (models.data?.data[0] ? `${models.data.data[0].name}:${models.data.data[0].version}` : null);
  const options = useMemo(() => [...new Set([...(ref ? [ref] : []), ...(models.data?.data || []).map((one) => `${one.name}:${one.version}`)])], [models.data, ref]);
  return html`<${Page} title="Try it" lead="Fill in a row; the answer follows as you type.">
    <${ErrorBox} error=${models.error} retry=${models.reload} />
    ${models.data && !chosen ? html`<${Card}><${Empty} title="There is no model to ask" actions=${html`<a class="button primary" href=${href(['jobs', 'new'])}>Train one</a>`}>Train a model first; then its columns become a form here.</${Empty}></${Card}>`
      : html`<div class="filters"><${Field} label="Model">${(input) => html`<select ...${input} value=${chosen || ''} onChange=${(event) => go('try', { model: event.target.value })}>${options.map((one) => html`<option value=${one}>${one}</option>`)}</select>`}</${Field}></div>
      ${chosen && html`<${Form} key=${chosen} reference=${chosen} />`}`}
  </${Page}>`;
}

// The model's columns: of its preprocessing, or the names of its features.
async function describe(reference) {
  const model = await get(`v1/models/${encodeURIComponent(reference)}`);
  if (model.preprocess?.columns) return { model, columns: model.preprocess.columns.map((one) => ({ name: one.name, kind: one.kind })) };
  if (model.n_features > 20_000) return { model, columns: [] };
  const weights = await get(`v1/models/${model.id}/weights`);
  const names = weights.feature_names || [];
  return { model, columns: names.map((name) => ({ name, kind: 'numeric' })), count: model.n_features };
}

// A real row to start from; models without their dataset start empty.
async function sampleRows(model) {
  if (!model.lineage.dataset_id) return [];
  try {
    const preview = await get(`v1/datasets/${model.lineage.dataset_id}/preview`, { rows: 50 });
    return preview.data.map((row) => ({ label: row.label, values: Object.fromEntries((preview.columns || []).map((name, place) => [name, row.values[row.indices ? row.indices.indexOf(place) : place]])) }));
  } catch { return []; }
}

function Form({ reference }) {
  const [about, setAbout] = useState(null);
  const [error, setError] = useState(null);
  const [samples, setSamples] = useState([]);
  const [sample, setSample] = useState(0);
  const [values, setValues] = useState({});
  const [answer, setAnswer] = useState({ data: null, error: null });
  const [find, setFind] = useState('');
  useEffect(() => {
    let stopped = false;
    describe(reference).then(async (found) => {
      if (stopped) return;
      setAbout(found);
      const rows = await sampleRows(found.model);
      if (stopped) return;
      setSamples(rows);
      if (rows.length) setValues(textOf(rows[0].values));
    }, setError);
    return () => { stopped = true; };
  }, [reference]);

  const row = useMemo(() => (about ? rowOf(about, values) : null), [about, values]);
  const asked = useSettled(row, 200);
  const outputs = useMemo(() => (about ? wanted(about.model) : []), [about]);
  useEffect(() => {
    if (!asked) return undefined;
    let stopped = false;
    post(`v1/models/${encodeURIComponent(reference)}/predict`, { instances: [asked], return: outputs }).then(
      (data) => { if (!stopped) setAnswer({ data, error: null }); }, (problem) => { if (!stopped) setAnswer({ data: null, error: problem }); });
    return () => { stopped = true; };
  }, [asked, outputs, reference]);

  if (error) return html`<${ErrorBox} error=${error} />`;
  if (!about) return html`<${Card}><${Loading} lines=${8} /></${Card}>`;
  const { columns } = about;
  const shown = columns.filter((one) => one.name.toLowerCase().includes(find.toLowerCase())).slice(0, SHOWN);
  const next = () => { const place = (sample + 1) % samples.length; setSample(place); setValues(textOf(samples[place].values)); };
  const wrong = answer.error?.errors?.[0];
  return html`<div class="with-side try">
    <${Card} title="The row" note=${samples.length ? html`row ${sample} of the training data, labelled <bdi>${String(samples[sample].label)}</bdi>` : null} actions=${html`${samples.length > 1 && html`<button type="button" class="ghost" onClick=${next}>Another row</button>`}<button type="button" class="ghost" onClick=${() => setValues({})}>Clear</button>`}>
      ${columns.length > 24 && html`<p><input class="find" type="search" aria-label="Find a column" placeholder="Find a column" value=${find} onInput=${(event) => setFind(event.target.value)} /></p>`}
      ${columns.length === 0 ? html`<${Numbered} values=${values} onChange=${setValues} />` : html`<div class="form compact">${shown.map((one) => html`<${Field} key=${one.name} label=${html`<bdi class="clip" title=${one.name}>${one.name}</bdi>`}
          error=${wrong?.column === one.name || wrong?.field?.endsWith(`.${one.name}`) ? wrong.detail : null}>${(input) => html`<${Cell} column=${one} input=${input} value=${values[one.name] ?? ''} set=${(value) => setValues({ ...values, [one.name]: value })} />`}</${Field}>`)}</div>`}
      ${columns.length > shown.length && html`<p class="fine">${shown.length} of ${number(columns.length)} columns are shown; find others by name.</p>`}
    </${Card}>
    <div class="stack sticky"><${Card} title="The answer" actions=${html`<${Code} request=${{ method: 'POST', path: `v1/models/${reference}/predict`, body: { instances: [row], return: outputs } }} />`}>
      <${ErrorBox} error=${answer.error} />${!answer.data && !answer.error && html`<${Loading} lines=${6} />`}${answer.data && html`<${Answer} answer=${answer.data} model=${about.model} />`}</${Card}></div>
  </div>`;
}

function Cell({ column, input, value, set }) {
  if (column.kind === 'boolean') return html`<select ...${input} value=${String(value)} onChange=${(event) => set(event.target.value)}><option value="">missing</option><option value="true">true</option><option value="false">false</option></select>`;
  return html`<input ...${input} type="text" inputmode=${column.kind === 'numeric' ? 'decimal' : null} placeholder=${column.kind === 'numeric' ? 'missing' : column.kind} value=${value} onInput=${(event) => set(event.target.value)} />`;
}

function Numbered({ values, onChange }) {
  return html`<${Field} label="Features that are not zero" hint="number:value pairs from 0, like 0:1 4:0.5">${(input) => html`<textarea ...${input} value=${values['#'] ?? ''} onInput=${(event) => onChange({ '#': event.target.value })}></textarea>`}</${Field}>`;
}

function Answer({ answer, model }) {
  const one = answer.predictions[0];
  const contributions = named(one.contributions).filter(([, value]) => value !== 0).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
  return html`<div class="stack">
    <dl class="stats"><${Stat} label=${model.task === 'regression' ? 'Prediction' : 'Label'} value=${html`<bdi>${typeof one.label === 'number' ? number(one.label, 6) : String(one.label ?? '–')}</bdi>`} />
      <${Stat} label="Score" value=${number(one.score, 5)} note=${Number.isFinite(one.score_error_bound) ? `± ${number(one.score_error_bound, 2)} of the optimum's` : null} />
      ${Number.isFinite(one.probability) && html`<${Stat} label="Probability" value=${percent(one.probability)} note=${model.task === 'binary' ? html`of <bdi>${String(model.classes[1])}</bdi>` : 'of the label'} />`}</dl>
    ${one.label_certain === true && html`<div class="notice good-notice"><strong>Certain.</strong> The exact optimum gives the same label.</div>`}
    ${one.label_certain === false && html`<div class="notice warning"><strong>Not certain.</strong> Nearer to the boundary than the certificate can tell. Train to a smaller tol to decide it.</div>`}
    ${contributions.length > 0 && html`<div class="stack tight"><h3>${one.base_score === undefined ? 'What each column adds to the score' : 'What each column adds to the score of an average row'}</h3><${Bars} caption="Contributions to the score" rows=${[...contributions.slice(0, 15).map(([name, value]) => ({ name, value })), ...(one.intercept ? [{ name: baseName(one), value: one.intercept }] : [])]} />
      <${DataTable} caption="contributions" table=${{ columns: ['column', 'contribution'], rows: () => [...contributions, [baseName(one), one.intercept]] }} /></div>`}
    ${answer.warnings?.map((warning) => html`<div class="notice warning"><code>${warning.code}</code> <bdi>${warning.detail}</bdi></div>`)}
    <p class="fine">answered by ${answer.name}:${answer.version}</p>
    <${Announce} text=${`Label ${one.label}, score ${number(one.score, 3)}`} />
  </div>`;
}

const baseName = (one) => (one.base_score === undefined ? '(intercept)' : '(average row)');

// By name; of a model whose features have none, by number.
function named(contributions) {
  if (contributions?.indices) return contributions.indices.map((index, place) => [`#${index}`, contributions.values[place]]);
  if (Array.isArray(contributions)) return contributions.map((value, index) => [`#${index}`, value]);
  return Object.entries(contributions || {});
}

function wanted(model) {
  const outputs = ['score', 'contributions', 'score_error_bound'];
  if (model.task !== 'ordinal' || model.classes.length) outputs.unshift('label');
  if (['binary', 'multiclass'].includes(model.task)) outputs.push('label_certain');
  if (model.calibration) outputs.push('probability');
  return outputs;
}

const textOf = (values) => Object.fromEntries(Object.entries(values).map(([name, value]) => [name, value === null || value === undefined ? '' : String(value)]));

function rowOf({ columns }, values) {
  if (!columns.length) {
    const pairs = (values['#'] || '').split(/[\s,]+/).map((pair) => pair.split(':').map(Number)).filter(([index, value]) => Number.isInteger(index) && Number.isFinite(value)).sort((a, b) => a[0] - b[0]);
    return { indices: pairs.map(([index]) => index), values: pairs.map(([, value]) => value) };
  }
  const row = {};
  for (const { name, kind } of columns) {
    const text = (values[name] ?? '').trim();
    if (kind === 'numeric') row[name] = text === '' ? null : Number.isFinite(Number(text)) ? Number(text) : text;
    else if (kind === 'boolean') row[name] = text === '' ? null : text === 'true';
    else row[name] = text === '' ? null : text;
  }
  return row;
}
