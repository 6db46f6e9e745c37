"use strict";
// Light or dark as the system has it, until the button is pressed; what draws by itself hears of it as `themechange`.
{
  const button = document.getElementById("theme"), root = document.documentElement, system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const name = () => { button.textContent = isDark() ? "Light" : "Dark"; };
  const change = () => { name(); document.dispatchEvent(new Event("themechange")); };
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; change(); });
  system.addEventListener("change", change);
  name();
}
