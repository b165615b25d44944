// One job, live: how its band closes, what happened to it, and how to change its course.
import { html, useState } from '../html.js';
import { post } from '../api.js';
import { DataTable } from '../chart.js';
import { Convergence } from '../convergence.js';
import { useEvents, useResource, useThrottled } from '../data.js';
import { gap, moment, number, percent, seconds, shortId } from '../format.js';
import { Announce, Bar, Card, Code, Confirm, Empty, ErrorBox, Labels, Loading, Page, Snippets, Stat, Status, Table, When } from '../parts.js';
import { href } from '../router.js';
import { can } from '../session.js';
import { asRequest, TRAINING, useJobEvents, useTrace } from './job_data.js';
import { JobResult } from './job_result.js';
import { Race } from './race.js';
import { Tune } from './tune.js';

const ACTIONS = {
  pause: { text: 'Pause', when: (job) => ['queued', 'running'].includes(job.status) },
  resume: { text: 'Resume', when: (job) => job.status === 'paused' || job.request === 'pause' },
  finish: { text: 'Finish now', when: (job) => !job.done && TRAINING.includes(job.type), ask: 'The job ends with the best model so far. Its certificate says how far that is from the optimum.' },
  cancel: { text: 'Cancel', when: (job) => !job.done, danger: true, ask: 'The job ends and keeps nothing.' },
};
const FIGURES = ['iterations', 'passes', 'primal', 'dual_bound', 'relative_gap', 'progress', 'eta_seconds'];
const EVENTS_SHOWN = 50;

export function Job({ route }) {
  const id = route.parts[1];
  const loaded = useResource(`v1/jobs/${encodeURIComponent(id)}`);
  const job = loaded.data;
  const trace = useTrace(id, job);
  const { events, add, reload: readEvents } = useJobEvents(id);
  const [asking, setAsking] = useState(null);
  const [problem, setProblem] = useState(null);
  const reload = useThrottled(() => { loaded.reload(); trace.reload(); readEvents(); }, 150);
  const readCurves = useThrottled(trace.reload, 700);  // an event has the leader's point only
  useEvents((event) => {
    if (event.job_id !== id) return;
    add(event);
    if (event.type === 'job.progress') {
      loaded.change((before) => before && { ...before, ...Object.fromEntries(FIGURES.map((name) => [name, event.data[name] ?? before[name]])), eta_seconds: event.data.eta_seconds ?? null });
      if (job?.type === 'race') readCurves();
      else if (Number.isFinite(event.data.relative_gap)) trace.add(event.data);
    } else if (event.type !== 'job.trial') reload();
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
    actions=${html`<${Code} requests=${requestsOf(job)} />${can('write') && Object.entries(ACTIONS).filter(([, one]) => one.when(job)).map(([name, one]) =>
        html`<button type="button" class=${one.danger ? 'danger' : 'ghost'} onClick=${() => (one.ask ? setAsking(name) : act(name))}>${one.text}</button>`)}
      ${can('write') && TRAINING.includes(job.type) && html`<a class="button ghost" href=${href(['jobs', 'new'], { from: job.id })}>${job.type === 'train' ? 'Train again' : 'Run again'}</a>`}
      ${job.model_id && html`<a class="button primary" href=${href(['models', job.model_id])}>Open the model</a>`}`}>
    <${ErrorBox} error=${problem} />
    ${job.error && html`<${ErrorBox} error=${failureOf(job)} />`}
    ${job.type === 'tune' ? html`<${Tune} job=${job} events=${events} />` : job.type === 'race' ? html`<${Race} job=${job} points=${trace.points} tol=${tol} />`
      : html`<${Training} job=${job} trace=${trace} tol=${tol} events=${events} />`}
    <div class="with-side">
      <div class="stack">
        ${job.result && html`<${JobResult} job=${job} result=${result} />`}
        <${Card} flush title="Events" note=${events.length > EVENTS_SHOWN ? `the newest ${EVENTS_SHOWN} of ${number(events.length)}` : null}>
          <div class="scroll short-list"><${Table} caption="Events of the job" rows=${events.slice(-EVENTS_SHOWN).reverse()} rowKey=${(one) => one.id} columns=${[
            { head: 'When', cell: (one) => html`<span title=${moment(one.created_at)}>${one.created_at.slice(11, 19)}</span>` },
            { head: 'Event', cell: (one) => one.type.replace('job.', '').replaceAll('_', ' ') },
            { head: 'Details', wide: true, cell: (one) => html`<span class="muted">${told(one)}</span>` },
          ]} /></div>
          <div class="inset"><${DataTable} caption="events" table=${{ columns: ['id', 'created_at', 'type', 'details'], rows: () => events.map((one) => [one.id, one.created_at, one.type, told(one)]) }} /></div>
        </${Card}>
      </div>
      <div class="stack">
        <${Card} title="How">
          <dl class="facts">
            ${result.solver && html`<dt>Solver</dt><dd><strong>${result.solver}</strong><br /><span class="muted">${result.solver_reason}</span></dd>`}
            ${!result.solver && job.spec?.solver && html`<dt>Solver</dt><dd>${job.spec.solver}</dd>`}
            ${result.task && html`<dt>Task</dt><dd>${result.task}<br /><span class="muted">${result.task_reason}</span></dd>`}
            <dt>Dataset</dt><dd><a class="mono" href=${href(['datasets', job.dataset_id])}>${shortId(job.dataset_id)}</a></dd>
            ${['loss', 'C', 'tol', 'metric', 'rule', 'seed'].filter((name) => job.spec?.[name] !== undefined && job.spec[name] !== null).map((name) => html`<dt>${name}</dt><dd class="mono">${written(job.spec[name])}</dd>`)}
            <dt>Started</dt><dd>${moment(job.started_at)}</dd>
            <dt>Ended</dt><dd>${moment(job.finished_at)}</dd>
          </dl>
        </${Card}>
        <${Card} title="The request" actions=${html`<${Code} label="Follow it" request=${{ path: `v1/jobs/${job.id}/events` }} />`}><${Snippets} request=${request} /></${Card}>
      </div>
    </div>
    ${asking && html`<${Confirm} title=${`${ACTIONS[asking].text}?`} text=${ACTIONS[asking].ask} action=${ACTIONS[asking].text} danger=${ACTIONS[asking].danger} request=${{ method: 'POST', path: `v1/jobs/${job.id}/${asking}` }} onYes=${() => act(asking)} onClose=${() => setAsking(null)} />`}
  </${Page}>`;
}

// The figures and the curve of one training, or of a job that reads, predicts or verifies.
function Training({ job, trace, tol, events }) {
  return html`<${Announce} text=${announced(job, tol)} />
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
        : html`<${Empty} title=${job.done ? 'No curve was recorded' : 'Waiting for the first point'}>${waiting(job, events)}</${Empty}>`}</${Card}>`}`;
}

// Everything that this screen asks for, and what its buttons send.
function requestsOf(job) {
  const path = `v1/jobs/${job.id}`;
  return [['Read the job', { path }], ['Wait for its end', { path, query: { wait: 30 } }], ['List its events', { path: `${path}/events` }],
    ...(job.type === 'tune' ? [['Read the coefficients along C', { path: `${path}/path` }]] : []), ...(['train', 'race'].includes(job.type) ? [['Read its curve', { path: `${path}/trace` }]] : []),
    ...(can('write') ? Object.entries(ACTIONS).filter(([, one]) => one.when(job)).map(([name, one]) => [one.text, { method: 'POST', path: `${path}/${name}` }]) : [])];
}

// A failure in the shape of a refused request: code, field, and the id to search the logs for.
function failureOf(job) {
  const { code, message, param } = job.error;
  return { code, message, jobId: job.id, errors: param ? [{ field: param, detail: message, code }] : [] };
}

const written = (value) => (Array.isArray(value) ? value.map(written).join(', ') : typeof value === 'object' ? JSON.stringify(value) : String(value));

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
  if (data?.phase) return `${data.phase}${Number.isFinite(data.C) ? `, C = ${number(data.C)}` : ''}${Number.isFinite(data.mean) ? `, mean ${number(data.mean)}` : ''}, ${number(data.trainings)} trainings`;
  if (event.type === 'job.trial') return data.trials.map((one) => `C = ${number(one.C)}: ${number(one.mean)}`).join(', ');
  if (event.type === 'job.progress') return `${data.solver ? `${data.solver}: ` : ''}gap ${gap(data.relative_gap)} after ${number(data.passes)} passes, ${seconds(data.seconds)}`;
  const parts = Object.entries(data || {}).filter(([, value]) => value !== null).map(([name, value]) => `${name}: ${typeof value === 'object' ? JSON.stringify(value) : value}`);
  return parts.join(', ');
}
