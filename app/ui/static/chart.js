// A uPlot chart with what a canvas lacks: a description, a table of its data, and the data as CSV.
import { html, useEffect, useRef, useState } from './html.js';
import { csv, download, number } from './format.js';

const ROWS_SHOWN = 200;

// Colours of the current theme: a canvas does not know custom properties.
export function colours() {
  const probe = document.createElement('i');
  document.body.append(probe);
  const read = (name) => { probe.style.color = `var(--${name})`; return getComputedStyle(probe).color; };
  const names = ['text', 'muted', 'line', 'accent', 'good', 'bad', 'warn', 'surface',
    'series-1', 'series-2', 'series-3', 'series-4', 'series-5', 'series-6', 'series-7', 'series-8', 'series-9', 'series-10'];
  const found = Object.fromEntries(names.map((name) => [name, read(name)]));
  probe.remove();
  return found;
}

export function faded(colour, share) {
  const parts = colour.match(/[\d.]+/g) || ['0', '0', '0'];
  return `rgba(${parts.slice(0, 3).join(',')},${share})`;
}

export function axis(c, extra = {}) {
  return { stroke: c.muted, grid: { stroke: faded(c.line, 0.9), width: 1 }, ticks: { stroke: faded(c.line, 0.9), width: 1, size: 4 },
    font: '11px system-ui, sans-serif', labelFont: '11px system-ui, sans-serif', labelGap: 2, ...extra };
}

// The powers of ten of a log axis, or every few where there are many: uPlot's own ticks are ten a decade.
export function powers(low, high) {
  const first = Math.ceil(Math.log10(low) - 1e-9);
  const last = Math.floor(Math.log10(high) + 1e-9);
  const step = Math.max(1, Math.ceil((last - first + 1) / 8));
  return Array.from({ length: Math.max(0, Math.floor((last - first) / step) + 1) }, (_, place) => 10 ** (last - place * step)).reverse();
}

export function line(u, from, to, colour, dash, width = 1.5) {
  u.ctx.save();
  u.ctx.beginPath();
  u.ctx.setLineDash(dash.map((one) => one * devicePixelRatio));
  u.ctx.strokeStyle = colour;
  u.ctx.lineWidth = width * devicePixelRatio;
  u.ctx.moveTo(u.valToPos(from[0], 'x', true), u.valToPos(from[1], 'y', true));
  u.ctx.lineTo(u.valToPos(to[0], 'x', true), u.valToPos(to[1], 'y', true));
  u.ctx.stroke();
  u.ctx.restore();
}

// make(colours, width, height) gives uPlot's options; data its columns. Rebuilt when `shape` or the theme changes.
export function Chart({ title, describe, make, data, shape, height = 260, table, name = 'chart', legend }) {
  const box = useRef(null);
  const plot = useRef(null);
  const latest = useRef(data);
  const [theme, setTheme] = useState(0);
  latest.current = data;

  useEffect(() => {
    const again = () => setTheme((before) => before + 1);
    const scheme = matchMedia('(prefers-color-scheme: dark)');
    scheme.addEventListener('change', again);
    addEventListener('theme', again);
    return () => { scheme.removeEventListener('change', again); removeEventListener('theme', again); };
  }, []);

  useEffect(() => {
    const width = box.current.clientWidth || 600;
    const made = new uPlot({ width, height, legend: { show: false }, ...make(colours()) }, latest.current, box.current);
    plot.current = made;
    const watch = new ResizeObserver(() => {
      const wide = box.current?.clientWidth;
      if (wide && Math.abs(wide - made.width) > 1) made.setSize({ width: wide, height });
    });
    watch.observe(box.current);
    return () => { watch.disconnect(); made.destroy(); plot.current = null; };
  }, [shape, theme, height]);

  useEffect(() => {  // many events between two frames are drawn once
    const frame = requestAnimationFrame(() => plot.current?.setData(latest.current));
    return () => cancelAnimationFrame(frame);
  }, [data]);

  const save = () => download(`${name}.csv`, csv(table.columns, table.rows()));
  return html`<figure class="chart">
    ${(title || legend) && html`<figcaption><strong>${title}</strong>${legend && html`<span class="legend">${legend.map(([text, tone, kind]) =>
      html`<span><i class=${`key ${kind || 'line'} tone-${tone}`} aria-hidden="true"></i>${text}</span>`)}</span>`}</figcaption>`}
    <div class="plot" ref=${box} role="img" aria-label=${describe || title} style=${{ height: `${height}px` }}></div>
    ${table && html`<${DataTable} caption=${title || name} table=${table} save=${save} />`}
  </figure>`;
}

export function DataTable({ caption, table, save, open: initially = false }) {
  const [open, setOpen] = useState(initially);
  const rows = open ? table.rows() : [];
  const keep = save || (() => download(`${caption}.csv`, csv(table.columns, table.rows())));
  return html`<div class="data-table"><button type="button" class="link" aria-expanded=${open ? 'true' : 'false'} onClick=${() => setOpen(!open)}>${open ? 'Hide table' : 'Table'}</button>
    <button type="button" class="link" onClick=${keep}>CSV</button>
    ${open && html`<div class="scroll short" tabindex="0" role="region" aria-label=${`Data: ${caption}`}><table><caption class="offscreen">${caption}</caption>
      <thead><tr>${table.columns.map((one) => html`<th scope="col" class="num">${one}</th>`)}</tr></thead>
      <tbody>${rows.slice(0, ROWS_SHOWN).map((row) => html`<tr>${row.map((cell) => html`<td class="num">${typeof cell === 'number' ? number(cell, 6) : cell ?? '–'}</td>`)}</tr>`)}</tbody></table>
      ${rows.length > ROWS_SHOWN && html`<p class="fine">The first ${ROWS_SHOWN} of ${number(rows.length)} rows; CSV has all of them.</p>`}</div>`}
  </div>`;
}

// Bars from one value each, with no canvas: a table that is also the chart. Negative values go to the left.
export function Bars({ caption, rows, unit = '' }) {
  const most = Math.max(...rows.map((row) => Math.abs(row.value)), 1e-300);
  const signed = rows.some((row) => row.value < 0);
  return html`<table class=${`bars${signed ? ' signed' : ''}`}><caption class="offscreen">${caption}</caption>
    <thead class="offscreen"><tr><th scope="col">Name</th><th scope="col">Size</th><th scope="col">Value</th></tr></thead>
    <tbody>${rows.map((row) => html`<tr><th scope="row" title=${row.name}><bdi>${row.name}</bdi></th>
      <td class="track" aria-hidden="true"><i class=${row.value < 0 ? 'neg' : 'pos'} style=${{ width: `${(signed ? 50 : 100) * Math.abs(row.value) / most}%` }}></i></td>
      <td class="num">${row.text ?? number(row.value)}${unit}</td></tr>`)}</tbody></table>`;
}
