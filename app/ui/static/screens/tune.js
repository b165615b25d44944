// A search for C: its curve with the proven bounds, what was proved in one sentence, the trials, the coefficients along C.
import { html, useMemo, useState } from '../html.js';
import { axis, Chart } from '../chart.js';
import { bestOf, complete, costAxis, markCost, metricWords, Proof, sameVariant, SearchCurve } from '../cv_curve.js';
import { useResource } from '../data.js';
import { gap, number, percent, plural, seconds } from '../format.js';
import { Announce, Bar, Card, Code, Empty, Field, Loading, Stat } from '../parts.js';
import { href } from '../router.js';
import { can } from '../session.js';
import { SortableTable } from '../sortable.js';

const VARIED = ['loss', 'p', 'epsilon', 'strategy', 'class_weight', 'preprocess'];
const PHASES = { search: 'Searching C', certify: 'Proving that no C is better', refit: 'Training the final model' };
const PATHS_DRAWN = 8;

const asText = (value) => (value === null || value === undefined ? null : typeof value === 'object' ? JSON.stringify(value) : value);

// Trials of a running job come as events; those of an ended one are in its result.
export function trialsOf(job, events) {
  if (job.result?.trials) return job.result.trials;
  const found = new Map();
  const told = events.filter((one) => one.type === 'job.trial').flatMap((one) => one.data.trials);
  for (const trial of told) found.set(`${trial.variant} ${trial.C}`, trial);
  return [...found.values()];
}

export function Tune({ job, events }) {
  const result = job.result?.trials ? job.result : null;
  const started = useMemo(() => trialsOf(job, events), [job.result, events]);
  const trials = useMemo(() => complete(started), [started]);
  const metric = result?.metric || job.spec?.metric || 'error';
  const best = result?.best || bestOf(trials, metric);
  const certificate = result?.certificate?.steps ? result.certificate : null;
  const last = events.findLast((one) => one.type === 'job.progress')?.data || {};
  const varied = VARIED.filter((name) => new Set(trials.map((one) => JSON.stringify(one[name] ?? null))).size > 1);
  const nameOf = (one) => varied.map((name) => `${name} ${asText(one[name]) ?? 'none'}`).join(', ') || 'all';
  const words = metricWords(metric);
  return html`
    <${Announce} text=${job.done ? `The search ended. Best C ${number(best?.C)}.` : `${PHASES[last.phase] || job.status}, best C so far ${number(best?.C)}`} />
    <dl class="stats">
      <${Stat} label=${job.done ? 'Best C' : 'Best C so far'} value=${number(best?.C)} note=${best && varied.length ? nameOf(best) : result?.rule === '1se' ? 'the smallest within one standard error' : null} tone=${job.done && best ? 'good' : ''} />
      <${Stat} label=${`${words}, cross-validated`} value=${number(best?.mean)} note=${Number.isFinite(best?.std) ? `± ${number(best.std, 2)} over the folds` : null} />
      ${certificate ? html`<${Stat} label="Certified epsilon" value=${number(certificate.epsilon_reached, 3)} note=${certificate.proven ? 'proven for every C of the range' : `asked for: ${number(certificate.epsilon, 3)}`} tone=${certificate.proven ? 'good' : ''} />`
        : html`<${Stat} label="Certified epsilon" value="–" note=${job.done ? result?.reason || 'no proof was asked for' : job.spec?.certify ? 'comes with the proof' : 'no proof was asked for'} />`}
      ${job.done ? html`<${Stat} label="Took" value=${seconds(result?.seconds)} note=${result && !result.finished ? 'it was ended early' : plural(trials.length, 'trial')} />`
        : html`<${Stat} label=${PHASES[last.phase] || 'Progress'} value=${percent(job.progress, 0)} note=${html`<${Bar} value=${job.progress} />`} />
          <${Stat} label="Trainings" value=${number(last.trainings)} note=${last.planned ? `of about ${number(last.planned)}` : null} />
          <${Stat} label="Ends in" value=${seconds(job.eta_seconds)} note="estimate" />`}
    </dl>
    <${Card} title="The search" note=${job.done ? null : started.length > trials.length ? `live, ${plural(started.length - trials.length, 'value')} of C with fewer folds so far` : 'live'} actions=${best && job.done && can('write') && html`<a class="button primary" href=${href(['jobs', 'new'], { from: job.id, C: best.C, variant: best.variant })}>Train with this C</a>`}>
      ${trials.length ? html`<div class="stack"><${Proof} certificate=${certificate} metric=${metric} reason=${result?.reason} /><${SearchCurve} trials=${trials} best=${best} metric=${metric} certificate=${certificate} nameOf=${nameOf} /></div>`
        : html`<${Empty} title=${job.done ? 'No value of C was finished' : 'Waiting for the first value of C'}>${job.status === 'queued' ? 'The job waits for a worker.' : 'Every C is trained once for each fold; a point appears when its folds are done.'}</${Empty}>`}
    </${Card}>
    ${trials.length > 0 && html`<${Card} flush title="Trials" note=${plural(trials.length, 'trial')} actions=${html`<${Code} request=${{ path: `v1/jobs/${job.id}` }} />`}>
      <${SortableTable} caption="trials" initial="C" rows=${trials} rowClass=${(one) => (best && one.C === best.C && sameVariant(one, best) ? 'picked' : '')} columns=${[
        { name: 'C', value: (one) => one.C, cell: (one) => html`${best && one.C === best.C && sameVariant(one, best) ? html`<strong class="good">best · ${number(one.C, 6)}</strong>` : number(one.C, 6)}` },
        ...varied.map((name) => ({ name, head: name.replace('_', ' '), value: (one) => asText(one[name]) })),
        { name: 'mean', head: `mean ${words}`, value: (one) => one.mean, cell: (one) => number(one.mean, 5) },
        { name: 'std', head: '± std', value: (one) => one.std, cell: (one) => number(one.std, 2) },
        { name: 'lower_bound', head: 'at least', value: (one) => one.lower_bound, cell: (one) => number(one.lower_bound, 5) },
        { name: 'upper_bound', head: 'at most', value: (one) => one.upper_bound, cell: (one) => number(one.upper_bound, 5) },
        { name: 'relative_gap', head: 'largest gap', value: (one) => one.relative_gap, cell: (one) => html`<span class="mono">${gap(one.relative_gap)}</span>` },
        { name: 'seconds', head: 'seconds', value: (one) => one.seconds, cell: (one) => seconds(one.seconds) },
      ].filter((one) => trials.some((trial) => one.value(trial) !== null && one.value(trial) !== undefined))} /></${Card}>`}
    ${result?.outer && html`<${Outer} outer=${result.outer} words=${words} />`}
    ${result && html`<${Paths} job=${job} best=${best} />`}`;
}

function Outer({ outer, words }) {
  const rows = outer.values.map((value, place) => ({ fold: place + 1, C: outer.chosen[place].C, loss: outer.chosen[place].loss, value }));
  return html`<${Card} title="Outer folds" note=${`${words} of rows that the search has not seen`}>
    <dl class="stats"><${Stat} label=${`mean ${words}`} value=${number(outer.mean)} note=${Number.isFinite(outer.std) ? `± ${number(outer.std, 2)}` : null} /></dl>
    <${SortableTable} caption="outer folds" initial="fold" rows=${rows} columns=${[
      { name: 'fold', value: (one) => one.fold },
      { name: 'C', head: 'chosen C', value: (one) => one.C, cell: (one) => number(one.C, 4) },
      { name: 'loss', head: 'chosen loss', value: (one) => one.loss },
      { name: 'value', head: words, value: (one) => one.value, cell: (one) => number(one.value, 5) },
    ]} /></${Card}>`;
}

// The weights of the strongest features along C. A model of several classes has rows of weights for each class.
function Paths({ job, best }) {
  const loaded = useResource(`v1/jobs/${encodeURIComponent(job.id)}/path`);
  const [row, setRow] = useState(0);
  const path = loaded.data;
  const rowCount = Array.isArray(path?.coef?.[0]?.[0]) ? path.coef[0].length : 1;
  const coef = useMemo(() => (path?.coef?.length ? (rowCount > 1 || Array.isArray(path.coef[0][0]) ? path.coef.map((one) => one[row]) : path.coef) : []), [path, row]);
  const drawn = useMemo(() => {
    const width = coef[0]?.length || 0;
    const strength = Array.from({ length: width }, (_, place) => coef.reduce((most, one) => Math.max(most, Math.abs(one[place])), 0));
    return strength.map((value, place) => [value, place]).sort((a, b) => b[0] - a[0]).slice(0, PATHS_DRAWN).map(([, place]) => place);
  }, [coef]);
  if (loaded.error) return null;  // a search that kept no models has no path
  if (!path) return html`<${Card} title="Coefficients along C"><${Loading} lines=${6} /></${Card}>`;
  if (!coef.length || !drawn.length) return null;
  const nameOf = (place) => path.features?.[place] ?? `#${place}`;
  const classes = job.result?.classes || [];
  const make = (c) => ({
    scales: { x: { time: false, distr: 3, log: 10 } },
    series: [{}, ...drawn.map((_, place) => ({ stroke: c[`series-${place + 1}`], width: 2, points: { show: path.C.length < 25, size: 4 } }))],
    axes: [costAxis(c), axis(c, { size: 62, values: (_, ticks) => ticks.map((tick) => number(tick, 3)) })],
    cursor: { y: false, points: { size: 6 } },
    hooks: { drawAxes: [(u) => markCost(u, best?.C, c.text)] },
  });
  return html`<${Card} title="Coefficients along C" note=${`the ${drawn.length} strongest of ${number(coef[0].length)}; the table has all`} actions=${html`<${Code} request=${{ path: `v1/jobs/${job.id}/path` }} />`}>
    ${rowCount > 1 && html`<div class="filters"><${Field} label="Class">${(input) => html`<select ...${input} value=${row} onChange=${(event) => setRow(Number(event.target.value))}>${Array.from({ length: rowCount }, (_, place) => html`<option value=${place}>${String(classes[place] ?? place)}</option>`)}</select>`}</${Field}></div>`}
    <${Chart} title="Coefficients" name="coefficients" height=${300} shape=${`paths ${row} ${drawn.join()}`} make=${make} data=${[path.C, ...drawn.map((place) => coef.map((one) => one[place]))]}
      describe=${`Coefficients against C; the strongest is ${nameOf(drawn[0])}`} legend=${[...drawn.map((place, number_) => [html`<bdi>${nameOf(place)}</bdi>`, `s${number_ + 1}`]), ...(best ? [[`best: C = ${number(best.C)}`, 'text', 'dash']] : [])]}
      table=${{ columns: ['C', 'intercept', ...(path.features || coef[0].map((_, place) => `#${place}`))], rows: () => path.C.map((C, place) => [C, Array.isArray(path.intercept?.[place]) ? path.intercept[place][row] : path.intercept?.[place], ...coef[place]]) }} /></${Card}>`;
}
