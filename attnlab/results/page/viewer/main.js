// Puts the page together: what the address says is what is shown.

import { addressOf, parseAddress, plainState, THEMES } from "./address.js";
import { colourTable, cssColour, darkPage } from "./colours.js";
import { byId, make } from "./elements.js";
import { Grid } from "./grid.js";
import { HeadView } from "./head_view.js";
import { neighbour, watchKeys } from "./keyboard.js";
import { linksOfHeads } from "./links.js";
import { Picker } from "./picker.js";
import { saveCsv, savePng, saveSvg } from "./saving.js";
import { sliderOfSteps } from "./steps.js";
import { enhanceTables } from "./tables.js";
import { themeOfTables, ThemeButton } from "./theme.js";
import { readData, Weights } from "./weights.js";

/** @typedef {import("./address.js").State} State */

class Page {
  /** @param {import("./weights.js").PageData} data */
  constructor(data) {
    this.data = data;
    const weights = new Weights(data);
    this.state = plainState();
    // In the frame of a notebook the address is that of the notebook, so that this page keeps its own.
    this.framed = location.protocol === "about:";
    this.hash = document.body.dataset.start ?? "";
    if (!this.framed && !location.hash && this.hash) history.replaceState(null, "", this.hash);
    this.grid = new Grid(byId("grid"), data, weights);
    this.view = new HeadView(data, weights, (change) => this.replace(change));
    this.theme = new ThemeButton((theme) => this.replace({ theme }));
    this.picker = new Picker(data.sentences, (number) => this.open({ sentence: number, row: null, column: null }));
    /** @type {number | null} */
    this.gridOf = null;
    this.scrolled = 0;
    byId("viewer").hidden = false;
    drawScale();
    this.listen();
    this.read();
    this.drawCards();
  }

  /** Small pictures beside the heads that are worth a look. */
  drawCards() {
    for (const card of document.querySelectorAll(".cards a")) {
      const head = this.data.heads.find((one) => one.name === card.getAttribute("data-head"));
      if (head) void this.grid.drawCard(card, head, this.data.sentences[0]);
    }
  }

  listen() {
    addEventListener("hashchange", () => this.read());
    if (this.framed) document.addEventListener("click", (event) => this.follow(event));
    for (const query of ["(prefers-color-scheme: dark)", "print"]) {
      matchMedia(query).addEventListener("change", () => this.redraw());
    }
    addEventListener("beforeprint", () => this.grid.drawAll());
    let width = innerWidth;
    addEventListener("resize", () => {
      if (innerWidth !== width) this.view.redraw();
      width = innerWidth;
    });
    watchKeys({
      move: (layers, heads) => this.move(layers, heads),
      search: () => this.picker.focus(),
      back: () => this.back(),
    });
    byId("save-csv").addEventListener("click", () => this.view.shown && saveCsv(this.name(), this.view.shown));
    byId("save-png").addEventListener("click", () => savePng(this.name(), this.view.canvas));
    byId("save-svg").addEventListener("click", () => this.view.shown && saveSvg(this.name(), this.view.shown));
  }

  /** Draws again what has colours of its own. */
  redraw() {
    drawScale();
    this.view.redraw();
    this.grid.redraw();
    this.drawCards();
  }

  /** @returns {string} of a file that is saved */
  name() {
    return `${this.state.head}-sentence${this.state.sentence}`;
  }

  /** Shows what the address says; an anchor of the page is scrolled to. */
  read() {
    const hash = this.framed ? this.hash : location.hash;
    const state = parseAddress(hash);
    // A link within the page does not say the theme.
    const theme = state?.theme ?? this.state.theme;
    this.apply(state ? { ...state, theme } : { ...this.state, head: "" });
    if (state && theme !== state.theme) this.replace({});
    if (!state) document.getElementById(hash.slice(1))?.scrollIntoView();
  }

  /** Follows a link within the page. @param {Event} event */
  follow(event) {
    const link = event.target instanceof Element ? event.target.closest('a[href^="#"]') : null;
    if (!link) return;
    event.preventDefault();
    this.hash = link.getAttribute("href") ?? "";
    this.read();
  }

  /** @param {Partial<State>} change with a new entry in the history */
  open(change) {
    if (!this.framed) history.pushState(null, "", addressOf({ ...this.state, ...change }) || "#");
    this.apply({ ...this.state, ...change });
  }

  /** @param {Partial<State>} change without a new entry */
  replace(change) {
    if (!this.framed) history.replaceState(null, "", addressOf({ ...this.state, ...change }) || "#");
    this.apply({ ...this.state, ...change });
  }

  /** @param {State} state */
  apply(state) {
    const head = this.data.heads.find((one) => one.name === state.head);
    const sentence = this.data.sentences.find((one) => one.number === state.sentence) ?? this.data.sentences[0];
    const opened = Boolean(head) !== Boolean(this.state.head);
    const changed = state.head !== this.state.head;
    if (head && opened) this.scrolled = scrollY;
    this.state = { ...state, head: head?.name ?? "", sentence: sentence.number };
    document.body.classList.toggle("one-head", Boolean(head));
    if (this.theme.show(state.theme ?? THEMES[0])) this.redraw();
    this.picker.show(sentence.number);
    if (head) this.showHead(head, sentence);
    else this.showGrid(sentence);
    if (opened || changed) scrollTo(0, head ? 0 : this.scrolled);
  }

  /** @param {import("./weights.js").Sentence} sentence */
  showGrid(sentence) {
    document.title = this.data.title;
    const address = (/** @type {string} */ name) => this.address({ head: name });
    if (this.gridOf !== sentence.number) this.grid.show(sentence, address);
    else this.grid.lead(address);
    this.gridOf = sentence.number;
  }

  /** @param {import("./weights.js").HeadFacts} head @param {import("./weights.js").Sentence} sentence */
  showHead(head, sentence) {
    document.title = `${head.name} · ${this.data.title}`;
    byId("head-name").textContent = head.name;
    byId("head-short").textContent = head.phrase;
    byId("back").setAttribute("href", this.address({ head: "" }) || "#");
    for (const [id, step] of /** @type {[string, number][]} */ ([["previous-head", -1], ["next-head", 1]])) {
      const other = neighbour(this.data.heads, head, 0, step);
      byId(id).toggleAttribute("hidden", !other);
      if (other) byId(id).setAttribute("href", this.address({ head: other.name }));
    }
    void this.view.show(head, sentence, this.state);
    this.view.showEvidence(head, (name) => this.address({ head: name }), (number) => this.address({ sentence: number }));
  }

  /** @param {Partial<State>} change @returns {string} nothing stays locked */
  address(change) {
    return addressOf({ ...this.state, row: null, column: null, ...change });
  }

  /** @param {number} layers @param {number} heads */
  move(layers, heads) {
    const head = this.data.heads.find((one) => one.name === this.state.head);
    const other = head && neighbour(this.data.heads, head, layers, heads);
    if (other) this.open({ head: other.name, row: null, column: null });
  }

  back() {
    if (!this.state.head) return;
    if (this.state.row !== null || this.state.column !== null) this.replace({ row: null, column: null });
    else this.open({ head: "" });
  }
}

/** The colours with the weights that they stand for. */
function drawScale() {
  const table = colourTable(darkPage());
  const stops = [0, 0.2, 0.4, 0.6, 0.8, 1].map((root) => cssColour(table[Math.round(255 * root)]));
  const ticks = [0, 0.05, 0.25, 0.5, 1].map((weight) => make("span", { style: `left: ${100 * Math.sqrt(weight)}%`, text: `${weight}` }));
  byId("scale").replaceChildren(make("div", { class: "colours", style: `background: linear-gradient(to right, ${stops.join(", ")})` }), make("div", { class: "ticks" }, ticks));
}

/** Notes and meanings that are folded on the screen are open on paper. */
function unfoldInPrint() {
  /** @type {HTMLDetailsElement[]} */
  let unfolded = [];
  addEventListener("beforeprint", () => {
    unfolded = [...document.querySelectorAll("details")].filter((one) => !one.open);
    for (const one of unfolded) one.open = true;
  });
  addEventListener("afterprint", () => {
    for (const one of unfolded) one.open = false;
  });
}

// Without JavaScript a link to a head leads to its row; here it leads to its matrix.
for (const row of document.querySelectorAll('[id^="head="]')) row.removeAttribute("id");
document.documentElement.classList.add("scripted");
enhanceTables();
sliderOfSteps();
unfoldInPrint();
if (document.getElementById("attnlab-data")) new Page(readData("attnlab-data"));
else {
  themeOfTables();
  linksOfHeads();
}
