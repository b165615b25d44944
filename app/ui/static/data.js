// What screens load and follow: resources, pages of lists, one stream of events for the whole page.
import { useCallback, useEffect, useRef, useState } from './html.js';
import { address, get } from './api.js';

// One resource. `reload` and another query keep what is shown until the answer comes, so nothing jumps.
export function useResource(path, query, { every = 0 } = {}) {
  const [state, setState] = useState({ data: null, error: null, loading: true });
  const asked = path ? address(path, query).href : null;
  const turn = useRef(0);
  const shownPath = useRef(null);
  const load = useCallback(async (quiet) => {
    if (!asked) return;
    const mine = ++turn.current;
    const isSame = shownPath.current === path;
    shownPath.current = path;
    if (!quiet) setState((before) => ({ data: isSame ? before.data : null, error: null, loading: true }));
    try {
      const data = await get(path, query);
      if (mine === turn.current) setState({ data, error: null, loading: false });
    } catch (error) {
      if (mine === turn.current) setState((before) => ({ data: quiet ? before.data : null, error, loading: false }));
    }
  }, [asked]);
  useEffect(() => { load(false); return () => { turn.current += 1; }; }, [load]);
  useEffect(() => {
    if (!every) return undefined;
    const timer = setInterval(() => { if (!document.hidden) load(true); }, every);
    return () => clearInterval(timer);
  }, [load, every]);
  const change = useCallback((next) => setState((before) => ({ ...before, data: typeof next === 'function' ? next(before.data) : next })), []);
  return { ...state, reload: () => load(true), change };
}

// A list with cursors. The cursors of the pages behind us are kept for going back.
export function usePages(path, query, cursor, limit = 50) {
  return useResource(path, { ...query, limit, cursor });
}

const listeners = new Set();
let source = null;
const TYPES = ['queued', 'running', 'paused', 'succeeded', 'failed', 'cancelled', 'progress', 'trial', 'compiling', 'resumed', 'restarted',
  'waiting', 'pause_requested', 'finish_requested', 'cancel_requested', 'resume_requested'].map((name) => `job.${name}`);
const CLOSED = 2;
const RETRY_MS = 5000;

function open() {
  if (source || !listeners.size) return;
  source = new EventSource(address('v1/events'), { withCredentials: true });
  const tell = (message) => { const event = JSON.parse(message.data); for (const one of [...listeners]) one(event); };
  for (const type of TYPES) source.addEventListener(type, tell);
  source.onerror = () => {
    if (source?.readyState !== CLOSED) return;  // the browser reconnects by itself
    close();
    setTimeout(open, RETRY_MS);
  };
}

function close() { source?.close(); source = null; }

// Calls `listen` with every event of every job while the screen is shown.
export function useEvents(listen) {
  const latest = useRef(listen);
  latest.current = listen;
  useEffect(() => {
    const one = (event) => latest.current(event);
    listeners.add(one);
    open();
    return () => { listeners.delete(one); if (!listeners.size) close(); };
  }, []);
}

addEventListener('pagehide', close);
addEventListener('pageshow', open);

// At most one call each `ms`, and one at the end: many events, few reloads.
export function useThrottled(work, ms = 1000) {
  const latest = useRef(work);
  latest.current = work;
  const timer = useRef(null);
  useEffect(() => () => clearTimeout(timer.current), []);
  return useCallback(() => {
    if (timer.current) return;
    timer.current = setTimeout(() => { timer.current = null; latest.current(); }, ms);
  }, [ms]);
}

// A value that follows typing after a pause.
export function useSettled(value, ms = 350) {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}
