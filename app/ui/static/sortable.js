// A table whose columns sort, with its rows as CSV.
import { html, useMemo, useState } from './html.js';
import { csv, download, number } from './format.js';

// columns: {name, head, value(row), cell(row)}. `initial` names the first column to sort by. Rows beyond `most` are in the CSV.
export function SortableTable({ caption, columns, rows, initial, most = 200, rowClass = () => '' }) {
  const [order, setOrder] = useState({ name: initial, down: false });
  const sorted = useMemo(() => {
    const read = (columns.find((one) => one.name === order.name) || columns[0]).value;
    return [...rows].sort((a, b) => compare(read(a), read(b), order.down));
  }, [rows, order]);
  const turn = (name) => setOrder({ name, down: order.name === name && !order.down });
  const save = () => download(`${caption}.csv`, csv(columns.map((one) => one.name), sorted.map((row) => columns.map((one) => one.value(row)))));
  return html`<div><div class="scroll tall" tabindex="0" role="region" aria-label=${caption}><table><caption class="offscreen">${caption}</caption>
      <thead><tr>${columns.map((one) => html`<th scope="col" class="num" aria-sort=${order.name !== one.name ? 'none' : order.down ? 'descending' : 'ascending'}>
        <button type="button" class="sort" onClick=${() => turn(one.name)}>${one.head || one.name}<span aria-hidden="true">${order.name !== one.name ? '' : order.down ? ' ↓' : ' ↑'}</span></button></th>`)}</tr></thead>
      <tbody>${sorted.slice(0, most).map((row) => html`<tr class=${rowClass(row)}>${columns.map((one) => html`<td class="num">${one.cell ? one.cell(row) : shown(one.value(row))}</td>`)}</tr>`)}</tbody></table></div>
    <div class="row table-foot"><span class="fine">${sorted.length > most ? `The first ${most} of ${number(sorted.length)} rows; CSV has all of them.` : `${number(sorted.length)} rows`}</span><button type="button" class="link" onClick=${save}>CSV</button></div></div>`;
}

// Missing values come last in both directions.
function compare(a, b, down) {
  const [noA, noB] = [a === null || a === undefined, b === null || b === undefined];
  if (noA || noB) return noA - noB;
  const order = typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b));
  return down ? -order : order;
}

function shown(value) {
  if (value === null || value === undefined) return '–';
  return typeof value === 'number' ? number(value) : html`<bdi>${String(value)}</bdi>`;
}
