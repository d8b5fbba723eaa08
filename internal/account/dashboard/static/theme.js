// The theme of the last visit, before the first paint. Nothing else is kept.
(() => {
  try {
    const theme = localStorage.getItem("millrace-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch { /* storage is off: the system's theme it is */ }
})();
