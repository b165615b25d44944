// The frame around every screen: sign-in, navigation, theme, and the choice of the screen by the address.
import { html, render, useEffect, useErrorBoundary, useRef, useState } from './html.js';
import { ApiError, configure } from './api.js';
import { useEvents, useResource, useThrottled } from './data.js';
import { ErrorBox, Page } from './parts.js';
import { href, useRoute } from './router.js';
import { load, session, signOut } from './session.js';
import { Compare } from './screens/compare.js';
import { Dataset } from './screens/dataset.js';
import { Datasets } from './screens/datasets.js';
import { Job } from './screens/job.js';
import { Jobs } from './screens/jobs.js';
import { Model } from './screens/model.js';
import { Models } from './screens/models.js';
import { NewJob } from './screens/new_job.js';
import { Operate } from './screens/operate.js';
import { Overview } from './screens/overview.js';
import { SignIn } from './screens/sign_in.js';
import { TryIt } from './screens/try_it.js';
import { Versions } from './screens/versions.js';

const ICONS = {
  overview: 'M3 13h7V3H3zM14 21h7V11h-7zM3 21h7v-4H3zM14 7h7V3h-7z',
  datasets: 'M4 6c0-1.7 3.6-3 8-3s8 1.3 8 3-3.6 3-8 3-8-1.3-8-3zM4 6v12c0 1.7 3.6 3 8 3s8-1.3 8-3V6M4 12c0 1.7 3.6 3 8 3s8-1.3 8-3',
  jobs: 'M3 5c5 0 7 14 18 14M3 19c5 0 7-4 18-4',
  models: 'M12 3 4 7v10l8 4 8-4V7zM4 7l8 4 8-4M12 11v10',
  try: 'M5 12h14M13 6l6 6-6 6',
  operate: 'M4 7h10M18 7h2M4 17h2M10 17h10M16 5v4M8 15v4',
};
const PLACES = [['overview', 'Overview'], ['datasets', 'Datasets'], ['jobs', 'Jobs'], ['models', 'Models'], ['try', 'Try it'], ['operate', 'Operate']];

function screen(parts) {
  const [place, id, more] = parts;
  if (!place || place === 'overview') return Overview;
  if (place === 'jobs') return id === 'new' ? NewJob : id === 'compare' ? Compare : id ? Job : Jobs;
  if (place === 'datasets') return id ? Dataset : Datasets;
  if (place === 'models') return !id ? Models : more === 'versions' ? Versions : Model;
  return { try: TryIt, operate: Operate }[place] || Missing;
}

function Missing() {
  return html`<${Page} title="No such page"><p>This address leads nowhere. <a href=${href('overview')}>Go to the overview</a>.</p></${Page}>`;
}

function Screen({ route }) {
  const [error, reset] = useErrorBoundary();
  useEffect(() => { if (error) reset(); }, [route.path]);
  if (error) return html`<${Page} title="This screen failed"><${ErrorBox} error=${new ApiError({ code: 'page_error', detail: String(error?.message || error) }, 0)} retry=${reset} /></${Page}>`;
  const Shown = screen(route.parts);
  return html`<${Shown} key=${route.parts.join('/')} route=${route} />`;
}

const THEMES = [['', 'Auto'], ['light', 'Light'], ['dark', 'Dark']];

function ThemeSwitch() {
  const [theme, setTheme] = useState(document.documentElement.dataset.theme || '');
  const choose = (event) => {
    const chosen = event.target.value;
    setTheme(chosen);
    try { localStorage.setItem('hyperplane.theme', chosen); } catch { /* storage is switched off: it holds until the page is closed */ }
    if (chosen) document.documentElement.dataset.theme = chosen;
    else delete document.documentElement.dataset.theme;
    dispatchEvent(new Event('theme'));
  };
  return html`<label class="row"><span class="offscreen">Theme</span><select class="theme" aria-label="Theme" value=${theme} onChange=${choose}>
    ${THEMES.map(([value, text]) => html`<option value=${value}>${text} theme</option>`)}</select></label>`;
}

function Shell({ onSignedOut }) {
  const route = useRoute();
  const main = useRef(null);
  const first = useRef(true);
  const system = useResource('v1/system', null, { every: 20_000 });
  const refresh = useThrottled(system.reload, 1500);
  useEvents((event) => { if (event.type !== 'job.progress') refresh(); });
  useEffect(() => {  // a new screen is read from its title; the first one leaves the focus alone
    if (first.current) { first.current = false; return; }
    scrollTo(0, 0);
    main.current?.querySelector('h1')?.focus({ preventScroll: true });
  }, [route.path]);
  const place = route.parts[0] || 'overview';
  const jobs = system.data?.jobs;
  const active = jobs ? jobs.running + jobs.queued : 0;
  const leave = async () => { try { await signOut(); } finally { onSignedOut(); } };
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); main.current?.querySelector('h1')?.focus(); }}>Skip to the content</a>
  <div class="shell">
    <div class="side">
      <a class="brand" href=${href('overview')}><img src=${new URL('icon.svg', import.meta.url).href} alt="" width="26" height="26" />Hyperplane</a>
      <nav class="nav" aria-label="Main">${PLACES.map(([name, text]) => html`<a href=${href(name)} aria-current=${place === name ? 'page' : null}>
        <svg viewBox="0 0 24 24" aria-hidden="true"><path d=${ICONS[name]} /></svg>${text}
        ${name === 'jobs' && active > 0 && html`<span class="count" title="running and queued">${active}</span>`}</a>`)}</nav>
      <div class="foot">
        ${session.signed_in && html`<span class="fine"><bdi>${session.key_id}</bdi><br />may ${session.scopes.join(', ')}</span>
          <button type="button" class="ghost small" onClick=${leave}>Sign out</button>`}
        <${ThemeSwitch} />
        <span class="fine">${system.data ? html`Version ${system.data.version} · <a href=${new URL('../docs', document.baseURI).href}>API docs</a>` : ' '}</span>
      </div>
    </div>
    <main class="main" id="main" ref=${main}><${Screen} route=${route} /></main>
  </div>`;
}

function App() {
  const [state, setState] = useState({ ready: false, error: null });
  const begin = async () => {
    try { await load(); setState({ ready: true, error: null }); } catch (error) { setState({ ready: false, error }); }
  };
  useEffect(() => {
    configure({ onSignedOut: () => { if (session.required) { session.signed_in = false; setState((before) => ({ ...before })); } else begin(); } });
    begin();
  }, []);
  if (state.error) return html`<div class="main"><${Page} title="Hyperplane"><${ErrorBox} error=${state.error} retry=${begin} /></${Page}></div>`;
  if (!state.ready) return html`<p class="boot" role="status">Loading the dashboard …</p>`;
  if (session.required && !session.signed_in) return html`<${SignIn} onDone=${begin} />`;
  return html`<${Shell} onSignedOut=${begin} />`;
}

const place = document.getElementById('app');
place.replaceChildren();
render(html`<${App} />`, place);
