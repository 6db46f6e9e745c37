"use strict";
// Light or dark as the system has it, until the button is pressed.
{
  const button = document.getElementById("theme"), root = document.documentElement, system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const tell = () => { button.textContent = isDark() ? "Light" : "Dark"; };
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; tell(); });
  system.addEventListener("change", tell);
  tell();
}
