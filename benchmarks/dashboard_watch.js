// Runs before the page's own scripts: long tasks, times between frames, when rows and charts are on the screen.
window.watched = { tasks: [], frames: [], drawn: [], rows: null };  // a frame is [end in ms since 1970, duration]

new PerformanceObserver((list) => {
  watched.tasks.push(...list.getEntries().map((one) => one.duration));
}).observe({ type: 'longtask' });

let before = null;
const frame = (now) => {
  if (before !== null) watched.frames.push([performance.timeOrigin + now, now - before]);
  before = now;
  requestAnimationFrame(frame);
};
requestAnimationFrame(frame);

const seen = () => {
  if (document.querySelector('main tbody tr')) requestAnimationFrame(() => { watched.rows = performance.now(); });
  else requestAnimationFrame(seen);
};
requestAnimationFrame(seen);

let library = null;
Object.defineProperty(window, 'uPlot', {
  configurable: true,
  get: () => library,
  set(loaded) {
    library = new Proxy(loaded, {
      construct(target, [options, ...rest]) {
        const draw = [...(options.hooks?.draw || []), () => watched.drawn.push(performance.now())];
        return new target({ ...options, hooks: { ...options.hooks, draw } }, ...rest);
      },
    });
  },
});

// Milliseconds from a change of the address to the frame that shows the rows of another list.
window.shown = async (target) => {
  const first = () => document.querySelector('main tbody tr')?.innerText;
  const isLoading = () => document.querySelector('.skeleton, [aria-busy=true]');
  const old = first();
  const began = performance.now();
  location.hash = target;
  while (!first() || first() === old || isLoading()) await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame);
  return performance.now() - began;
};

window.taken = () => {
  const { tasks, frames } = watched;
  watched.tasks = [];
  watched.frames = [];
  return [tasks, frames];
};
