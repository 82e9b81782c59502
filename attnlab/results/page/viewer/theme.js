// Light, dark, or as the system is: chosen by a button that stands on every page.

import { THEMES } from "./address.js";
import { byId } from "./elements.js";

export class ThemeButton {
  /** @param {(theme: string) => void} choose */
  constructor(choose) {
    this.button = byId("theme");
    this.theme = THEMES[0];
    this.button.addEventListener("click", () => choose(THEMES[(THEMES.indexOf(this.theme) + 1) % THEMES.length]));
    this.show(this.theme);
  }

  /** @param {string} theme @returns {boolean} whether it changes */
  show(theme) {
    const changed = theme !== this.theme;
    this.theme = theme;
    if (theme === THEMES[0]) delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    this.button.textContent = `Colours: ${theme}`;
    return changed;
  }
}

/** The button of a page that has tables alone. */
export function themeOfTables() {
  const asked = () => new URLSearchParams(location.hash.slice(1)).get("theme") ?? "";
  const button = new ThemeButton((theme) => {
    history.replaceState(null, "", theme === THEMES[0] ? "#" : `#theme=${theme}`);
    button.show(theme);
  });
  if (THEMES.includes(asked())) button.show(asked());
  addEventListener("hashchange", () => THEMES.includes(asked()) && button.show(asked()));
}
