// SPDX-License-Identifier: Apache-2.0
// Runs before anything is drawn, so that a chosen theme does not flash the other one first.
(() => {
  const themes = ["auto", "light", "dark"];
  let theme = "auto";
  try {
    theme = localStorage.getItem("sluice-theme") ?? "auto";
  } catch {
    // storage may be forbidden; the switch still works for this page
  }
  const apply = () => {
    if (!themes.includes(theme)) theme = "auto";
    document.documentElement.dataset.theme = theme;
    const text = document.getElementById("theme-text");
    if (text) text.textContent = theme[0].toUpperCase() + theme.slice(1);
  };
  window.nextTheme = () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    try {
      localStorage.setItem("sluice-theme", theme);
    } catch {
      // see above
    }
    apply();
    return theme;
  };
  apply();
  document.addEventListener("DOMContentLoaded", apply);
})();
