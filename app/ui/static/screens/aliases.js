// Which version answers: aliases with a canary, a shadow, their history and the way back.
import { html, useState } from '../html.js';
import { call, post } from '../api.js';
import { useResource } from '../data.js';
import { number, percent } from '../format.js';
import { Card, Code, Confirm, Empty, ErrorBox, Field, Loading, Table, When } from '../parts.js';
import { can } from '../session.js';

export function Aliases({ name, versions, version }) {
  const path = `v1/models/${encodeURIComponent(name)}/aliases`;
  const loaded = useResource(path, { limit: 100 });
  const [alias, setAlias] = useState('prod');
  const [state, setState] = useState({ busy: false, error: null });
  const found = loaded.data?.data || [];
  const promote = async (event) => {
    event.preventDefault();
    setState({ busy: true, error: null });
    try { await call('PUT', `${path}/${encodeURIComponent(alias)}`, { body: { version } }); loaded.reload(); setState({ busy: false, error: null }); } catch (error) { setState({ busy: false, error }); }
  };
  return html`
    ${can('write') && html`<${Card} title="Promote this version"><form class="row wrap start" onSubmit=${promote}>
      <${Field} label="Alias" hint=${`requests to ${name}@${alias || '…'} go to version ${version}`}>${(input) => html`<input ...${input} type="text" value=${alias} pattern="[A-Za-z0-9][A-Za-z0-9._\\-]*" required onInput=${(event) => setAlias(event.target.value)} />`}</${Field}>
      <button class="primary" disabled=${state.busy || !alias}>Promote version ${version}</button>
      <${Code} request=${{ method: 'PUT', path: `${path}/${alias || 'prod'}`, body: { version } }} /></form><${ErrorBox} error=${state.error} /></${Card}>`}
    <${ErrorBox} error=${loaded.error} retry=${loaded.reload} />
    ${loaded.loading && html`<${Card}><${Loading} /></${Card}>`}
    ${loaded.data && found.length === 0 && html`<${Card}><${Empty} title="No alias yet">An alias names the version that answers: clients ask <code>${name}@prod</code>, you move it here, a share at a time if you like, and back in one click.</${Empty}></${Card}>`}
    ${found.map((one) => html`<${Alias} key=${one.alias} alias=${one} path=${`${path}/${encodeURIComponent(one.alias)}`} versions=${versions} reload=${loaded.reload} />`)}`;
}

function Alias({ alias, path, versions, reload }) {
  const heaviest = alias.version;
  const other = alias.targets.find((one) => one.version !== heaviest);
  const [canary, setCanary] = useState(other?.version || '');
  const [share, setShare] = useState(other ? Math.round(100 * other.weight) : 10);
  const [stable, setStable] = useState(heaviest);
  const [shadow, setShadow] = useState(alias.shadow || '');
  const [asking, setAsking] = useState(false);
  const [error, setError] = useState(null);
  const history = useResource(`${path}/history`, { limit: 20 });
  const body = { ...(canary && share > 0 && Number(canary) !== Number(stable)
    ? { targets: [{ version: Number(stable), weight: (100 - share) / 100 }, { version: Number(canary), weight: share / 100 }].filter((one) => one.weight > 0) } : { version: Number(stable) }),
  ...(shadow ? { shadow: Number(shadow) } : {}) };
  const done = () => { reload(); history.reload(); };
  const attempt = async (work) => { setError(null); try { await work(); done(); } catch (problem) { setError(problem); } };
  const save = () => attempt(() => call('PUT', path, { body, headers: { 'If-Match': `"${alias.revision}"` } }));
  const back = (revision) => attempt(async () => {
    const next = await post(`${path}/rollback`, revision ? { revision } : {});
    const second = next.targets.find((one) => one.version !== next.version);
    setStable(next.version); setCanary(second?.version || ''); setShare(second ? Math.round(100 * second.weight) : 10); setShadow(next.shadow || '');
  });
  const may = can('write');
  const options = [...new Set([...versions.map((one) => one.version), ...alias.targets.map((one) => one.version)])].sort((a, b) => b - a);
  const pickers = (value, set, empty) => (input) => html`<select ...${input} value=${value} onChange=${(event) => set(event.target.value)}>${empty && html`<option value="">${empty}</option>`}${options.map((one) => html`<option value=${one}>version ${one}</option>`)}</select>`;
  return html`<${Card} title=${html`@<bdi>${alias.alias}</bdi>`} note=${html`revision ${alias.revision}, <${When} at=${alias.updated_at} />`} actions=${html`<${Code} requests=${[['Apply', { method: 'PUT', path, body }], ['Roll back', { method: 'POST', path: `${path}/rollback`, body: {} }], ['Delete', { method: 'DELETE', path }], ['History', { path: `${path}/history` }]]} />${may && html`<button type="button" class="ghost" disabled=${alias.revision < 2} onClick=${() => back()}>Roll back</button><button type="button" class="danger" onClick=${() => setAsking(true)}>Delete</button>`}`}>
    <div class="stack">
      <div class="split-bar" role="img" aria-label=${alias.targets.map((one) => `version ${one.version}: ${percent(one.weight, 0)}`).join(', ')}>${alias.targets.map((one, place) => html`<span class=${`part part-${place % 4}`} style=${{ flexGrow: one.weight }}>v${one.version} · ${percent(one.weight, 0)}</span>`)}</div>
      ${alias.shadow_stats && html`<p class="fine">Shadow v${alias.shadow}: ${number(alias.shadow_stats.rows)} rows mirrored, ${number(alias.shadow_stats.label_differences)} labels differ.</p>`}
      ${may && html`<div class="form"><${Field} label="Serves">${pickers(stable, setStable)}</${Field}><${Field} label="Canary">${pickers(canary, setCanary, 'none')}</${Field}>
        <${Field} label=${`Share of the canary: ${share} %`}>${(input) => html`<input ...${input} type="range" min="0" max="100" step="1" disabled=${!canary} value=${share} onInput=${(event) => setShare(Number(event.target.value))} />`}</${Field}>
        <${Field} label="Shadow" hint="scores every request, answers none">${pickers(shadow, setShadow, 'none')}</${Field}></div>
        <div class="actions"><button type="button" class="primary" onClick=${save}>Apply</button></div>`}
      <${ErrorBox} error=${error} retry=${reload} />
      ${history.data && html`<${Table} caption=${`History of ${alias.alias}`} rows=${history.data.data} columns=${[
        { head: 'Revision', num: true, cell: (one) => one.revision },
        { head: 'Targets', wide: true, cell: (one) => (one.targets ? one.targets.map((target) => `v${target.version} ${percent(target.weight, 0)}`).join(', ') : 'deleted') + (one.shadow ? `, shadow v${one.shadow}` : '') },
        { head: 'When', cell: (one) => html`<${When} at=${one.created_at} />` },
        { head: '', cell: (one) => (may && one.targets && one.revision !== alias.revision ? html`<button type="button" class="ghost small" onClick=${() => back(one.revision)}>Go back to it</button>` : '') },
      ]} />`}
    </div>
    ${asking && html`<${Confirm} title="Delete the alias?" text="Requests to it are refused from then on. Rolling back brings it back." action="Delete" danger request=${{ method: 'DELETE', path }} onYes=${async () => { await call('DELETE', path); reload(); }} onClose=${() => setAsking(false)} />`}
  </${Card}>`;
}
