// Numbers, sizes, durations and times as people read them. Pure functions.

const DASH = '–';

export function number(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return DASH;
  if (typeof value !== 'number') return String(value);
  if (value === 0) return '0';
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toLocaleString('en-US');
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-3) return value.toExponential(Math.min(2, digits - 1)).replace('e+', 'e');
  return Number(value.toPrecision(digits)).toLocaleString('en-US', { maximumSignificantDigits: digits });
}

export function percent(value, digits = 1) {
  return value === null || value === undefined ? DASH : `${(100 * value).toFixed(digits)} %`;
}

// A relative gap: a proven distance, so below a millionth of a millionth it is said as such.
export function gap(value) {
  if (value === null || value === undefined) return DASH;
  return value < 1e-15 ? '< 1e-15' : value.toExponential(1).replace('e+', 'e');
}

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];

export function bytes(value) {
  if (value === null || value === undefined) return DASH;
  let unit = 0;
  while (value >= 1000 && unit < UNITS.length - 1) { value /= 1000; unit += 1; }
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}

export function seconds(value) {
  if (value === null || value === undefined) return DASH;
  if (value < 0.001) return `${(1e6 * value).toFixed(0)} µs`;
  if (value < 1) return `${(1000 * value).toFixed(value < 0.01 ? 1 : 0)} ms`;
  if (value < 60) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  value = Math.round(value);
  if (value < 3600) return `${Math.floor(value / 60)} min ${value % 60} s`;
  if (value < 86400) return `${Math.floor(value / 3600)} h ${Math.floor((value % 3600) / 60)} min`;
  return `${Math.floor(value / 86400)} d ${Math.floor((value % 86400) / 3600)} h`;
}

export function ago(iso, now = Date.now()) {
  if (!iso) return DASH;
  const past = (now - Date.parse(iso)) / 1000;
  if (past < 5) return 'just now';
  if (past < 60) return `${Math.round(past)} s ago`;
  if (past < 3600) return `${Math.round(past / 60)} min ago`;
  if (past < 86400) return `${Math.round(past / 3600)} h ago`;
  return past < 30 * 86400 ? `${Math.round(past / 86400)} d ago` : iso.slice(0, 10);
}

export function moment(iso) {
  return iso ? new Date(iso).toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'medium' }) : DASH;
}

// The end of an id is what differs between neighbours.
export function shortId(id) {
  return id && id.length > 14 ? `${id.slice(0, id.indexOf('_') + 1)}…${id.slice(-6)}` : id;
}

export function plural(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

export function csv(columns, rows) {
  const cell = (value) => {
    if (value === null || value === undefined) return '';
    const text = String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [columns, ...rows].map((row) => row.map(cell).join(',')).join('\n') + '\n';
}

export function download(name, text, type = 'text/csv') {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = Object.assign(document.createElement('a'), { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
