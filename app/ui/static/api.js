// The only way to the service: its public API. Addresses are relative to the page, so that a path prefix is no matter.

export const ROOT = new URL('..', document.baseURI);

const state = { csrf: null, onSignedOut: () => {} };

export class ApiError extends Error {
  constructor(problem, status) {
    super(problem.detail || problem.title || 'The request failed.');
    Object.assign(this, { status, code: problem.code || `http_${status}`, errors: problem.errors || [],
      requestId: problem.request_id || null, retryable: Boolean(problem.retryable) });
  }
}

export function configure(changes) { Object.assign(state, changes); }

export function address(path, query) {
  const url = new URL(path.replace(/^\//, ''), ROOT);
  for (const [name, value] of Object.entries(query || {})) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== '') url.searchParams.append(name, one);
    }
  }
  return url;
}

// Headers of a change: the CSRF token if a cookie authorizes it, and a key that makes repeating it harmless.
export function changeHeaders(method, headers = {}) {
  const sent = { ...headers };
  if (method === 'GET') return sent;
  if (state.csrf) sent['X-CSRF-Token'] = state.csrf;
  if (method === 'POST' && !sent['Idempotency-Key']) sent['Idempotency-Key'] = crypto.randomUUID?.() || `ui-${Math.random()}`;
  return sent;
}

export async function request(method, path, { query, body, headers, signal } = {}) {
  const isFile = body instanceof Blob || body instanceof ArrayBuffer;
  const sent = changeHeaders(method, headers);
  if (body !== undefined && !isFile) sent['Content-Type'] = 'application/json';
  let response;
  try {
    response = method === 'GET' ? await asked(address(path, query).href) : null;
    response ||= await fetch(address(path, query), { method, headers: sent, signal, credentials: 'same-origin',
      body: body === undefined || isFile ? body : JSON.stringify(body) });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError({ code: 'unreachable', detail: 'The service does not answer. Is it running?', retryable: true }, 0);
  }
  if (response.status === 401 && path !== 'v1/session') state.onSignedOut();
  if (!response.ok) {
    let problem = {};
    try { problem = await response.json(); } catch { /* not a problem document: the status has to do */ }
    throw new ApiError({ request_id: response.headers.get('x-request-id'), ...problem }, response.status);
  }
  return response;
}

// The answer to a request that early.js made. One that was refused is asked for again, with what is known by now.
async function asked(href) {
  const answer = await window.early?.take(href);
  return answer?.ok ? answer : null;
}

export async function call(method, path, options) {
  const response = await request(method, path, options);
  return response.status === 204 ? null : response.json();
}

export const get = (path, query, options) => call('GET', path, { query, ...options });
export const post = (path, body, options) => call('POST', path, { body, ...options });

// The same request for other clients. Only what the request needs: no cookie, no token of this page.
export function asCurl({ method = 'GET', path, query, body, file, type, signedIn }) {
  const url = address(path, query);
  const parts = [`curl -s${method === 'GET' || ((body !== undefined || file) && method === 'POST') ? '' : ` -X ${method}`} ${quoted(url.href)}`];
  if (signedIn) parts.push('-H "Authorization: Bearer $HYPERPLANE_API_KEY"');
  if (body !== undefined) parts.push("-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(body))}`);
  if (file) parts.push(`-H 'Content-Type: ${type}'`, `--data-binary @${file}`);
  return parts.join(' \\\n    ');
}

export function asPython({ method = 'GET', path, query, body, file, type, signedIn }) {
  const url = address(path, query);
  const inner = [JSON.stringify(url.href)];
  const headers = {};
  const lines = ['import httpx'];
  if (signedIn) { lines.unshift('import os'); headers.Authorization = 0; }
  if (file) headers['Content-Type'] = type;
  if (Object.keys(headers).length) {
    const shown = Object.entries(headers).map(([name, value]) =>
      `"${name}": ${name === 'Authorization' ? `f"Bearer {os.environ['HYPERPLANE_API_KEY']}"` : JSON.stringify(value)}`);
    inner.push(`headers={${shown.join(', ')}}`);
  }
  if (body !== undefined) inner.push(`json=${python(body)}`);
  if (file) inner.push(`content=open(${JSON.stringify(file)}, "rb")`);
  lines.push('', `answer = httpx.${method.toLowerCase()}(`, ...inner.map((one) => `    ${one},`), ')',
    'answer.raise_for_status()', ...(method === 'DELETE' ? [] : ['print(answer.json())']));
  return lines.join('\n');
}

function quoted(text) { return `'${text.replaceAll("'", "'\\''")}'`; }

function python(value) {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (Array.isArray(value)) return `[${value.map(python).join(', ')}]`;
  if (typeof value === 'object') return `{${Object.entries(value).map(([key, one]) => `${JSON.stringify(key)}: ${python(one)}`).join(', ')}}`;
  return JSON.stringify(value);
}
