// How a job closes in on the optimum: primal value and dual bound as a band that closes, and the gap against its target.
import { html, useMemo, useState } from './html.js';
import { axis, Chart, faded, line, powers } from './chart.js';
import { gap as gapText, number, seconds as secondsText } from './format.js';
import { Segmented } from './parts.js';

const BELOW_TOL = 30;
/* How far below `tol` the axes reach: a gap that is smaller is drawn there. */
const TICK_SHARE = 0.06;

// Upper bounds on the distance of both curves to the optimum, relative to the best primal value. The optimum lies
// between the best bound and the best value, so each curve is compared with the best of the other.
export function distances(points, tol) {
  const floor = (tol || 1e-3) / BELOW_TOL;
  const primals = points.map((one) => one.primal).filter(Number.isFinite);
  const duals = points.map((one) => one.dual_bound).filter(Number.isFinite);
  const best = Math.min(...primals);
  const bound = duals.length ? Math.max(...duals) : null;
  const scale = Math.max(Math.abs(best), 1e-300);
  const level = (distance) => Math.log10(Math.max(distance, floor) / floor);
  const above = points.map((one) => (Number.isFinite(one.primal) && bound !== null ? level((one.primal - bound) / scale) : null));
  const below = points.map((one) => (Number.isFinite(one.dual_bound) ? -level((best - one.dual_bound) / scale) : null));
  return { above, below, floor, level };
}

function decades(low, high, floor) {
  const ticks = [0];
  const least = TICK_SHARE * (high - low);  // nearer to the optimum, their texts would overlap
  for (let power = Math.ceil(Math.log10(floor) + 0.3); power - Math.log10(floor) <= Math.max(-low, high) + 1e-9; power += 1) {
    const place = power - Math.log10(floor);
    if (place < least) continue;
    if (place <= high) ticks.push(place);
    if (place <= -low) ticks.unshift(-place);
  }
  const most = 11;
  const step = Math.ceil(ticks.length / most);
  return step > 1 ? ticks.filter((tick) => tick === 0 || Math.round(Math.abs(tick) + Math.log10(floor)) % step === 0) : ticks;
}

function tickText(tick, floor) {
  if (Math.abs(tick) < 1e-9) return 'optimum';
  const share = 10 ** Math.round(Math.abs(tick) + Math.log10(floor));
  const text = share >= 1e-4 ? `${Number((100 * share).toPrecision(1))} %` : share.toExponential(0);
  return `${tick > 0 ? '+' : '−'}${text}`;
}

// Where the gap is expected to reach tol on this axis; null: not known.
export function closing(points, job, x) {
  const last = points.at(-1);
  if (!last || job.done || !Number.isFinite(job.eta_seconds)) return null;
  const at = last.seconds + job.eta_seconds;
  if (x === 'seconds') return at;
  return last.seconds > 0 ? last.passes * (at / last.seconds) : null;
}

const xAxis = (c, x) => axis(c, { label: x === 'seconds' ? 'seconds of solving' : 'passes over the data', labelSize: 20, size: 34,
  values: (_, ticks) => ticks.map((tick) => number(tick)) });

const logAxis = (c) => axis(c, { label: 'seconds of solving, log scale', labelSize: 20, size: 34, splits: (u) => powers(u.scales.x.min, u.scales.x.max),
  filter: (_, ticks) => ticks, values: (_, ticks) => ticks.map((tick) => (tick < 1 ? secondsText(tick) : `${number(tick)} s`)) });

// A grid line a decade, or every few where there are many: uPlot's own are ten a decade.
const gapAxis = (c) => axis(c, { size: 62, splits: (u) => powers(u.scales.y.min, u.scales.y.max), filter: (_, ticks) => ticks,
  values: (_, ticks) => ticks.map((tick) => tick.toExponential(0).replace('e+', 'e')) });

const known = (values) => values.reduce((count, value) => count + (value === null ? 0 : 1), 0);
const FEW = 25;

const AXES = [['seconds', 'Seconds'], ['log', 'Log seconds'], ['passes', 'Passes']];

// Places on the axis. A log axis has no zero: what was measured before the first millisecond is drawn there.
function along(points, axisOf) {
  if (axisOf === 'passes') return points.map((one) => one.passes);
  if (axisOf !== 'log') return points.map((one) => one.seconds);
  const first = points.reduce((least, one) => (one.seconds > 0 ? Math.min(least, one.seconds) : least), 1);
  return points.map((one) => Math.max(one.seconds, first));
}

export function Convergence({ points, job, tol }) {
  const [axisOf, setAxis] = useState('seconds');
  const x = axisOf === 'passes' ? 'passes' : 'seconds';
  const isLog = axisOf === 'log';
  const [view, setView] = useState('distance');
  const xs = useMemo(() => along(points, axisOf), [points, axisOf]);
  const end = closing(points, job, x);
  const last = points.at(-1);
  const range = (_, low, high) => [isLog ? low : Math.min(low, 0), Math.max(high, shared.end || 0, 1e-6) * (isLog ? 1.2 : 1.02)];
  const across = isLog ? { time: false, distr: 3, log: 10, range } : { time: false, range };
  const below = (c) => (isLog ? logAxis(c) : xAxis(c, x));

  const close = distances(points, tol);
  const live = { close, end, tol };
  const shared = useMemo(() => ({}), []);
  Object.assign(shared, live);
  const table = { columns: ['seconds', 'passes', 'primal', 'dual_bound', 'relative_gap', 'test_error'],
    rows: () => points.map((one) => [one.seconds, one.passes, one.primal, one.dual_bound, one.relative_gap, one.test_error]) };

  const distanceChart = (c) => ({
    scales: { x: across, y: { range: (_, low, high) => [Math.min(low ?? -1, -1) - 0.15, Math.max(high ?? 1, 1) + 0.15] } },
    series: [{}, { stroke: c['series-1'], width: 2, points: { show: known(close.above) < FEW, size: 5 } }, { stroke: c['series-2'], width: 2, spanGaps: true, points: { show: known(close.below) < FEW, size: 6 } }],
    bands: [{ series: [1, 2], fill: faded(c.accent, 0.13) }],
    axes: [below(c), axis(c, { size: 62, splits: (u) => decades(u.scales.y.min, u.scales.y.max, shared.close.floor),
      values: (_, ticks) => ticks.map((tick) => tickText(tick, shared.close.floor)) })],
    cursor: { y: false, points: { size: 6 } },
    hooks: { drawClear: [(u) => {
      const reach = shared.close.level(shared.tol || 0);
      const top = u.valToPos(reach, 'y', true);
      u.ctx.save();
      u.ctx.fillStyle = faded(c.good, 0.14);
      u.ctx.fillRect(u.bbox.left, top, u.bbox.width, u.valToPos(-reach, 'y', true) - top);
      u.ctx.restore();
      for (const side of [reach, -reach]) line(u, [u.scales.x.min, side], [u.scales.x.max, side], c.good, [6, 4]);
    }], draw: [(u) => {
      if (!shared.end || u.data[0].length === 0) return;
      const reach = shared.close.level(shared.tol || 0);
      const from = u.data[0].length - 1;
      for (const [index, side] of [[1, reach], [2, -reach]]) {
        const value = u.data[index][from];
        if (value !== null) line(u, [u.data[0][from], value], [shared.end, side], c.muted, [2, 4]);
      }
      line(u, [shared.end, u.scales.y.min], [shared.end, u.scales.y.max], c.muted, [2, 4], 1);
    }] },
  });

  const objectiveChart = (c) => ({
    scales: { x: across, y: { distr: 3, log: 10 } },
    series: [{}, { stroke: c['series-1'], width: 2 }, { stroke: c['series-2'], width: 2 }],
    bands: [{ series: [1, 2], fill: faded(c.accent, 0.13) }],
    axes: [below(c), axis(c, { size: 62, values: (_, ticks) => ticks.map((tick) => (tick === null ? '' : number(tick))) })],
    cursor: { y: false, points: { size: 6 } },
    hooks: { draw: [(u) => {
      const best = Math.min(...points.map((one) => one.primal).filter(Number.isFinite));
      const target = best * (1 - (shared.tol || 0));
      if (target > 0) line(u, [u.scales.x.min, target], [u.scales.x.max, target], c.good, [6, 4]);
    }] },
  });

  const gapFloor = (tol || 1e-3) / BELOW_TOL;
  const gaps = points.map((one) => (one.relative_gap === null ? null : Math.max(one.relative_gap, gapFloor)));
  const gapChart = (c) => ({
    scales: { x: across, y: { distr: 3, log: 10, range: (_, low, high) => [Math.min(low ?? gapFloor, gapFloor), Math.max(high ?? 1, 1) * 1.3] } },
    series: [{}, { stroke: c.accent, width: 2, spanGaps: true, points: { show: known(gaps) < FEW, size: 6 } }],
    axes: [below(c), gapAxis(c)],
    cursor: { y: false, points: { size: 6 } },
    hooks: { draw: [(u) => {
      if (shared.tol) line(u, [u.scales.x.min, shared.tol], [u.scales.x.max, shared.tol], c.good, [6, 4]);
      const lastGap = u.data[1].at(-1);
      if (shared.end && lastGap) line(u, [u.data[0].at(-1), lastGap], [shared.end, shared.tol], c.muted, [2, 4]);
    }] },
  });

  const errors = points.filter((one) => Number.isFinite(one.test_error));
  const positive = (value) => (value > 0 ? value : null);
  const said = last ? `After ${secondsText(last.seconds)} and ${number(last.passes)} passes the relative gap is ${gapText(last.relative_gap)}; the job ends at ${gapText(tol)}.` : 'No point yet.';
  const legend = [['primal value of the weights', 's1'], ['proven lower bound', 's2'], ['finish line: tol', 'good', 'dash'],
    ...(end ? [[`estimate: closes at ${x === 'seconds' ? secondsText(end) : `${number(Math.round(end))} passes`}`, 'muted', 'dash']] : [])];

  return html`<div class="convergence">
    <div class="row wrap">
      <${Segmented} label="What the band shows" value=${view} options=${[['distance', 'Distance to the optimum'], ['objective', 'Objective']]} onChange=${setView} />
      <${Segmented} label="Horizontal axis" value=${axisOf} options=${AXES} onChange=${setAxis} />
    </div>
    ${view === 'distance'
      ? html`<${Chart} key="distance" title="The optimum is inside the band" name="convergence" describe=${said} height=${300} shape=${`distance ${axisOf} ${known(close.below) < FEW} ${xs.length < FEW}`} make=${distanceChart}
          data=${[xs, close.above, close.below]} table=${table} legend=${legend} />`
      : html`<${Chart} key="objective" title="Objective and proven bound" name="objective" describe=${said} height=${300} shape=${`objective ${axisOf}`} make=${objectiveChart}
          data=${[xs, points.map((one) => positive(one.primal)), points.map((one) => positive(one.dual_bound))]} table=${table} legend=${legend} />`}
    <div class="two">
      <${Chart} title="Relative gap" name="relative-gap" describe=${said} height=${210} shape=${`gap ${axisOf} ${known(gaps) < FEW}`} make=${gapChart}
        data=${[xs, gaps]}
        table=${{ columns: [x, 'relative_gap'], rows: () => points.map((one) => [one[x], one.relative_gap]) }} />
      ${errors.length > 0 && html`<${Chart} title="Test error while training" name="test-error" height=${210} shape=${`error ${axisOf}`}
        describe=${`Test error is ${number(errors.at(-1).test_error)} at the end.`}
        make=${(c) => ({ scales: { x: across }, series: [{}, { stroke: c['series-3'], width: 2, points: { show: true, size: 5 } }],
          axes: [below(c), axis(c, { size: 62 })], cursor: { y: false } })}
        data=${[along(errors, axisOf), errors.map((one) => one.test_error)]}
        table=${{ columns: [x, 'test_error'], rows: () => errors.map((one) => [one[x], one.test_error]) }} />`}
    </div>
  </div>`;
}

const FAR = 20;
/* A run that took this many times as long as another makes it invisible on a linear axis. */

function areFar(runs) {
  const ends = runs.map((run) => run.points.at(-1)?.seconds).filter((value) => value > 0);
  return ends.length > 1 && Math.max(...ends) > FAR * Math.min(...ends);
}

// Gaps of several jobs in one picture: one line a job.
export function GapComparison({ runs, height = 340 }) {
  const [axisOf, setAxis] = useState(() => (areFar(runs) ? 'log' : 'seconds'));
  const x = axisOf === 'passes' ? 'passes' : 'seconds';
  const isLog = axisOf === 'log';
  const floor = Math.min(...runs.map((run) => run.tol || 1e-3)) / BELOW_TOL;
  const data = useMemo(() => {
    if (!runs.some((run) => run.points.length)) return [[], ...runs.map(() => [])];
    const first = Math.min(...runs.flatMap((run) => run.points.map((one) => one.seconds)).filter((value) => value > 0), 1);
    const place = (one) => (isLog ? Math.max(one.seconds, first) : one[x]);
    return uPlot.join(runs.map((run) => [run.points.map(place), run.points.map((one) => (one.relative_gap === null ? null : Math.min(Math.max(one.relative_gap, floor), 1)))]));
  }, [runs, axisOf]);
  const make = (c) => ({
    scales: { x: isLog ? { time: false, distr: 3, log: 10 } : { time: false, range: (_, low, high) => [0, Math.max(high ?? 1, 1e-6) * 1.02] }, y: { distr: 3, log: 10, range: (_, low) => [Math.min(low ?? floor, floor), 1.3] } },
    series: [{}, ...runs.map((run, place) => ({ label: run.name, stroke: c[`series-${place + 1}`], width: 2, spanGaps: true, points: { show: run.points.length < 25, size: 5 } }))],
    axes: [isLog ? logAxis(c) : xAxis(c, x), gapAxis(c)],
    cursor: { y: false, points: { size: 6 } },
    hooks: { draw: [(u) => { for (const tol of new Set(runs.map((run) => run.tol).filter(Boolean))) line(u, [u.scales.x.min, tol], [u.scales.x.max, tol], c.good, [6, 4]); }] },
  });
  return html`<div class="convergence"><div class="row wrap"><${Segmented} label="Horizontal axis" value=${axisOf} options=${AXES} onChange=${setAxis} /></div>
    <${Chart} title="Relative gap, proven" name="compared-gaps" height=${height} shape=${`${axisOf} ${runs.map((run) => `${run.id}${run.points.length < 25}`)}`} make=${make} data=${data}
      describe=${runs.map((run) => `${run.name}: ${gapText(run.points.at(-1)?.relative_gap)}`).join('; ')}
      legend=${[...runs.map((run, place) => [run.name, `s${place + 1}`]), ['tol', 'good', 'dash']]}
      table=${{ columns: ['job', 'seconds', 'passes', 'primal', 'dual_bound', 'relative_gap'],
        rows: () => runs.flatMap((run) => run.points.map((one) => [run.id, one.seconds, one.passes, one.primal, one.dual_bound, one.relative_gap])) }} /></div>`;
}

