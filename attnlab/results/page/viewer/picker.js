// Chooses a sentence, with a search over their texts.

import { byId, make } from "./elements.js";

/** @typedef {import("./weights.js").Sentence} Sentence */

export class Picker {
  /**
   * @param {Sentence[]} sentences
   * @param {(number: number) => void} choose
   */
  constructor(sentences, choose) {
    this.sentences = sentences;
    this.choose = choose;
    this.chosen = -1;
    this.list = /** @type {HTMLSelectElement} */ (byId("sentence"));
    this.search = /** @type {HTMLInputElement} */ (byId("sentence-search"));
    this.list.addEventListener("change", () => choose(Number(this.list.value)));
    this.search.addEventListener("input", () => this.fill());
    this.search.addEventListener("keydown", (event) => {
      const first = this.found()[0];
      if (event.key === "Enter" && first) choose(first.number);
    });
  }

  focus() {
    this.search.focus();
    this.search.select();
  }

  /** @returns {Sentence[]} whose text has every word that is searched for */
  found() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    return this.sentences.filter((one) => words.every((word) => `${one.number}: ${one.text}`.toLowerCase().includes(word)));
  }

  fill() {
    const found = this.found();
    this.list.replaceChildren(...found.map((one) => make("option", { value: one.number, text: `${one.number}: ${one.text}` })));
    this.list.value = String(this.chosen);
    byId("sentences-found").textContent = found.length === this.sentences.length ? "" : `${found.length} of ${this.sentences.length} sentences`;
  }

  /** @param {number} chosen */
  show(chosen) {
    if (chosen === this.chosen) return;
    this.chosen = chosen;
    this.fill();
    this.list.value = String(chosen);
  }
}
