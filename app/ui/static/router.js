// Addresses of screens: `#/jobs/job_…?status=failed`. After the hash, because then a path prefix is no matter.
import { useEffect, useState } from './html.js';

export function current() {
  const { hash } = location;
  const [path, query = ''] = hash.replace(/^#\/?/, '').split('?');
  return { hash, parts: path.split('/').filter(Boolean).map(decodeURIComponent), query: new URLSearchParams(query), path };
}

export function href(parts, query) {
  const path = (Array.isArray(parts) ? parts : [parts]).map(encodeURIComponent).join('/');
  const kept = Object.entries(query || {}).filter(([, value]) => value !== null && value !== undefined && value !== '');
  return `#/${path}${kept.length ? `?${new URLSearchParams(kept)}` : ''}`;
}

export function go(parts, query, { replace = false } = {}) {
  const target = href(parts, query);
  if (replace) {
    history.replaceState(null, '', target);
    dispatchEvent(new HashChangeEvent('hashchange'));
  } else location.hash = target;
}

export function useRoute() {
  const [route, setRoute] = useState(current);
  useEffect(() => {
    const follow = () => setRoute(current());
    addEventListener('hashchange', follow);
    setRoute((shown) => (shown.hash === location.hash ? shown : current()));  // it may have changed before this listened
    return () => removeEventListener('hashchange', follow);
  }, []);
  return route;
}
