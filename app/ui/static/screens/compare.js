// Up to ten jobs in one picture and one table; running ones go on being drawn.
import { html, useEffect, useMemo, useRef, useState } from '../html.js';
import { get } from '../api.js';
import { GapComparison } from '../convergence.js';
import { useEvents, useThrottled } from '../data.js';
import { gap, number, seconds, shortId } from '../format.js';
import { Card, Code, Empty, ErrorBox, Loading, Page, Status } from '../parts.js';
import { href } from '../router.js';
import { MOST_COMPARED } from './jobs.js';
import { metricNames, metricText, metricTitle } from './model_parts.js';

const MOST_POINTS = 400;  // of a curve; beyond, the stored ones are asked for again: they have 200, spread over log time
const PARAMETERS = ['loss', 'C', 'tol', 'bias', 'class_weight', 'seed'];

export function Compare({ route }) {
  const ids = (route.query.get('ids') || '').split(',').filter(Boolean).slice(0, MOST_COMPARED);
  const [runs, setRuns] = useState(null);
  const [error, setError] = useState(null);
  const fresh = useRef(new Map());
  const load = async () => {
    try {
      setRuns(await Promise.all(ids.map(async (id) => {
        const [job, trace] = await Promise.all([get(`v1/jobs/${encodeURIComponent(id)}`), get(`v1/jobs/${encodeURIComponent(id)}/trace`)]);
        return { id, job, tol: trace.tol, points: trace.data, name: `${job.model} ${shortId(id)}` };
      })));
      setError(null);
    } catch (problem) { setError(problem); }
  };
  useEffect(() => { setRuns(null); if (ids.length) load(); }, [ids.join()]);
  const reload = useThrottled(load, 500);
  useEffect(() => { if (runs?.some((run) => run.points.length > MOST_POINTS)) reload(); }, [runs]);
  const flush = useThrottled(() => {
    const points = fresh.current;
    fresh.current = new Map();
    setRuns((before) => before?.map((run) => {
      const news = (points.get(run.id) || []).filter((one) => one.seconds > (run.points.at(-1)?.seconds ?? -1));
      return news.length ? { ...run, points: [...run.points, ...news] } : run;
    }));
  }, 100);
  useEvents((event) => {
    if (!ids.includes(event.job_id)) return;
    if (event.type !== 'job.progress') { reload(); return; }
    fresh.current.set(event.job_id, [...(fresh.current.get(event.job_id) || []), event.data]);
    flush();
  });
  const crumbs = [['Jobs', href('jobs')]];
  const rows = useMemo(() => (runs ? facts(runs) : []), [runs]);
  if (ids.length < 1) return html`<${Page} title="Compare jobs" crumbs=${crumbs}><${Card}><${Empty} title="Choose jobs to compare" actions=${html`<a class="button primary" href=${href('jobs')}>Go to the jobs</a>`}>Tick up to ${MOST_COMPARED} jobs in the list.</${Empty}></${Card}></${Page}>`;
  return html`<${Page} title=${`Compare ${ids.length} jobs`} crumbs=${crumbs} actions=${html`<${Code} requests=${ids.map((id) => [`Curve of ${shortId(id)}`, { path: `v1/jobs/${id}/trace` }])} />`}>
    <${ErrorBox} error=${error} retry=${load} />
    ${!runs ? html`<${Card}><${Loading} lines=${8} /></${Card}>` : html`
      <${Card} title="Gaps"><${GapComparison} runs=${runs} /></${Card}>
      <${Card} flush title="Side by side"><div class="scroll" tabindex="0" role="region" aria-label="Jobs side by side"><table><caption class="offscreen">Jobs side by side</caption>
        <thead><tr><th scope="col"></th>${runs.map((run, place) => html`<th scope="col"><i class=${`key line tone-s${place + 1}`} aria-hidden="true"></i><a href=${href(['jobs', run.id])}><bdi class="clip">${run.name}</bdi></a></th>`)}</tr></thead>
        <tbody>${rows.map(([name, cells]) => html`<tr class=${new Set(cells.map(String)).size > 1 ? '' : 'muted'}><th scope="row">${name}</th>${cells.map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody></table></div></${Card}>`}
  </${Page}>`;
}

function facts(runs) {
  const of = (read) => runs.map((run) => read(run.job, run));
  const metrics = runs.map((run) => run.job.result?.metrics || {});
  const shown = (value) => (value === null || value === undefined ? '–' : typeof value === 'object' ? JSON.stringify(value) : String(value));
  return [
    ['Status', of((job) => html`<${Status} status=${job.status} />`)],
    ['Gap', of((job, run) => gap(run.points.at(-1)?.relative_gap ?? job.relative_gap))],
    ['Seconds', of((_, run) => seconds(run.points.at(-1)?.seconds))],
    ['Passes', of((job, run) => number(run.points.at(-1)?.passes ?? job.passes))],
    ['Solver', of((job) => job.result?.solver || job.spec?.solver || '–')],
    ...PARAMETERS.map((name) => [name, of((job) => shown(job.spec?.[name]))]),
    ...metricNames(Object.fromEntries(metrics.map((one, place) => [place, one.test || one.train]))).map((name) =>
      [metricTitle(name), metrics.map((one) => metricText(name, (one.test || one.train)?.[name]))]),
  ];
}
