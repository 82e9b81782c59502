// Small pictures of all heads of a sentence; each leads to its head.

import { drawSmall } from "./canvas.js";
import { make } from "./elements.js";
import { matrixOfHead } from "./weights.js";

/**
 * @typedef {import("./weights.js").PageData} PageData
 * @typedef {import("./weights.js").HeadFacts} HeadFacts
 * @typedef {import("./weights.js").Sentence} Sentence
 */

const SIDE = 84;
const CARD = 52;

export class Grid {
  /**
   * @param {HTMLElement} box
   * @param {PageData} data
   * @param {import("./weights.js").Weights} weights
   */
  constructor(box, data, weights) {
    this.box = box;
    this.data = data;
    this.weights = weights;
    /** @type {Sentence | null} */
    this.sentence = null;
    this.watcher = new IntersectionObserver((entries) => this.drawVisible(entries), { rootMargin: "300px" });
  }

  /** @param {Sentence} sentence @param {(name: string) => string} addressOfHead */
  show(sentence, addressOfHead) {
    this.sentence = sentence;
    this.watcher.disconnect();
    const sites = Object.keys(this.data.sites).filter((site) => this.data.heads.some((head) => head.site === site));
    this.box.replaceChildren(...sites.map((site) => this.site(site, addressOfHead)));
    this.drawIdle();
  }

  /** @param {string} site @param {(name: string) => string} addressOfHead @returns {HTMLElement} */
  site(site, addressOfHead) {
    const heads = this.data.heads.filter((head) => head.site === site);
    const layers = [...new Set(heads.map((head) => head.layer))];
    return make("div", { class: "site" }, [
      make("h3", { text: this.data.sites[site] }),
      ...layers.map((layer) => {
        const mine = heads.filter((head) => head.layer === layer);
        const row = make("div", { class: "thumbs", style: `--heads: ${mine.length}`, role: "group", "aria-label": `${site} layer ${layer}` }, [
          make("span", { class: "layer", text: `layer ${layer}` }),
          ...mine.map((head) => thumb(head, addressOfHead(head.name))),
        ]);
        row.dataset.site = site;
        row.dataset.layer = String(layer);
        this.watcher.observe(row);
        return row;
      }),
    ]);
  }

  /** Rows that were not yet scrolled to, one whenever nothing else is to do, so that printing finds their weights. */
  drawIdle() {
    const row = this.box.querySelector(".thumbs:not([data-drawn])");
    if (!(row instanceof HTMLElement)) return;
    requestIdleCallback(() => {
      void this.draw(row, this.sentence).then(() => this.drawIdle());
    });
  }

  /** All rows at once, before they are printed. */
  drawAll() {
    for (const row of this.box.querySelectorAll(".thumbs")) if (row instanceof HTMLElement) void this.draw(row, this.sentence);
  }

  /** @param {IntersectionObserverEntry[]} entries */
  drawVisible(entries) {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting || !(target instanceof HTMLElement)) continue;
      this.watcher.unobserve(target);
      void this.draw(target, this.sentence);
    }
  }

  /** @param {HTMLElement} row @param {Sentence | null} sentence */
  async draw(row, sentence) {
    if (!sentence) return;
    row.dataset.drawn = "";
    const layer = await this.weights.layer(sentence, row.dataset.site ?? "", Number(row.dataset.layer), true);
    if (sentence !== this.sentence) return;
    for (const link of row.querySelectorAll("a.thumb")) {
      const head = this.data.heads.find((one) => one.name === link.getAttribute("data-head"));
      const canvas = link.querySelector("canvas");
      if (!head || !canvas) continue;
      if (layer) drawSmall(canvas, matrixOfHead(layer, head.head), SIDE);
      else canvas.replaceWith(make("span", { class: "missing", text: "not kept" }));
    }
  }

  /** @param {Element} card @param {HeadFacts} head @param {Sentence} sentence */
  async drawCard(card, head, sentence) {
    const layer = await this.weights.layer(sentence, head.site, head.layer, true);
    if (!layer) return;
    card.querySelector("canvas")?.remove();
    const canvas = make("canvas", { "aria-hidden": "true" });
    drawSmall(canvas, matrixOfHead(layer, head.head), CARD);
    card.prepend(canvas);
  }

  /** @param {(name: string) => string} addressOfHead what the pictures lead to now */
  lead(addressOfHead) {
    for (const link of this.box.querySelectorAll("a.thumb")) link.setAttribute("href", addressOfHead(link.getAttribute("data-head") ?? ""));
  }

  /** Draws again, as after a change of the colours. */
  redraw() {
    for (const row of this.box.querySelectorAll(".thumbs[data-drawn]")) if (row instanceof HTMLElement) void this.draw(row, this.sentence);
  }
}

/** @param {HeadFacts} head @param {string} address @returns {HTMLElement} */
function thumb(head, address) {
  const canvas = make("canvas", { width: SIDE, height: SIDE, "aria-hidden": "true" });
  return make("a", { class: "thumb", href: address, title: [head.name, head.short].filter(Boolean).join(": "), "data-head": head.name }, [
    canvas,
    make("span", { class: "number", text: `${head.head}` }),
    make("span", { class: "short", text: head.short }),
  ]);
}
