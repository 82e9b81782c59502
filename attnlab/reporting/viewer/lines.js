// Two columns of tokens, those that look and those that are looked at, with lines between them.

import { colourTable, cssColour, darkPage, inkOn, levelOf } from "./colours.js";
import { make, makeSvg, shortened } from "./elements.js";
import { columnOf, rowOf } from "./matrix.js";

/**
 * @typedef {import("./matrix.js").Matrix} Matrix
 *
 * @typedef {object} Lit
 * @property {number | null} row
 * @property {number | null} column
 */

const ROW = 22;
const WIDTH = 110;
const MOST_LINES = 3000;

export class Lines {
  /**
   * @param {HTMLElement} box
   * @param {(lit: Lit) => void} hover
   * @param {(lit: Lit) => void} lock
   */
  constructor(box, hover, lock) {
    this.box = box;
    this.hover = hover;
    this.lock = lock;
    /** @type {HTMLElement[]} */
    this.queries = [];
    /** @type {HTMLElement[]} */
    this.keys = [];
    this.svg = makeSvg("svg", { class: "lines", "aria-hidden": "true" });
  }

  /** @param {Matrix} matrix @param {string[]} queries @param {string[]} keys */
  show(matrix, queries, keys) {
    this.matrix = matrix;
    const height = ROW * Math.max(queries.length, keys.length);
    this.svg = makeSvg("svg", { class: "lines", "aria-hidden": "true", width: WIDTH, height, viewBox: `0 0 ${WIDTH} ${height}` });
    this.queries = queries.map((token, row) => this.token(token, { row, column: null }, "looks"));
    this.keys = keys.map((token, column) => this.token(token, { row: null, column }, "is looked at"));
    this.box.replaceChildren(
      make("ol", { class: "tokens looks", "aria-label": "Tokens that look" }, this.queries.map((one) => make("li", {}, [one]))),
      this.svg,
      make("ol", { class: "tokens", "aria-label": "Tokens that are looked at" }, this.keys.map((one) => make("li", {}, [one]))),
    );
  }

  /** @param {string} token @param {Lit} lit @param {string} does @returns {HTMLElement} */
  token(token, lit, does) {
    const button = make("button", { type: "button", class: "token", title: `${token} ${does}`, text: shortened(token, 14), "aria-pressed": "false" });
    button.addEventListener("pointerenter", () => this.hover(lit));
    button.addEventListener("pointerleave", () => this.hover({ row: null, column: null }));
    button.addEventListener("click", () => this.lock(lit));
    return button;
  }

  /**
   * Colours the tokens and draws the lines of the lit token, or of all.
   * @param {Lit} lit
   * @param {Lit} locked
   * @param {number} threshold
   */
  light(lit, locked, threshold) {
    if (!this.matrix) return;
    const matrix = this.matrix;
    const table = colourTable(darkPage());
    const colour = (/** @type {HTMLElement} */ element, /** @type {number | null} */ weight) => {
      const pixel = weight === null ? null : table[levelOf(weight)];
      element.style.background = pixel === null ? "" : cssColour(pixel);
      element.style.color = pixel === null ? "" : inkOn(pixel);
    };
    const toQueries = lit.column === null || lit.row !== null ? null : columnOf(matrix, lit.column);
    const toKeys = lit.row === null ? null : rowOf(matrix, lit.row);
    this.queries.forEach((element, row) => colour(element, toQueries ? toQueries[row] : null));
    this.keys.forEach((element, column) => colour(element, toKeys ? toKeys[column] : null));
    this.mark(this.queries, lit.row, locked.row);
    this.mark(this.keys, lit.column, locked.column);
    this.draw(lit, threshold);
  }

  /** @param {HTMLElement[]} elements @param {number | null} lit @param {number | null} locked */
  mark(elements, lit, locked) {
    elements.forEach((element, index) => {
      element.classList.toggle("lit", index === lit);
      element.setAttribute("aria-pressed", String(index === locked));
    });
  }

  /** @param {Lit} lit @param {number} threshold */
  draw(lit, threshold) {
    const entries = chosenEntries(/** @type {Matrix} */ (this.matrix), lit, threshold);
    this.svg.replaceChildren(...entries.map(({ row, column, weight }) =>
      makeSvg("line", {
        x1: 0, y1: (row + 0.5) * ROW, x2: WIDTH, y2: (column + 0.5) * ROW,
        "stroke-width": (0.5 + 3 * weight).toFixed(2), "stroke-opacity": Math.min(1, 0.15 + weight).toFixed(2),
      })));
  }
}

/**
 * The entries of at least the threshold, of the lit row or column or of all; the largest where there are too many.
 * @param {Matrix} matrix
 * @param {Lit} lit
 * @param {number} threshold
 * @returns {{row: number, column: number, weight: number}[]}
 */
export function chosenEntries(matrix, lit, threshold) {
  const found = [];
  for (let row = 0; row < matrix.rows; row++) {
    if (lit.row !== null && lit.row !== row) continue;
    for (let column = 0; column < matrix.columns; column++) {
      if (lit.row === null && lit.column !== null && lit.column !== column) continue;
      const weight = matrix.values[row * matrix.columns + column];
      if (weight >= threshold && weight > 0) found.push({ row, column, weight });
    }
  }
  return found.sort((a, b) => b.weight - a.weight).slice(0, MOST_LINES).reverse();
}
