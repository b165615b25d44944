// The one place that names the vendored library: Preact with htm.
export {
  h, html, render, useState, useReducer, useEffect, useLayoutEffect, useRef, useMemo, useCallback, useErrorBoundary,
} from './vendor/preact-htm.module.js';
