// A race: the same problem by several solvers at once. Their gaps in one picture, and the order in which they finished.
import { html, useMemo } from '../html.js';
import { GapComparison } from '../convergence.js';
import { gap, number, plural, seconds } from '../format.js';
import { Announce, Card, Empty, Stat } from '../parts.js';
import { SortableTable } from '../sortable.js';

// One entry a solver: what the result says of it, in the order of the finish, or its last point while it runs.
function runnersOf(job, points, tol) {
  const pointsOf = (solver) => points.filter((one) => one.solver === solver);
  if (job.result?.race) return job.result.race.map((one, place) => ({ ...one, place: place + 1, points: pointsOf(one.solver), reached: one.status === 'converged' }));
  const runners = (job.spec?.solvers || []).map((solver) => {
    const own = pointsOf(solver);
    return { status: job.done ? job.status : own.length ? 'running' : 'waiting', detail: null, ...own.at(-1), solver, points: own };
  });
  const distance = (one) => one.relative_gap ?? Infinity;
  return runners.sort((a, b) => distance(a) - distance(b)).map((one, place) => ({ ...one, place: place + 1, reached: distance(one) <= tol }));
}

export function Race({ job, points, tol }) {
  const runners = useMemo(() => runnersOf(job, points, tol ?? 0), [job.result, job.status, points, tol]);
  const winner = job.result?.winner || null;
  const leader = runners[0];
  const runs = useMemo(() => runners.map((one) => ({ id: one.solver, name: one.solver, tol, points: one.points })).filter((one) => one.points.length), [runners]);
  return html`
    <${Announce} text=${winner ? `${winner} reached the target first.` : ''} />
    <dl class="stats">
      <${Stat} label=${winner ? 'Winner' : 'In front'} value=${winner || leader?.solver || '–'} tone=${winner ? 'good' : ''} note=${winner ? `the first to a gap of ${gap(tol)}` : `target ${gap(tol)}`} />
      <${Stat} label=${winner ? 'Reached the target in' : 'Smallest gap'} value=${winner ? seconds(runners.find((one) => one.solver === winner)?.seconds) : gap(leader?.relative_gap)} note=${winner ? 'of solving' : null} />
      <${Stat} label="Solvers" value=${number(runners.length)} note=${`${plural(runners.filter((one) => one.reached).length, 'solver')} at the target`} />
    </dl>
    <${Card} title="The race" note=${job.done ? null : 'live'}>${runs.length ? html`<${GapComparison} runs=${runs} />` : html`<${Empty} title="Waiting for the first point">Every solver starts from the same data; their curves appear here.</${Empty}>`}</${Card}>
    ${runners.length > 0 && html`<${Card} flush title=${job.done ? 'Finish order' : 'Order so far'}><${SortableTable} caption="finish order" initial="place" rows=${runners} rowClass=${(one) => (one.solver === winner ? 'picked' : '')} columns=${[
      { name: 'place', value: (one) => one.place },
      { name: 'solver', value: (one) => one.solver, cell: (one) => html`<strong>${one.solver}</strong>${one.solver === winner && html` <span class="good">winner</span>`}` },
      { name: 'relative_gap', head: 'gap', value: (one) => one.relative_gap, cell: (one) => html`<span class=${`mono ${one.reached ? 'good' : ''}`}>${gap(one.relative_gap)}</span>` },
      { name: 'seconds', value: (one) => one.seconds, cell: (one) => seconds(one.seconds) },
      { name: 'passes', value: (one) => one.passes },
      { name: 'primal', value: (one) => one.primal, cell: (one) => number(one.primal, 7) },
      { name: 'status', value: (one) => one.status, cell: (one) => html`${one.status.replaceAll('_', ' ')}${one.detail && html`<br /><bdi class="muted">${one.detail}</bdi>`}` },
    ]} /></${Card}>`}`;
}
