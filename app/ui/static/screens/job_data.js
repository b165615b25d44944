// What the screen of a job follows: its curve, its events, and the request that made it.
import { useEffect, useMemo, useRef, useState } from '../html.js';
import { get } from '../api.js';
import { useResource, useThrottled } from '../data.js';

export const TRAINING = ['train', 'tune', 'race'];
const ONLY_OF_SEARCH = ['certify', 'rule', 'refit', 'outer_folds', 'metric', 'cross_validation'];
const VARIED = ['strategy', 'loss', 'p', 'epsilon', 'class_weight', 'preprocess'];
const MOST_POINTS = 600;  // of a curve; beyond, the stored one is asked for again: it has 200, spread over log time
const LATE_MS = 1500;  // an event that arrives within this time of the curve may be part of it already
const EVENTS_KEPT = 2000;
const REPORTS_KEPT = 200;  // of progress: the curve has the others
const EVENTS_A_PAGE = 200;

// All events, oldest first. `add` takes those that arrive; `reload` reads what the stream may have missed.
export function useJobEvents(id) {
  const [events, setEvents] = useState([]);
  const kept = useRef(new Map());
  const flush = useThrottled(() => {
    const sorted = [...kept.current.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
    const reports = sorted.filter((one) => one.type === 'job.progress');
    for (const one of [...reports.slice(0, -REPORTS_KEPT), ...sorted.slice(0, -EVENTS_KEPT)]) kept.current.delete(one.id);
    setEvents(sorted.filter((one) => kept.current.has(one.id)));
  }, 100);
  const add = (event) => { kept.current.set(event.id, event); flush(); };
  const reload = async () => {
    try {
      for (let cursor = [...kept.current.keys()].sort().at(-1), isMore = true; isMore;) {
        const page = await get(`v1/jobs/${encodeURIComponent(id)}/events`, { limit: EVENTS_A_PAGE }, { headers: cursor ? { 'Last-Event-ID': cursor } : {} });
        page.data.forEach(add);
        isMore = page.has_more && page.data.length > 0;
        cursor = page.data.at(-1)?.id;
      }
    } catch { /* the job's own error is shown */ }
  };
  useEffect(() => { kept.current = new Map(); reload(); }, [id]);
  return { events, add, reload };
}

// The stored curve, and behind it the points that came since. A point from an earlier second starts a new curve: the
// next of several trainings of the job.
export function useTrace(id, job) {
  const stored = useResource(job && ['train', 'race'].includes(job.type) ? `v1/jobs/${encodeURIComponent(id)}/trace` : null);
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
  const spec = Object.fromEntries(Object.entries(job.spec).map(([name, value]) => [name, Array.isArray(value) && value.length === 1 ? value[0] : value]));
  const dull = { task: 'auto', strategy: 'ovr', loss: 'auto', c_scale: 'sum', bias: 'regularized', bias_scale: 1, epsilon: 0.1, solver: 'auto', calibrate: false, on_limit: 'keep_best', seed: 0, priority: 0, rule: 'best', refit: true };
  for (const [name, value] of Object.entries(spec)) {
    const isEmpty = value === null || (typeof value === 'object' && !Array.isArray(value) && Object.keys(value).length === 0);
    if (isEmpty || dull[name] === value) delete spec[name];
  }
  delete spec.type;
  if (spec.stop) spec.stop = set(spec.stop);
  if (spec.cross_validation?.repeats) spec.cross_validation = set(spec.cross_validation, { repeats: 1 });
  if (spec.cross_validation && Object.keys(spec.cross_validation).length === 0) delete spec.cross_validation;
  if (spec.split) spec.split = set(spec.split, { seed: 0, stratify: true });
  if (spec.stop && spec.stop.seconds === 600 && !spec.stop.passes) delete spec.stop;
  const model = TRAINING.includes(job.type) ? { model: job.model } : {};
  const labels = Object.keys(job.labels || {}).length ? { labels: job.labels } : {};
  return { ...(job.type === 'train' ? {} : { type: job.type }), dataset_id: job.dataset_id, ...model, ...spec, ...labels };
}

// The training that a trial of a search names: its values, at its C, without what only a search has.
export function asTraining(job, C, variant) {
  const { type: _, ...request } = asRequest(job);
  for (const name of ONLY_OF_SEARCH) delete request[name];
  const trial = job.result?.trials?.find((one) => one.C === C && String(one.variant ?? 0) === String(variant ?? 0)) || job.result?.best || {};
  for (const name of VARIED) {
    if (Array.isArray(request[name])) delete request[name];
    const value = trial[name];
    if (value !== undefined && value !== null && value !== 'auto') request[name] = value;
  }
  return { ...request, C };
}

const set = (object, dull = {}) => Object.fromEntries(Object.entries(object).filter(([name, value]) => value !== null && dull[name] !== value));
