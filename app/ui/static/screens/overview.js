// What runs, how far it is from the optimum, what failed, which models are new.
import { html, useEffect, useMemo, useState } from '../html.js';
import { get } from '../api.js';
import { useEvents, useResource, useThrottled } from '../data.js';
import { bytes, gap, number, plural, seconds } from '../format.js';
import { Announce, Bar, Card, Code, Empty, ErrorBox, Loading, Page, Stat, Status, Table, When } from '../parts.js';
import { go, href } from '../router.js';
import { can } from '../session.js';
import { uploadSample } from '../upload.js';

const SPARK_POINTS = 60;

// A gap over time as a line on a log scale, with the target dashed.
export function GapSpark({ points, tol }) {
  const shown = points.filter((value) => value > 0).slice(-SPARK_POINTS);
  if (shown.length < 2) return html`<svg class="spark" aria-hidden="true"></svg>`;
  const low = Math.log10(Math.min(tol || 1, ...shown)) - 0.2;
  const high = Math.log10(Math.max(...shown, tol || 0)) + 0.1;
  const y = (value) => 40 - (40 * (Math.log10(value) - low)) / Math.max(high - low, 1e-9);
  const path = shown.map((value, place) => `${place ? 'L' : 'M'}${(100 * place) / (shown.length - 1)} ${y(value).toFixed(2)}`).join('');
  return html`<svg class="spark" viewBox="0 0 100 40" preserveAspectRatio="none" aria-hidden="true">
    ${tol && html`<line x1="0" x2="100" y1=${y(tol)} y2=${y(tol)} />`}<path d=${path} /></svg>`;
}

export function Overview() {
  const system = useResource('v1/system', null, { every: 15_000 });
  const running = useResource('v1/jobs', { status: 'running', limit: 20 }, { every: 15_000 });
  const queued = useResource('v1/jobs', { status: 'queued', limit: 5 });
  const failed = useResource('v1/jobs', { status: 'failed', limit: 5 });
  const models = useResource('v1/models', { limit: 6 });
  const [live, setLive] = useState({});
  const refresh = useThrottled(() => { for (const one of [system, running, queued, failed, models]) one.reload(); }, 800);
  const flush = useThrottled(() => setLive({ ...pending }), 200);
  const pending = useMemo(() => ({}), []);
  useEvents((event) => {
    if (event.type !== 'job.progress') { refresh(); return; }
    const before = pending[event.job_id] || { gaps: [] };
    const gaps = event.data.relative_gap > 0 ? [...before.gaps.slice(-SPARK_POINTS), event.data.relative_gap] : before.gaps;
    pending[event.job_id] = { ...event.data, gaps };
    flush();
  });

  const ids = (running.data?.data || []).map((job) => job.id).slice(0, 10).join();
  useEffect(() => {  // lines begin with what happened before this page was opened
    for (const id of ids.split(',').filter((one) => one && !pending[one])) {
      pending[id] = { gaps: [] };
      get(`v1/jobs/${id}/trace`).then((trace) => {
        const gaps = trace.data.map((one) => one.relative_gap).filter((value) => value > 0);
        pending[id] = { ...pending[id], gaps: [...gaps, ...pending[id].gaps].slice(-SPARK_POINTS) };
        flush();
      }, () => {});
    }
  }, [ids]);

  const error = system.error || running.error || failed.error || models.error;
  const s = system.data;
  const isEmpty = s && s.datasets === 0 && s.models === 0 && Object.values(s.jobs).every((count) => count === 0);
  return html`<${Page} title="Overview" actions=${html`<${Code} requests=${[['Figures of the service', { path: 'v1/system' }], ['Running jobs', { path: 'v1/jobs', query: { status: 'running' } }], ['Last failures', { path: 'v1/jobs', query: { status: 'failed', limit: 5 } }], ['Newest models', { path: 'v1/models', query: { limit: 6 } }]]} />
    ${can('write') && html`<a class="button ghost" href=${href('datasets')}>Upload data</a><a class="button primary" href=${href(['jobs', 'new'])}>New job</a>`}`}>
    <${ErrorBox} error=${error} retry=${refresh} />
    <${Announce} text=${s ? `${plural(s.jobs.running, 'job')} running, ${s.jobs.queued} queued` : ''} />
    ${isEmpty ? html`<${Card}><${First} /></${Card}>` : html`
    ${s ? html`<dl class="stats">
      <${Stat} label="Running" value=${number(s.jobs.running)} note=${`${plural(s.training.workers, 'worker')} here`} />
      <${Stat} label="Queued" value=${number(s.jobs.queued)} note=${s.jobs.paused ? `${s.jobs.paused} paused` : 'none paused'} />
      <${Stat} label="Succeeded" value=${number(s.jobs.succeeded)} note=${s.jobs.cancelled ? `${number(s.jobs.cancelled)} cancelled` : null} />
      <${Stat} label="Failed" value=${number(s.jobs.failed)} tone=${s.jobs.failed ? 'bad' : ''} />
      <${Stat} label="Training memory" value=${bytes(s.training.memory_needed_bytes)} note=${`of ${bytes(s.training.memory_budget_bytes)}`} />
      <${Stat} label="Models" value=${number(s.models)} note=${plural(s.datasets, 'dataset')} />
      <${Stat} label="Service" value=${html`<${Status} status=${s.readiness.status} />`} note=${s.readiness.training === 'compiling' ? 'kernels are being compiled' : null} />
    </dl>` : html`<${Card}><${Loading} lines=${2} /></${Card}>`}
    <${Card} flush title="Running now" note="live" actions=${html`<a href=${href('jobs')}>All jobs</a>`}>
      ${!running.data ? html`<${Loading} />` : running.data.data.length === 0
        ? html`<${Empty} title="Nothing is running">${queued.data?.data.length ? `${plural(queued.data.data.length, 'job')} waiting for a worker.` : 'A job that starts appears here by itself, with its gap closing.'}</${Empty}>`
        : html`<${Table} caption="Running jobs" link=${(job) => href(['jobs', job.id])} rowKey=${(job) => job.id} rows=${running.data.data} columns=${[
          { head: 'Model', cell: (job) => html`<a href=${href(['jobs', job.id])}><bdi class="clip">${job.model}</bdi></a> <span class="muted">${job.type}</span>` },
          { head: 'Gap', num: true, cell: (job) => html`<span class="mono">${gap(live[job.id]?.relative_gap ?? job.relative_gap)}</span>` },
          { head: 'Target', num: true, minor: true, cell: (job) => html`<span class="mono muted">${gap(job.tol)}</span>` },
          { head: 'Closing', cell: (job) => html`<div class="spark-cell"><${GapSpark} points=${live[job.id]?.gaps || []} tol=${job.tol} /></div>` },
          { head: 'Progress', minor: true, cell: (job) => html`<${Bar} value=${live[job.id]?.progress ?? job.progress} label=${`Progress of ${job.model}`} />` },
          { head: 'Closes in', num: true, minor: true, cell: (job) => seconds(live[job.id]?.eta_seconds ?? job.eta_seconds) },
          { head: 'Started', minor: true, cell: (job) => html`<${When} at=${job.started_at} />` },
        ]} />`}
    </${Card}>
    <div class="two">
      <${Card} flush title="Last failures" actions=${html`<a href=${href('jobs', { status: 'failed' })}>All failures</a>`}>
        ${!failed.data ? html`<${Loading} />` : failed.data.data.length === 0 ? html`<${Empty} title="No job has failed">Failures show here with their reason.</${Empty}>`
          : html`<${Table} caption="Last failures" link=${(job) => href(['jobs', job.id])} rows=${failed.data.data} columns=${[
            { head: 'Job', cell: (job) => html`<a href=${href(['jobs', job.id])}><bdi class="clip">${job.model}</bdi></a>` },
            { head: 'Reason', wide: true, cell: (job) => html`<code class="bad">${job.error?.code}</code> <bdi>${short(job.error?.message)}</bdi>` },
            { head: 'When', minor: true, cell: (job) => html`<${When} at=${job.finished_at} />` },
          ]} />`}
      </${Card}>
      <${Card} flush title="Newest models" actions=${html`<a href=${href('models')}>All models</a>`}>
        ${!models.data ? html`<${Loading} />` : models.data.data.length === 0 ? html`<${Empty} title="No model yet">Train on a dataset; every model comes with its certificate.</${Empty}>`
          : html`<${Table} caption="Newest models" link=${(one) => href(['models', `${one.name}:${one.version}`])} rows=${models.data.data} columns=${[
            { head: 'Model', cell: (one) => html`<a href=${href(['models', `${one.name}:${one.version}`])}><bdi class="clip">${one.name}</bdi>:${one.version}</a>` },
            { head: 'Metric', num: true, cell: (one) => (one.headline ? html`<span title=${`${one.headline.name} on the ${one.headline.rows} rows`}>${number(one.headline.value, 3)}</span>` : '–') },
            { head: 'Gap', num: true, cell: (one) => html`<span class="mono">${gap(one.relative_gap)}</span>` },
            { head: 'When', cell: (one) => html`<${When} at=${one.created_at} />` },
          ]} />`}
      </${Card}>
    </div>`}
  </${Page}>`;
}

const short = (text) => (text && text.length > 140 ? `${text.slice(0, 140)}…` : text);

function First() {
  const [state, setState] = useState({ busy: false, error: null });
  const sample = async () => {
    setState({ busy: true, error: null });
    try { const dataset = await uploadSample(); go(['datasets', dataset.id]); } catch (error) { setState({ busy: false, error }); }
  };
  return html`<${Empty} title="Nothing here yet: three steps to a certified model" actions=${can('write') && html`
      <button type="button" class="primary" disabled=${state.busy} onClick=${sample}>Load the sample data set</button>
      <a class="button ghost" href=${href('datasets')}>Upload your own</a>`}>
    <p>1. Upload a table (CSV, Parquet, libsvm …). 2. Train: the gap between the model and the proven optimum closes before your eyes. 3. Predict.</p>
    <p class="fine">The sample is 351 radar returns with 34 numbers each, labelled good or bad.</p>
    <${ErrorBox} error=${state.error} /></${Empty}>`;
}

