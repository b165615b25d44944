// Who uses the page and what it may do. On an open service everything is allowed and there is no sign-in.
import { configure, get, call } from './api.js';

export const session = { required: false, signed_in: false, scopes: [], key_id: null };

export async function load() {
  Object.assign(session, await get('v1/session'));
  configure({ csrf: session.csrf_token });
  return session;
}

export async function signIn(key) {
  Object.assign(session, await call('POST', 'v1/session', { body: { key } }));
  configure({ csrf: session.csrf_token });
}

export async function signOut() {
  await call('DELETE', 'v1/session');
  configure({ csrf: null });
}

export function can(scope) {
  return session.scopes.includes(scope) || session.scopes.includes('admin');
}
