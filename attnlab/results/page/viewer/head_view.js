// One head of one sentence: matrix, tokens with lines, budget and evidence.

import { mostKeys, outlineOf, showBudget, showParts, KINDS } from "./budget.js";
import { bordersOf, drawMatrix, entryAt, layoutOf, pictureOf } from "./canvas.js";
import { byId, make, percent } from "./elements.js";
import { evidenceOf } from "./evidence.js";
import { shownMatrix, sinksOf } from "./head_matrix.js";
import { Lines } from "./lines.js";
import { betweenSides, colourOfHead, othersOf, Overlay } from "./overlay.js";
import { columnOf, largest, rowOf, sum } from "./matrix.js";
import { showNeurons } from "./neurons.js";

/**
 * @typedef {import("./address.js").State} State
 * @typedef {import("./lines.js").Lit} Lit
 * @typedef {import("./head_matrix.js").Shown} Shown
 * @typedef {import("./weights.js").HeadFacts} HeadFacts
 * @typedef {import("./weights.js").Sentence} Sentence
 */

const NOTHING = { row: null, column: null };
// Pixels that the lines take beside the matrix, and that this needs at least to stand there.
const LINES = 376;
const LEAST = 400;

export class HeadView {
  /**
   * @param {import("./weights.js").PageData} data
   * @param {import("./weights.js").Weights} weights
   * @param {(change: Partial<State>) => void} change of the state, without a new entry in the history
   */
  constructor(data, weights, change) {
    this.data = data;
    this.weights = weights;
    this.change = change;
    this.canvas = /** @type {HTMLCanvasElement} */ (byId("matrix"));
    this.lines = new Lines(byId("lines"), (lit) => this.hover(lit), (lit) => this.lock(lit));
    this.overlay = new Overlay(change);
    /** @type {Lit} */
    this.hovered = NOTHING;
    /** @type {Shown | null} */
    this.shown = null;
    // What the matrix and the evidence in view are of.
    this.wanted = "";
    this.evidenceAt = "";
    this.listen();
  }

  listen() {
    this.canvas.addEventListener("pointermove", (event) => this.hover(this.entry(event)));
    this.canvas.addEventListener("pointerleave", () => this.hover(NOTHING));
    this.canvas.addEventListener("click", (event) => this.lock(this.entry(event)));
    this.control("sink", "change", (element) => ({ sink: !element.checked, row: null, column: null }));
    this.control("full", "change", (element) => ({ full: element.checked, row: null, column: null }));
    this.control("words", "change", (element) => ({ words: element.checked, row: null, column: null }));
    this.control("threshold", "input", (element) => ({ lines: Number(element.value) }));
    this.control("keys-per-row", "input", (element) => ({ keys: Number(element.value) }));
    this.control("outline", "change", (element) => ({ outline: element.value }));
  }

  /** @param {string} id @param {string} event @param {(element: HTMLInputElement) => Partial<State>} changed */
  control(id, event, changed) {
    const element = /** @type {HTMLInputElement} */ (byId(id));
    element.addEventListener(event, () => this.change(changed(element)));
  }

  /** @param {PointerEvent | MouseEvent} event @returns {Lit} */
  entry(event) {
    if (!this.shown || !this.layout) return NOTHING;
    const box = this.canvas.getBoundingClientRect();
    return entryAt(this.layout, this.shown.matrix, event.clientX - box.left, event.clientY - box.top);
  }

  /** @param {Lit} lit */
  hover(lit) {
    if (lit.row === this.hovered.row && lit.column === this.hovered.column) return;
    this.hovered = lit;
    this.light();
  }

  /** @param {Lit} lit a second click on the same unlocks */
  lock(lit) {
    if (!this.state) return;
    const same = lit.row === this.state.row && lit.column === this.state.column;
    this.change(same ? NOTHING : lit);
  }

  /**
   * @param {HeadFacts} head
   * @param {Sentence} sentence
   * @param {State} state
   */
  async show(head, sentence, state) {
    this.head = head;
    this.sentence = sentence;
    this.state = state;
    const wanted = [head.name, sentence.number, state.sink, state.full, state.words, state.also, state.sides].join(" ");
    if (wanted !== this.wanted) {
      const layer = await this.weights.layer(sentence, head.site, head.layer);
      if (state !== this.state) return;
      this.wanted = wanted;
      this.take(layer, sentence.sites[head.site], head, state);
    }
    this.fill();
  }

  /**
   * @param {import("./weights.js").Layer | null} layer
   * @param {import("./weights.js").Side | undefined} side
   * @param {HeadFacts} head
   * @param {State} state
   */
  take(layer, side, head, state) {
    const there = layer && side;
    byId("kept").hidden = !there;
    byId("not-kept").hidden = Boolean(there);
    this.shown = there ? shownMatrix(layer, side, head, state) : null;
    if (!this.shown || !layer || !side) return;
    this.picture = pictureOf(this.shown.matrix);
    byId("words-row").hidden = !side.queryWords || side.block > 1;
    byId("sink-row").hidden = !sinksOf(side).some(Boolean) || side.block > 1;
    const others = othersOf(head.head, layer.heads, state).map((number) => ({
      matrix: betweenSides(shownMatrix(layer, side, { ...head, head: number }, state), side, state.sides),
      colour: colourOfHead(number),
    }));
    const own = { matrix: betweenSides(this.shown, side, state.sides), colour: others.length ? colourOfHead(head.head) : "" };
    this.lines.show(this.shown.matrix, this.shown.queries, this.shown.keys, [...others, own]);
    this.overlay.show(head.head, layer.heads, side, state);
    setOptions(byId("outline"), { ...KINDS, ...Object.fromEntries(this.shown.fits.map((one) => [one.name, `fitted: ${one.words}`])) });
  }

  /** Everything that follows from the matrix shown. */
  fill() {
    const [shown, state] = [this.shown, this.state];
    if (!shown || !state || !this.head) return;
    const room = byId("kept").clientWidth;
    this.layout = layoutOf(shown.matrix, room - LINES < LEAST ? room : room - LINES);
    const keys = Math.min(state.keys, mostKeys(shown.matrix));
    this.outline = outlineOf(shown, state.outline, keys);
    this.borders = bordersOf(shown.matrix, this.outline);
    this.setControls(shown, state, keys);
    byId("said").textContent = said(shown);
    const fitted = shown.fits.find((one) => one.name === state.outline);
    showParts(byId("parts"), shown.matrix, this.outline, fitted);
    showBudget(byId("budget"), shown.matrix, keys, this.outline, shown.block > 1);
    this.canvas.setAttribute("aria-label", `Attention matrix of ${this.head.name}, ${shown.matrix.rows} queries, ${shown.matrix.columns} keys`);
    if (this.sentence) void showNeurons(this.head, this.sentence.number, shown, state);
    this.light();
  }

  /** @param {Shown} shown @param {State} state @param {number} keys per row, at most all */
  setControls(shown, state, keys) {
    const input = (/** @type {string} */ id) => /** @type {HTMLInputElement} */ (byId(id));
    input("sink").checked = !state.sink;
    input("full").checked = state.full;
    input("words").checked = state.words;
    byId("full-row").hidden = !state.full && (shown.block === 1 || shown.stored);
    input("threshold").value = String(state.lines);
    byId("threshold-said").textContent = state.lines.toFixed(2);
    input("keys-per-row").max = String(mostKeys(shown.matrix));
    input("keys-per-row").value = String(keys);
    byId("keys-said").textContent = String(keys);
    for (const id of ["keys-per-row", "outline"]) input(id).disabled = shown.block > 1;
    input("outline").value = state.outline;
    if (!input("outline").value) input("outline").value = "none";
  }

  /** The lit row and column: those under the pointer, else the locked ones. */
  light() {
    const [shown, state] = [this.shown, this.state];
    if (!shown || !state || !this.layout || !this.picture) return;
    const { row, column } = within(this.hovered, shown);
    const locked = within({ row: state.row, column: state.column }, shown);
    const lit = row === null && column === null ? locked : { row, column };
    drawMatrix(this.canvas, { ...shown, borders: this.borders ?? [], ...lit }, this.layout, this.picture);
    const more = this.lines.light(lit, locked, state.lines);
    byId("lines-left-out").textContent = more ? `${more} lines of smaller weights are left out.` : "";
    byId("readout").textContent = readout(shown, lit);
  }

  /** Draws again, as after a change of the colours or of the room. */
  redraw() {
    if (!this.shown) return;
    this.picture = pictureOf(this.shown.matrix);
    this.fill();
  }

  /**
   * @param {HeadFacts} head
   * @param {(name: string) => string} addressOfHead
   * @param {(sentence: number) => string} addressOfSentence
   */
  showEvidence(head, addressOfHead, addressOfSentence) {
    const address = addressOfHead(head.name);
    if (address === this.evidenceAt) return;
    this.evidenceAt = address;
    byId("evidence").replaceChildren(...evidenceOf(head, this.data, addressOfHead, addressOfSentence));
  }
}

/** @param {HTMLElement} list @param {Record<string, string>} options */
function setOptions(list, options) {
  list.replaceChildren(...Object.entries(options).map(([value, text]) => make("option", { value, text })));
}

/** @param {Lit} lit @param {Shown} shown @returns {Lit} nothing beyond the matrix */
function within(lit, shown) {
  return {
    row: lit.row !== null && lit.row < shown.matrix.rows ? lit.row : null,
    column: lit.column !== null && lit.column < shown.matrix.columns ? lit.column : null,
  };
}

/** @param {Shown} shown @returns {string} what the matrix is not */
function said(shown) {
  const parts = [];
  if (shown.words) parts.push("Words: the rows of a word's tokens are averaged, its columns summed; special tokens and punctuation stand alone.");
  if (shown.left_out.length) parts.push(`Left out as keys: ${shown.left_out.join(", ")}; each row is divided by its weight on the other tokens.`);
  if (shown.block > 1) parts.push(`An entry is the largest weight of ${shown.block} by ${shown.block} tokens${shown.stored ? "; the page holds no more of this sentence" : ""}.`);
  return parts.join(" ");
}

/** @param {Shown} shown @param {Lit} lit @returns {string} */
function readout(shown, lit) {
  const { matrix, queries, keys } = shown;
  if (lit.row !== null && lit.column !== null) {
    const values = rowOf(matrix, lit.row);
    if (sum(values) === 0) return `“${queries[lit.row]}”: nothing is left of this row`;
    const rank = values.filter((value) => value > values[lit.column ?? 0]).length + 1;
    return `query “${queries[lit.row]}”, key “${keys[lit.column]}”: ${percent(values[lit.column])}, number ${rank} of its row`;
  }
  if (lit.row !== null) {
    const values = rowOf(matrix, lit.row);
    if (sum(values) === 0) return `“${queries[lit.row]}”: nothing is left of this row`;
    const most = largest(values, 3).map((column) => `“${keys[column]}” ${percent(values[column])}`);
    return `query “${queries[lit.row]}”, largest keys ${most.join(", ")}`;
  }
  if (lit.column !== null && shown.block > 1) return `“${keys[lit.column]}”`;
  if (lit.column !== null) {
    const mean = sum(columnOf(matrix, lit.column)) / matrix.rows;
    return `key “${keys[lit.column]}”, mean weight over queries ${mean.toFixed(3)}`;
  }
  return "Point at a token or an entry; click to lock it.";
}
