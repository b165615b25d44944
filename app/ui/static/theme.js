// Sets the theme before the first paint. A classic script, because modules run after the page was painted.
(() => {
  try {
    const chosen = localStorage.getItem('hyperplane.theme');
    if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
  } catch { /* storage is switched off: the system's theme holds */ }
})();
