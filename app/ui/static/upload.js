// Sending files: small ones in one request, large ones in parts that go on where a broken connection left them.
import { address, call, get, request } from './api.js';

const TYPES = { csv: 'text/csv', tsv: 'text/tab-separated-values', libsvm: 'text/x-libsvm', svm: 'text/x-libsvm', svmlight: 'text/x-libsvm', ndjson: 'application/x-ndjson',
  jsonl: 'application/x-ndjson', parquet: 'application/vnd.apache.parquet', arrow: 'application/vnd.apache.arrow.stream', arrows: 'application/vnd.apache.arrow.stream', npz: 'application/x-npz' };
const ENCODINGS = { gz: 'gzip', zst: 'zstd' };
const PART_BYTES = 4 << 20;
const MOST_FAILURES = 8;
export const SUFFIXES = Object.keys(TYPES);

export function kindOf(fileName) {
  const parts = fileName.toLowerCase().split('.');
  const encoding = ENCODINGS[parts.at(-1)];
  return { type: TYPES[parts.at(encoding ? -2 : -1)] || null, encoding };
}

// A file's name as the service allows names; nothing if little is left of it.
export function nameOf(fileName) {
  const stem = fileName.replace(/(\.(gz|zst))?$/i, '').replace(/\.[^.]*$/, '');
  return stem.replace(/[^A-Za-z0-9._-]+/g, '-').replace(/^[^A-Za-z0-9]+/, '').slice(0, 128) || undefined;
}

export async function uploadFile(file, { options = {}, type, onProgress = () => {}, signal } = {}) {
  const kind = kindOf(file.name);
  const headers = { 'Content-Type': type || kind.type || 'text/csv', ...(kind.encoding ? { 'Content-Encoding': kind.encoding } : {}) };
  const query = { name: nameOf(file.name), ...options };
  if (file.size <= PART_BYTES) {
    onProgress(0, file.size);
    const dataset = await call('POST', 'v1/datasets', { query, headers, body: file, signal });
    onProgress(file.size, file.size);
    return dataset;
  }
  return inParts(file, headers, query, onProgress, signal);
}

async function inParts(file, headers, query, onProgress, signal) {
  const remembered = `hyperplane.upload ${file.name} ${file.size} ${file.lastModified} ${address('', query).search}`;
  let upload = await resumed(remembered);
  if (!upload) {
    upload = await call('POST', 'v1/uploads', { query, headers: { ...headers, 'Upload-Length': String(file.size) }, signal });
    keep(remembered, upload.id);
  }
  let { offset } = upload;
  let failures = 0;
  while (true) {
    if (upload.complete) { keep(remembered, null); return get(`v1/datasets/${upload.dataset_id}`); }
    onProgress(offset, file.size);
    try {
      const response = await request('PATCH', `v1/uploads/${upload.id}`, { signal, body: file.slice(offset, offset + PART_BYTES),
        headers: { 'Content-Type': 'application/partial-upload', 'Upload-Offset': String(offset) } });
      failures = 0;
      if (response.status !== 204) { keep(remembered, null); onProgress(file.size, file.size); return response.json(); }
      offset = Number(response.headers.get('Upload-Offset'));
    } catch (error) {
      if (error.name === 'AbortError' || (!error.retryable && ![0, 409, 423].includes(error.status)) || ++failures > MOST_FAILURES) {
        if (error.status >= 400 && error.status < 500 && error.status !== 409 && error.status !== 423) keep(remembered, null);
        throw error;
      }
      await new Promise((done) => { setTimeout(done, Math.min(8000, 250 * 2 ** failures)); });
      try { upload = await get(`v1/uploads/${upload.id}`); offset = upload.offset; } catch (again) { if (again.status === 404) throw again; }
    }
  }
}

async function resumed(remembered) {
  const id = kept(remembered);
  if (!id) return null;
  try { return await get(`v1/uploads/${id}`); } catch { keep(remembered, null); return null; }
}

function kept(name) { try { return localStorage.getItem(name); } catch { return null; } }

function keep(name, value) {
  try { if (value === null) localStorage.removeItem(name); else localStorage.setItem(name, value); } catch { /* then a closed page starts the upload anew */ }
}

// The data set of the first steps comes with the dashboard.
export async function uploadSample() {
  const answer = await fetch(new URL('sample.csv', document.baseURI));
  return call('POST', 'v1/datasets', { query: { name: 'radar' }, headers: { 'Content-Type': 'text/csv' }, body: await answer.blob() });
}
