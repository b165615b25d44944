// Asks for what the first screen shows while its modules are still being loaded. A classic script, because modules wait
// for each other. api.js takes an answer from here once, if it is for exactly the request that a screen makes.
window.early = (() => {
  const answers = new Map();
  const ask = (path) => {
    const address = new URL(`../${path}`, document.baseURI).href;
    const answer = fetch(address, { credentials: 'same-origin' }).catch(() => null);
    answers.set(address, answer);
    return answer;
  };
  const first = () => {
    const [path, query = ''] = location.hash.replace(/^#\/?/, '').split('?');
    if (!path || path === 'overview') return ['jobs?status=running&limit=20', 'jobs?status=failed&limit=5', 'models?limit=6'];
    if (['jobs', 'models', 'datasets'].includes(path)) return query ? [] : [`${path}?limit=50`];
    return /^jobs\/job_\w+$/.test(path) ? [path] : [];
  };
  ask('v1/session').then((answer) => answer?.clone().json()).then((session) => {
    if (session && (session.signed_in || !session.required)) for (const path of ['system', ...first()]) ask(`v1/${path}`);
  }).catch(() => { /* the page asks again and shows the error */ });
  return {
    take(address) {
      const answer = answers.get(address);
      answers.delete(address);
      return answer;
    },
  };
})();
