// The cross-validated figure against C: means with their spread, the proven bounds of every C as a band, the best C.
import { html, useMemo } from './html.js';
import { axis, Chart, faded, line, powers } from './chart.js';
import { number, plural } from './format.js';

const ROOM = 0.06;
/* Free share of the vertical axis above and below the figures. */
const WHISKER = 3;
/* Half the width of the end of an error bar, in pixels. */
const FEW = 40;
/* Trials up to which error bars have ends; more would cover each other. */
const MOST_LINES = 10;
/* Variants with a line of their own; the table has all. */
const HIGHER_IS_BETTER = new Set(['accuracy', 'balanced_accuracy', 'f1', 'precision', 'recall', 'roc_auc', 'pr_auc', 'r2', 'kendall_tau', 'ndcg']);

export const isBetterHigh = (metric) => HIGHER_IS_BETTER.has(metric);
const WORDS = { roc_auc: 'ROC AUC', pr_auc: 'PR AUC', f1: 'F1', mae: 'MAE', mse: 'MSE', rmse: 'RMSE', r2: 'R²', ndcg: 'NDCG', kendall_tau: 'Kendall tau' };

export const metricWords = (metric) => WORDS[metric] || (metric || 'error').replaceAll('_', ' ');
export const sameVariant = (a, b) => (a?.variant ?? 0) === (b?.variant ?? 0);

// Trials with as many folds as any has. The mean over fewer folds is not comparable.
export function complete(trials) {
  const most = trials.reduce((folds, one) => Math.max(folds, one.folds || 0), 0);
  return trials.filter((one) => (one.folds || 0) === most);
}

export function bestOf(trials, metric) {
  const sign = isBetterHigh(metric) ? -1 : 1;
  return trials.reduce((best, one) => (Number.isFinite(one.mean) && (!best || sign * one.mean < sign * best.mean) ? one : best), null);
}

export const costAxis = (c) => axis(c, { label: 'C, log scale', labelSize: 20, size: 34, splits: (u) => powers(u.scales.x.min, u.scales.x.max), filter: (_, ticks) => ticks,
  values: (_, ticks) => ticks.map((tick) => (tick >= 1e-3 && tick < 1e5 ? number(tick) : tick.toExponential(0).replace('e+', 'e'))) });

// A line at a C, as high as the plot.
export function markCost(u, C, colour) {
  if (C > 0) line(u, [C, u.scales.y.min], [C, u.scales.y.max], colour, [2, 4]);
}

function drawBand(u, steps, c) {
  u.ctx.save();
  u.ctx.fillStyle = faded(c['series-2'], 0.16);
  for (const [low, high, lower, upper] of steps) {
    const left = u.valToPos(low, 'x', true);
    const top = u.valToPos(upper, 'y', true);
    u.ctx.fillRect(left, top, u.valToPos(high, 'x', true) - left, u.valToPos(lower, 'y', true) - top);
  }
  for (const [place, colour, width] of [[2, c['series-2'], 1.75], [3, faded(c['series-2'], 0.55), 1]]) {
    u.ctx.beginPath();
    u.ctx.strokeStyle = colour;
    u.ctx.lineWidth = width * devicePixelRatio;
    for (const step of steps) {
      u.ctx.lineTo(u.valToPos(step[0], 'x', true), u.valToPos(step[place], 'y', true));
      u.ctx.lineTo(u.valToPos(step[1], 'x', true), u.valToPos(step[place], 'y', true));
    }
    u.ctx.stroke();
  }
  u.ctx.restore();
}

function drawSpread(u, trials, colour) {
  const isDense = trials.length > FEW;
  u.ctx.save();
  u.ctx.strokeStyle = faded(colour, isDense ? 0.25 : 0.45);
  u.ctx.lineWidth = devicePixelRatio;
  u.ctx.beginPath();
  for (const { C, mean, std } of trials) {
    if (!Number.isFinite(std) || !Number.isFinite(mean)) continue;
    const x = u.valToPos(C, 'x', true);
    const ends = [u.valToPos(mean - std, 'y', true), u.valToPos(mean + std, 'y', true)];
    u.ctx.moveTo(x, ends[0]);
    u.ctx.lineTo(x, ends[1]);
    for (const y of isDense ? [] : ends) { u.ctx.moveTo(x - WHISKER * devicePixelRatio, y); u.ctx.lineTo(x + WHISKER * devicePixelRatio, y); }
  }
  u.ctx.stroke();
  u.ctx.restore();
}

function heights(trials, steps) {
  const found = [...trials.flatMap(({ mean, std }) => [mean - (std || 0), mean + (std || 0)]), ...steps.flatMap((step) => [step[2], step[3]])].filter(Number.isFinite);
  if (!found.length) return [0, 1];
  const [low, high] = [found.reduce((a, b) => Math.min(a, b)), found.reduce((a, b) => Math.max(a, b))];
  const room = ROOM * Math.max(high - low, 1e-6 * Math.max(Math.abs(high), 1e-9));
  return [low - room, high + room];
}

// `trials` may still grow; `certificate` comes at the end.
export function SearchCurve({ trials, best, metric, certificate, nameOf }) {
  const steps = certificate?.steps || [];
  const variants = useMemo(() => {
    const found = new Map();
    for (const one of trials) found.set(one.variant ?? 0, [...(found.get(one.variant ?? 0) || []), one]);
    const lines = [...found.values()].map((group) => group.sort((a, b) => a.C - b.C));
    return lines.sort((a, b) => sameVariant(b[0], best) - sameVariant(a[0], best)).slice(0, MOST_LINES);
  }, [trials, best?.variant]);
  const data = useMemo(() => (variants.length ? uPlot.join(variants.map((group) => [group.map((one) => one.C), group.map((one) => one.mean)])) : [[], []]), [variants]);
  const shared = useMemo(() => ({}), []);
  const floor = certificate && (isBetterHigh(metric) ? certificate.best + certificate.epsilon_reached : certificate.best - certificate.epsilon_reached);
  Object.assign(shared, { variants, steps, best, floor });
  const costs = [...trials.map((one) => one.C), ...steps.flatMap((step) => [step[0], step[1]])].filter((value) => value > 0);
  shared.range = costs.length ? [costs.reduce((a, b) => Math.min(a, b)) / 1.15, costs.reduce((a, b) => Math.max(a, b)) * 1.15] : [0.1, 10];
  shared.heights = heights(variants.flat(), steps);
  const make = (c) => ({
    scales: { x: { time: false, distr: 3, log: 10, range: () => shared.range }, y: { range: () => shared.heights } },
    series: [{}, ...variants.map((_, place) => ({ stroke: c[`series-${place === 1 ? 3 : place === 2 ? 4 : place + 1}`], width: place ? 1.5 : 2, spanGaps: true, points: { show: place === 0, size: 5 } }))],
    axes: [costAxis(c), axis(c, { size: 62, values: (_, ticks) => ticks.map((tick) => number(tick, 3)) })],
    cursor: { y: false, points: { size: 6 } },
    hooks: { drawAxes: [(u) => {
      drawBand(u, shared.steps, c);
      if (Number.isFinite(shared.floor)) line(u, [u.scales.x.min, shared.floor], [u.scales.x.max, shared.floor], c.good, [6, 4]);
      if (shared.variants.length) drawSpread(u, shared.variants[0], c['series-1']);
      markCost(u, shared.best?.C, c.text);
    }] },
  });
  const words = metricWords(metric);
  const legend = [...variants.map((group, place) => [variants.length > 1 ? nameOf(group[0]) : `mean ${words} of the folds, bars: ± one standard deviation`, `s${place === 1 ? 3 : place === 2 ? 4 : place + 1}`]),
    ...(steps.length ? [['proven bounds for every C', 's2'], [`${isBetterHigh(metric) ? 'no C is above' : 'no C is below'} ${number(floor)}`, 'good', 'dash']] : []),
    ...(best ? [[`best: C = ${number(best.C)}`, 'text', 'dash']] : [])];
  return html`<${Chart} title=${`Cross-validated ${words} against C`} name="cross-validation" height=${340} shape=${`cv ${variants.length} ${steps.length}`} make=${make} data=${data} legend=${legend}
    describe=${best ? `${words} against C: the best of ${trials.length} values is ${number(best.mean)} at C = ${number(best.C)}` : 'no value of C is finished yet'}
    table=${{ columns: ['C_low', 'C_high', 'mean', 'std', 'lower', 'upper'], rows: () => [...trials.map((one) => [one.C, one.C, one.mean, one.std, one.lower_bound, one.upper_bound]),
      ...steps.map((step) => [step[0], step[1], null, null, step[2], step[3]])].sort((a, b) => a[0] - b[0] || a[1] - b[1]) }} />`;
}

// What the certificate means, in one sentence.
export function Proof({ certificate, metric, reason }) {
  if (!certificate) return reason ? html`<div class="notice warning"><strong>There is no proof.</strong> <bdi>${reason}</bdi></div>` : null;
  const [low, high] = certificate.range;
  const up = isBetterHigh(metric);
  const limit = up ? certificate.best + certificate.epsilon_reached : certificate.best - certificate.epsilon_reached;
  const undecided = certificate.undecided > 0 ? ` In the weakest part of the range ${plural(certificate.undecided, 'held-out row')} of ${number(certificate.undecided + (certificate.decided || 0))} stayed undecided.` : '';
  return html`<div class=${`notice ${certificate.proven ? 'good-notice' : 'warning'}`}><span><strong>${certificate.proven ? 'Proven.' : `Proven only for epsilon = ${number(certificate.epsilon_reached, 3)}.`}</strong>
    ${' '}No C from ${number(low)} to ${number(high)}, tried or not, has a cross-validated ${metricWords(metric)} ${up ? 'above' : 'below'} ${number(limit)}: the best found, ${number(certificate.best)} at C = ${number(certificate.C)}, can be beaten by at most ${number(certificate.epsilon_reached, 3)}.</span>
    <span class="muted">${reason && html`<bdi>${reason}</bdi> `}${plural(certificate.values, 'value')} of C were trained for the proof.${undecided}</span></div>`;
}

// The search behind one model: its curve if it has one, what was proved, and where to read more.
export function ChosenC({ tuning, link }) {
  const { best, metric, trials, certificate, reason } = tuning;
  return html`<div class="stack"><p>C = <strong>${number(best.C)}</strong> had the best ${metricWords(metric)} on held-out rows: ${number(best.mean)}${Number.isFinite(best.std) ? ` ± ${number(best.std, 2)}` : ''}, over ${plural(tuning.folds, 'fold')}. ${link}</p>
    ${certificate?.steps ? html`<${Proof} certificate=${certificate} metric=${metric} reason=${reason} />` : reason && !(trials?.length > 1) && html`<p class="muted"><bdi>${reason}</bdi></p>`}
    ${trials?.length > 1 && html`<${SearchCurve} trials=${complete(trials)} best=${best} metric=${metric} certificate=${certificate?.steps ? certificate : null} nameOf=${() => 'all'} />`}</div>`;
}
