// One version of a model: its certificate, what it is worth, what it learned, who serves it, where it came from.
import { html, useState } from '../html.js';
import { address, call, post } from '../api.js';
import { Bars, DataTable } from '../chart.js';
import { ChosenC } from '../cv_curve.js';
import { useResource } from '../data.js';
import { bytes, gap, moment, number, plural, seconds, shortId } from '../format.js';
import { Card, Code, Confirm, Dialog, Empty, ErrorBox, Loading, Page, Segmented, Stat, Table, Tabs, When } from '../parts.js';
import { go, href } from '../router.js';
import { can } from '../session.js';
import { Aliases } from './aliases.js';
import { Baseline } from './baseline.js';
import { Decision, MetricsTable, metricText, metricTitle, Notices } from './model_parts.js';
import { Calibration, Confusion, Curves } from './model_charts.js';

const TABS = [['report', 'Report'], ['weights', 'Weights'], ['aliases', 'Aliases'], ['lineage', 'Lineage']];
const EXPORTS = [['json', 'everything, every number exact'], ['npz', 'NumPy arrays'], ['safetensors', 'tensors with metadata'], ['onnx', 'for any ONNX runtime'], ['mlflow', 'a model folder for MLflow'],
  ['liblinear', "LIBLINEAR's predict"], ['sql', 'an expression over a table'], ['verifier', 'a program that checks the certificate without this service']];

export function Model({ route }) {
  const ref = route.parts[1];
  const path = `v1/models/${encodeURIComponent(ref)}`;
  const loaded = useResource(path);
  const model = loaded.data;
  const versions = useResource(model ? 'v1/models' : null, { name: model?.name, limit: 20 });
  const [dialog, setDialog] = useState(null);
  const [state, setState] = useState({ busy: false, error: null });
  const tab = route.query.get('tab') || 'report';
  const crumbs = [['Models', href('models')]];
  if (loaded.error) return html`<${Page} title="Model" crumbs=${crumbs}><${ErrorBox} error=${loaded.error} retry=${loaded.reload} /></${Page}>`;
  if (!model) return html`<${Page} title="Model" crumbs=${crumbs}><${Card}><${Loading} lines=${8} /></${Card}></${Page}>`;
  const exact = `${model.name}:${model.version}`;
  const verify = async () => {
    setState({ busy: true, error: null });
    try { go(['jobs', (await post(`v1/models/${model.id}/verify`, {})).id]); } catch (error) { setState({ busy: false, error }); }
  };
  const remove = async () => { await call('DELETE', `v1/models/${model.id}`); go('models'); };
  return html`<${Page} title=${exact} crumbs=${[...crumbs, [model.name, href('models', { name: model.name })]]}
    lead=${html`${model.task}${model.classes.length > 0 && html` of ${plural(model.classes.length, 'class', 'classes')}`} · ${model.solver} · trained <${When} at=${model.created_at} /> ${model.aliases.map((alias) => html` <span class="chip">@<bdi>${alias}</bdi></span>`)}`}
    actions=${html`<${Code} requests=${[['Read the model', { path: `v1/models/${exact}` }], ['List its versions', { path: 'v1/models', query: { name: model.name } }], ...(can('write') ? [['Verify its certificate', { method: 'POST', path: `v1/models/${exact}/verify`, body: {} }]] : [])]} />
      <a class="button ghost" href=${address(`v1/models/${model.id}/report`).href} download=${`${model.name}-${model.version}.html`}>Save report</a>
      <button type="button" class="ghost" onClick=${() => setDialog('export')}>Export</button>
      ${can('write') && model.certificate && !model.certificate.claimed && html`<button type="button" class="ghost" disabled=${state.busy} onClick=${verify}>Verify</button>`}
      ${can('write') && html`<button type="button" class="danger" onClick=${() => setDialog('delete')}>Delete</button>`}
      ${can('predict') && html`<a class="button primary" href=${href('try', { model: exact })}>Try it</a>`}`}>
    <${ErrorBox} error=${state.error} />
    <dl class="stats">
      <${Stat} label="Certified gap" value=${gap(model.certificate?.relative_gap)} note=${model.converged ? 'converged: at most tol' : 'not converged'} tone=${model.converged ? 'good' : ''} />
      ${model.headline && html`<${Stat} label=${`${metricTitle(model.headline.name)}, ${model.headline.rows}`} value=${metricText(model.headline.name, model.headline.value)} />`}
      <${Stat} label="Features" value=${number(model.n_features)} />
      <${Stat} label="Trained in" value=${seconds(model.training.seconds)} note=${model.training.passes !== undefined ? `${number(model.training.passes)} passes` : null} />
      <${Stat} label="Rows" value=${number(model.metrics.train?.rows ?? model.training.rows)} note=${model.metrics.test ? `${number(model.metrics.test.rows)} held out` : 'no test rows'} />
    </dl>
    <div class="with-side"><div class="stack">
      <${Tabs} label="Views of the model" value=${tab} options=${TABS} link=${(name) => href(['models', ref], { tab: name })} />
      ${tab === 'report' && html`<${Report} model=${model} versions=${versions.data?.data || []} />`}
      ${tab === 'weights' && html`<${Weights} model=${model} />`}
      ${tab === 'aliases' && html`<${Aliases} name=${model.name} versions=${versions.data?.data || []} version=${model.version} />`}
      ${tab === 'lineage' && html`<${Lineage} model=${model} />`}
    </div><div class="stack">
      <${Certificate} model=${model} />
      <${Card} flush title="Versions" note=${versions.data?.has_more ? 'the newest 20' : null} actions=${versions.data?.data.length > 1 && html`<a href=${href(['models', 'several', 'versions'], { refs: beside(versions.data.data, model).join(',') })}>Side by side</a>`}>
        ${versions.data ? html`<${Table} caption=${`Versions of ${model.name}`} rows=${versions.data.data} link=${(one) => href(['models', `${one.name}:${one.version}`])} columns=${[
          { head: 'Version', cell: (one) => html`<a href=${href(['models', `${one.name}:${one.version}`])} aria-current=${one.id === model.id ? 'true' : null}>${one.version}${one.id === model.id ? ' · this' : ''}</a>` },
          { head: 'Metric', num: true, cell: (one) => (one.headline ? metricText(one.headline.name, one.headline.value) : '–') },
          { head: 'Gap', num: true, cell: (one) => html`<span class="mono">${gap(one.relative_gap)}</span>` },
          { head: 'When', cell: (one) => html`<${When} at=${one.created_at} />` },
        ]} />` : html`<${Loading} />`}
      </${Card}>
    </div></div>
    ${dialog === 'export' && html`<${Dialog} title=${`Export ${exact}`} onClose=${() => setDialog(null)} wide><p class="muted">Each file's scores are compared with predict before it is sent.</p>
      <${Table} caption="Formats" rows=${EXPORTS} columns=${[{ head: 'Format', cell: ([name]) => html`<strong>${name}</strong>` }, { head: 'What it is', wide: true, cell: ([, text]) => text },
        { head: '', cell: ([name]) => html`<a class="button ghost small" download href=${address(`v1/models/${model.id}/export`, { format: name }).href}>Download</a>` },
        { head: '', cell: ([name]) => html`<${Code} label="API" request=${{ path: `v1/models/${exact}/export`, query: { format: name } }} />` }]} /></${Dialog}>`}
    ${dialog === 'delete' && html`<${Confirm} title=${`Delete ${exact}?`} text="It no longer answers. It can be restored until it is purged. A version that an alias uses is not deleted." action="Delete" danger request=${{ method: 'DELETE', path: `v1/models/${exact}` }} onYes=${remove} onClose=${() => setDialog(null)} />`}
  </${Page}>`;
}

function beside(versions, model) {
  const others = versions.filter((one) => one.id !== model.id).slice(0, 2).map((one) => one.id);
  return [model.id, ...others];
}

function Certificate({ model }) {
  const one = model.certificate;
  if (!one) return html`<${Card} title="Certificate"><p class="muted">The model was imported without one.</p></${Card}>`;
  return html`<${Card} title="Certificate">
    <div class="stack tight">
      <div class=${`notice ${model.converged ? 'good-notice' : 'warning'}`}>No weights can have an objective below ${number(one.dual_bound, 8)}. These have at most ${number(one.primal, 8)}.</div>
      <dl class="facts"><dt>Primal</dt><dd class="mono">${one.primal}</dd><dt>Dual bound</dt><dd class="mono">${one.dual_bound ?? '–'}</dd><dt>Gap</dt><dd><span class="mono">${gap(one.gap)}</span>${one.gap < one.primal - one.dual_bound && html`<br /><span class="muted">summed directly: the two bounds also carry their rounding</span>`}</dd><dt>Relative gap</dt><dd class="mono">${gap(one.relative_gap)}</dd><dt>Bound from</dt><dd>${one.method}</dd></dl>
      ${one.claimed && html`<p class="warn">It came with an imported model; nothing here has recomputed it.</p>`}
      ${one.per_class && html`<${DataTable} caption="certificate by class" table=${{ columns: ['class', 'primal', 'dual_bound', 'relative_gap'], rows: () => one.per_class.map((part) => [part.label, part.primal, part.dual_bound, part.relative_gap]) }} />`}
    </div></${Card}>`;
}

function Report({ model, versions }) {
  const [rows, setRows] = useState(model.metrics.test ? 'test' : 'train');
  const metrics = model.metrics[rows];
  if (!metrics) return html`<${Card}><${Empty} title="No metrics">An imported model has none. Evaluate it on a dataset: a job of type evaluate.</${Empty}></${Card}>`;
  return html`<${Card} title="Metrics"><${Baseline} model=${model} versions=${versions} /><${Decision} metrics=${model.metrics} classes=${model.classes} threshold=${model.threshold} /></${Card}>
    ${metrics.confusion && html`<${Card} title="Confusion" actions=${model.metrics.test && html`<${Segmented} label="Rows" value=${rows} options=${[['test', 'Test'], ['train', 'Train']]} onChange=${setRows} />`}><${Confusion} confusion=${metrics.confusion} /></${Card}>`}
    ${model.curves && html`<${Card} title="Curves" note=${`on the ${model.curves.rows} rows`}><${Curves} curves=${model.curves} metrics=${model.metrics[model.curves.rows]} /></${Card}>`}
    ${metrics.calibration_curve && html`<${Card} title="Calibration" note="are the probabilities honest?"><${Calibration} curve=${metrics.calibration_curve} /></${Card}>`}
    ${model.tuning?.best && html`<${Card} title="How C was chosen"><${ChosenC} tuning=${model.tuning} link=${model.lineage.job_id && html`<a href=${href(['jobs', model.lineage.job_id])}>The search</a>`} /></${Card}>`}
    ${model.cross_validation && html`<${Card} title="Cross-validation"><${MetricsTable} metrics=${{ mean: model.cross_validation.mean, std: model.cross_validation.std }} /></${Card}>`}
    ${model.warnings.length > 0 && html`<${Card} title="Decided or unwise"><${Notices} items=${model.warnings} /></${Card}>`}`;
}

function Weights({ model }) {
  const weights = useResource(`v1/models/${model.id}/weights`, { top: 25 });
  return html`<${Card} title="Strongest weights" note="comparable between columns: as the solver saw them" actions=${html`<${Code} request=${{ path: `v1/models/${model.name}:${model.version}/weights`, query: { top: 25 } }} />`}>
    <${ErrorBox} error=${weights.error} retry=${weights.reload} />${weights.loading && html`<${Loading} lines=${8} />`}
    <div class="two">${weights.data?.classes.slice(0, 12).map((one) => html`<div class="stack tight"><h3>${one.label === null ? 'raise the score' : html`speak for <bdi>${String(one.label)}</bdi>`}</h3>
      <${Bars} caption=${`Weights for ${one.label}`} rows=${one.weights.map((weight) => ({ name: weight.feature, value: weight.strength }))} />
      <${DataTable} caption=${`weights ${one.label ?? ''}`} table=${{ columns: ['feature', 'column', 'weight', 'unit', 'strength'], rows: () => one.weights.map((weight) => [weight.feature, weight.column, weight.weight, weight.unit, weight.strength]) }} /></div>`)}</div>
  </${Card}>`;
}

function Lineage({ model }) {
  const { lineage, training, params } = model;
  const shown = (value) => (value !== null && typeof value === 'object' ? JSON.stringify(value) : String(value));
  return html`<${Card} title="Where it came from"><dl class="facts">
      <dt>Dataset</dt><dd>${lineage.dataset_id ? html`<a class="mono" href=${href(['datasets', lineage.dataset_id])}>${shortId(lineage.dataset_id)}</a>` : '–'}</dd>
      <dt>SHA-256</dt><dd class="mono">${lineage.sha256 || '–'}</dd>
      <dt>Job</dt><dd>${lineage.job_id ? html`<a class="mono" href=${href(['jobs', lineage.job_id])}>${shortId(lineage.job_id)}</a>` : 'imported'}</dd>
      ${lineage.parent && html`<dt>Started from</dt><dd class="mono">${shown(lineage.parent)}</dd>`}
      <dt>Software</dt><dd>${Object.entries(lineage.versions || {}).map(([name, version]) => `${name} ${version}`).join(', ') || '–'}</dd>
      <dt>Created</dt><dd>${moment(model.created_at)}</dd>
      <dt>Memory</dt><dd>${bytes(training.peak_bytes)} at the peak</dd></dl></${Card}>
    <${Card} title="Parameters"><dl class="facts">${Object.entries(params).filter(([, value]) => value !== null).map(([name, value]) => html`<dt>${name}</dt><dd class="mono">${shown(value)}</dd>`)}</dl></${Card}>
    ${model.preprocess && html`<${Card} flush title="Preprocessing"><${Table} caption="What each column became" rows=${(model.preprocess.columns || []).slice(0, 200)} columns=${[
      { head: 'Column', cell: (one) => html`<bdi class="clip">${one.name}</bdi>` }, { head: 'Kind', cell: (one) => one.kind }, { head: 'Features', num: true, cell: (one) => number(one.features) },
      { head: 'How', wide: true, cell: (one) => html`<span class="muted">${one.scaling || (one.levels ? plural(one.levels, 'level') : one.terms ? plural(one.terms, 'term') : one.parts?.join(', ') || '')}</span>` }]} /></${Card}>`}`;
}
