// One job, live: how its band closes, what happened to it, and how to change its course.
import { html, useEffect, useMemo, useRef, useState } from '../html.js';
import { get, post } from '../api.js';
import { Convergence } from '../convergence.js';
import { useEvents, useResource, useThrottled } from '../data.js';
import { gap, moment, number, percent, seconds, shortId } from '../format.js';
import { Announce, Bar, Card, Code, Confirm, Empty, ErrorBox, Labels, Loading, Page, Snippets, Stat, Status, Table, When } from '../parts.js';
import { href } from '../router.js';
import { can } from '../session.js';
import { JobResult } from './job_result.js';

const ACTIONS = {
  pause: { text: 'Pause', when: (job) => ['queued', 'running'].includes(job.status) },
  resume: { text: 'Resume', when: (job) => job.status === 'paused' || job.request === 'pause' },
  finish: { text: 'Finish now', when: (job) => !job.done && job.type === 'train', ask: 'The job ends with the best model so far. Its certificate says how far that is from the optimum.' },
  cancel: { text: 'Cancel', when: (job) => !job.done, danger: true, ask: 'The job ends and keeps nothing.' },
};
const FIGURES = ['iterations', 'passes', 'primal', 'dual_bound', 'relative_gap', 'progress', 'eta_seconds'];
const MOST_POINTS = 600;  // of a curve; beyond, the stored one is asked for again: it has 200, spread over log time
const EVENTS_KEPT = 200;
const LATE_MS = 1500;  // an event that arrives within this time of the curve may be part of it already

export function Job({ route }) {
  const id = route.parts[1];
  const loaded = useResource(`v1/jobs/${encodeURIComponent(id)}`);
  const job = loaded.data;
  const trace = useTrace(id, job);
  const [events, setEvents] = useState([]);
  const [asking, setAsking] = useState(null);
  const [problem, setProblem] = useState(null);
  const reload = useThrottled(() => { loaded.reload(); trace.reload(); readEvents(); }, 150);
  const readEvents = async () => {
    try { setEvents((await get(`v1/jobs/${encodeURIComponent(id)}/events`, { limit: 200 })).data); } catch { /* the job's own error is shown */ }
  };
  useEffect(() => { readEvents(); }, [id]);
  useEvents((event) => {
    if (event.job_id !== id) return;
    setEvents((before) => (before.some((one) => one.id === event.id) ? before : [...before.slice(1 - EVENTS_KEPT), event]));
    if (event.type === 'job.progress') {
      loaded.change((before) => before && { ...before, ...Object.fromEntries(FIGURES.map((name) => [name, event.data[name] ?? before[name]])), eta_seconds: event.data.eta_seconds });
      trace.add(event.data);
    } else reload();
  });

  const act = async (name) => {
    setProblem(null);
    try { loaded.change(await post(`v1/jobs/${id}/${name}`)); } catch (error) { setProblem(error); if (ACTIONS[name].ask) throw error; }
  };
  if (loaded.error && !job) return html`<${Page} title="Job" crumbs=${[['Jobs', href('jobs')]]}><${ErrorBox} error=${loaded.error} retry=${loaded.reload} /></${Page}>`;
  if (!job) return html`<${Page} title="Job" crumbs=${[['Jobs', href('jobs')]]}><${Card}><${Loading} lines=${6} /></${Card}></${Page}>`;
  const tol = trace.tol ?? job.spec?.tol ?? null;
  const request = { method: 'POST', path: 'v1/jobs', body: asRequest(job) };
  const result = job.result || {};
  return html`<${Page} title=${`${job.model}`} crumbs=${[['Jobs', href('jobs')], [shortId(job.id), href(['jobs', job.id])]]}
    lead=${html`<${Status} status=${job.status} /> ${job.request && !job.done && html`<span class="chip">${job.request} requested</span>`} · ${job.type} · <code>${job.id}</code> · created <${When} at=${job.created_at} /> <${Labels} labels=${job.labels} />`}
    actions=${html`${can('write') && Object.entries(ACTIONS).filter(([, one]) => one.when(job)).map(([name, one]) =>
        html`<button type="button" class=${one.danger ? 'danger' : 'ghost'} onClick=${() => (one.ask ? setAsking(name) : act(name))}>${one.text}</button>`)}
      ${job.model_id && html`<a class="button primary" href=${href(['models', job.model_id])}>Open the model</a>`}
      ${can('write') && job.type === 'train' && html`<a class="button ghost" href=${href(['jobs', 'new'], { from: job.id })}>Train again</a>`}`}>
    <${ErrorBox} error=${problem} />
    ${job.error && html`<div class="error" role="alert"><div class="grow"><strong><bdi>${job.error.message}</bdi></strong><p class="fine"><code>${job.error.code}</code>${job.error.param && html` · field <code>${job.error.param}</code>`}</p></div></div>`}
    <${Announce} text=${announced(job, tol)} />
    <dl class="stats">
      <${Stat} label=${job.done ? 'Certified gap' : 'Gap now'} value=${gap(job.relative_gap)} note=${tol ? `target ${gap(tol)}` : null} tone=${tol && job.relative_gap !== null && job.relative_gap <= tol ? 'good' : ''} />
      <${Stat} label="Progress" value=${percent(job.progress, 0)} note=${html`<${Bar} value=${job.progress} />`} />
      <${Stat} label=${job.done ? 'Took' : 'Closes in'} value=${job.done ? seconds(trace.points.at(-1)?.seconds) : job.eta_seconds !== null ? seconds(job.eta_seconds) : '–'} note=${job.done ? 'of solving' : 'estimate'} />
      <${Stat} label="Passes" value=${number(job.passes)} note=${`${number(job.iterations)} iterations`} />
      <${Stat} label="Primal value" value=${number(job.primal, 6)} note=${`bound ${number(job.dual_bound, 6)}`} />
      ${job.queue_position !== null && html`<${Stat} label="Queue" value=${number(job.queue_position + 1)} note="position" />`}
      ${job.attempt > 1 && html`<${Stat} label="Attempt" value=${job.attempt} note="it went on after an interruption" />`}
    </dl>
    ${job.type === 'train' && html`<${Card} title="Convergence" note=${job.done ? null : 'live'}>
      ${trace.points.length ? html`<${Convergence} points=${trace.points} job=${job} tol=${tol} />`
        : html`<${Empty} title=${job.done ? 'No curve was recorded' : 'Waiting for the first point'}>${waiting(job, events)}</${Empty}>`}</${Card}>`}
    <div class="with-side">
      <div class="stack">
        ${job.result && html`<${JobResult} job=${job} result=${result} />`}
        <${Card} flush title="Events" note=${`${events.length} shown`}>
          <div class="scroll short-list"><${Table} caption="Events of the job" rows=${[...events].reverse()} rowKey=${(one) => one.id} columns=${[
            { head: 'When', cell: (one) => html`<span title=${moment(one.created_at)}>${one.created_at.slice(11, 19)}</span>` },
            { head: 'Event', cell: (one) => one.type.replace('job.', '').replaceAll('_', ' ') },
            { head: 'Details', wide: true, cell: (one) => html`<span class="muted">${told(one)}</span>` },
          ]} /></div>
        </${Card}>
      </div>
      <div class="stack">
        <${Card} title="How">
          <dl class="facts">
            ${result.solver && html`<dt>Solver</dt><dd><strong>${result.solver}</strong><br /><span class="muted">${result.solver_reason}</span></dd>`}
            ${!result.solver && job.spec?.solver && html`<dt>Solver</dt><dd>${job.spec.solver}</dd>`}
            ${result.task && html`<dt>Task</dt><dd>${result.task}<br /><span class="muted">${result.task_reason}</span></dd>`}
            <dt>Dataset</dt><dd><a class="mono" href=${href(['datasets', job.dataset_id])}>${shortId(job.dataset_id)}</a></dd>
            ${['loss', 'C', 'tol', 'seed'].filter((name) => job.spec?.[name] !== undefined).map((name) => html`<dt>${name}</dt><dd class="mono">${String(job.spec[name])}</dd>`)}
            <dt>Started</dt><dd>${moment(job.started_at)}</dd>
            <dt>Ended</dt><dd>${moment(job.finished_at)}</dd>
          </dl>
        </${Card}>
        <${Card} title="The request" actions=${html`<${Code} label="Follow it" request=${{ path: `v1/jobs/${job.id}/events` }} />`}><${Snippets} request=${request} /></${Card}>
      </div>
    </div>
    ${asking && html`<${Confirm} title=${`${ACTIONS[asking].text}?`} text=${ACTIONS[asking].ask} action=${ACTIONS[asking].text} danger=${ACTIONS[asking].danger} onYes=${() => act(asking)} onClose=${() => setAsking(null)} />`}
  </${Page}>`;
}

// The stored curve, and behind it the points that came since. A point from an earlier second starts a new curve: the
// next of several trainings of the job.
export function useTrace(id, job) {
  const stored = useResource(job && job.type === 'train' ? `v1/jobs/${encodeURIComponent(id)}/trace` : null);
  const [added, setAdded] = useState({ behind: null, points: [] });
  const waiting = useRef([]);
  const flush = useThrottled(() => {
    const news = waiting.current;
    const behind = stored.data;
    waiting.current = [];
    setAdded((before) => ({ behind, points: [...(before.behind === behind ? before.points : []), ...news] }));
  }, 50);
  const loadedAt = useMemo(() => performance.now(), [stored.data]);
  const points = useMemo(() => {
    const kept = [...(stored.data?.data || [])];
    for (const point of added.behind === stored.data ? added.points : []) {
      const last = kept.at(-1)?.seconds ?? -1;
      if (point.seconds < last && point.arrived > loadedAt + LATE_MS) kept.length = 0;
      else if (point.seconds <= last) continue;
      kept.push(point);
    }
    return kept;
  }, [stored.data, added]);
  const isLong = points.length > MOST_POINTS;
  useEffect(() => { if (isLong) stored.reload(); }, [isLong]);
  return { points, tol: stored.data?.tol ?? null, reload: stored.reload, add: (point) => { waiting.current.push({ ...point, arrived: performance.now() }); flush(); } };
}

// What was asked for, without what the service filled in with its defaults.
export function asRequest(job) {
  const spec = { ...job.spec };
  const dull = { task: 'auto', strategy: 'ovr', loss: 'auto', c_scale: 'sum', bias: 'regularized', bias_scale: 1, epsilon: 0.1, solver: 'auto', calibrate: false, on_limit: 'keep_best', seed: 0, priority: 0 };
  for (const [name, value] of Object.entries(spec)) {
    const isEmpty = value === null || (typeof value === 'object' && !Array.isArray(value) && Object.keys(value).length === 0);
    if (isEmpty || dull[name] === value) delete spec[name];
  }
  delete spec.type;
  if (spec.stop) spec.stop = set(spec.stop);
  if (spec.split) spec.split = set(spec.split, { seed: 0, stratify: true });
  if (spec.stop && spec.stop.seconds === 600 && !spec.stop.passes) delete spec.stop;
  const model = job.type === 'train' ? { model: job.model } : {};
  const labels = Object.keys(job.labels || {}).length ? { labels: job.labels } : {};
  return { ...(job.type === 'train' ? {} : { type: job.type }), dataset_id: job.dataset_id, ...model, ...spec, ...labels };
}

const set = (object, dull = {}) => Object.fromEntries(Object.entries(object).filter(([name, value]) => value !== null && dull[name] !== value));

function announced(job, tol) {
  if (job.done) return `The job has ${job.status}${job.relative_gap !== null ? ` with a gap of ${gap(job.relative_gap)}` : ''}.`;
  const decade = job.relative_gap > 0 ? Math.floor(Math.log10(job.relative_gap)) : null;
  return `${job.status}${decade === null ? '' : `, gap below 1e${decade + 1}`}${tol ? `, target ${gap(tol)}` : ''}`;
}

function waiting(job, events) {
  if (job.done) return 'It ended before its first pass.';
  if (job.status === 'queued') return `It waits for a worker${job.queue_position ? ` behind ${job.queue_position} other jobs` : ''}.`;
  if (events.at(-1)?.type === 'job.compiling') return 'The kernels that it needs are being compiled, once. This time does not count.';
  return 'Data are read and prepared.';
}

function told(event) {
  const { data } = event;
  if (event.type === 'job.progress') return `gap ${gap(data.relative_gap)} after ${number(data.passes)} passes, ${seconds(data.seconds)}`;
  const parts = Object.entries(data || {}).filter(([, value]) => value !== null).map(([name, value]) => `${name}: ${typeof value === 'object' ? JSON.stringify(value) : value}`);
  return parts.join(', ');
}
