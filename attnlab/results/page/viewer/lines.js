// Two columns of tokens, queries and keys, with lines between them.

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

/**
 * @typedef {object} Laid lines of a head
 * @property {Matrix} matrix
 * @property {string} colour empty for that of the page
 */

const ROW = 22;
const WIDTH = 110;
const MOST_LINES = 1000;
// Widths and opacities of lines.
const STEPS = 20;
const NOBODY = { row: null, column: null };

export class Lines {
  /**
   * @param {HTMLElement} box
   * @param {(lit: Lit) => void} hover
   * @param {(lit: Lit) => void} lock
   */
  constructor(box, hover, lock) {
    this.box = box;
    this.queries = new Tokens("query", "Query tokens", (row) => ({ row, column: null }));
    this.keys = new Tokens("key", "Key tokens", (column) => ({ row: null, column }));
    this.svg = makeSvg("svg", { class: "lines", "aria-hidden": "true" });
    this.queries.list.classList.add("queries");
    box.replaceChildren(this.queries.list, this.svg, this.keys.list);
    /** @type {{threshold: number, drawn: SVGElement[], more: number} | null} the lines where no token is lit */
    this.whole = null;
    /** @type {Laid[]} */
    this.laid = [];
    box.addEventListener("pointerover", (event) => hover(this.at(event) ?? NOBODY));
    box.addEventListener("pointerleave", () => hover(NOBODY));
    box.addEventListener("click", (event) => {
      const lit = this.at(event);
      if (lit) lock(lit);
    });
  }

  /** @param {Event} event @returns {Lit | null} the token that it is about */
  at(event) {
    return this.queries.at(event.target) ?? this.keys.at(event.target);
  }

  /** @param {Matrix} matrix @param {string[]} queries @param {string[]} keys @param {Laid[]} laid lines over each other */
  show(matrix, queries, keys, laid) {
    this.matrix = matrix;
    this.laid = laid;
    this.whole = null;
    const height = ROW * Math.max(queries.length, keys.length);
    for (const [name, value] of Object.entries({ width: WIDTH, height, viewBox: `0 0 ${WIDTH} ${height}` })) {
      if (this.svg.getAttribute(name) !== String(value)) this.svg.setAttribute(name, String(value));
    }
    this.queries.show(queries);
    this.keys.show(keys);
  }

  /**
   * Colours the tokens and draws the lines of the lit token, or of all.
   * @param {Lit} lit
   * @param {Lit} locked
   * @param {number} threshold
   * @returns {number} lines for which there is no room
   */
  light(lit, locked, threshold) {
    if (!this.matrix) return 0;
    this.queries.colour(lit.column === null || lit.row !== null ? null : columnOf(this.matrix, lit.column));
    this.keys.colour(lit.row === null ? null : rowOf(this.matrix, lit.row));
    this.queries.mark(lit.row, locked.row);
    this.keys.mark(lit.column, locked.column);
    return this.draw(this.laid, lit, threshold);
  }

  /** @param {Laid[]} laid @param {Lit} lit @param {number} threshold @returns {number} lines for which there is no room */
  draw(laid, lit, threshold) {
    const all = lit.row === null && lit.column === null;
    const kept = all && this.whole?.threshold === threshold ? this.whole : null;
    const { drawn, more } = kept ?? linesOfAll(laid, lit, threshold);
    if (all) this.whole = { threshold, drawn, more };
    this.svg.replaceChildren(...drawn);
    return more;
  }
}

/** A column of tokens; what does not change from one head to another stays as it is. */
class Tokens {
  /**
   * @param {string} does
   * @param {string} heading
   * @param {(index: number) => Lit} litOf
   */
  constructor(does, heading, litOf) {
    this.does = does;
    this.litOf = litOf;
    this.list = make("ol", { class: "tokens", "aria-label": heading });
    /** @type {string[]} */
    this.names = [];
    /** @type {HTMLElement[]} */
    this.elements = [];
    /** @type {(number | null)[]} the pixel behind each */
    this.pixels = [];
    /** @type {number | null} */
    this.lit = null;
    /** @type {number | null} */
    this.locked = null;
  }

  /** @param {string[]} names */
  show(names) {
    if (names.length === this.names.length && names.every((name, index) => name === this.names[index])) return;
    this.names = names;
    this.elements = names.map((name, index) =>
      make("button", { type: "button", class: "token", title: `${name} ${this.does}`, text: shortened(name, 14), "aria-pressed": "false", "data-index": index }));
    this.pixels = names.map(() => null);
    this.lit = this.locked = null;
    this.list.replaceChildren(...this.elements.map((one) => make("li", {}, [one])));
  }

  /** @param {EventTarget | null} target @returns {Lit | null} */
  at(target) {
    const token = target instanceof HTMLElement && this.list.contains(target) ? target.closest(".token") : null;
    return token instanceof HTMLElement ? this.litOf(Number(token.dataset.index)) : null;
  }

  /** @param {Float32Array | null} weights */
  colour(weights) {
    const table = colourTable(darkPage());
    this.elements.forEach((element, index) => {
      const pixel = weights ? table[levelOf(weights[index])] : null;
      if (pixel === this.pixels[index]) return;
      this.pixels[index] = pixel;
      element.style.background = pixel === null ? "" : cssColour(pixel);
      element.style.color = pixel === null ? "" : inkOn(pixel);
    });
  }

  /** @param {number | null} lit @param {number | null} locked */
  mark(lit, locked) {
    if (lit !== this.lit) {
      if (this.lit !== null) this.elements[this.lit].classList.remove("lit");
      if (lit !== null) this.elements[lit].classList.add("lit");
      this.lit = lit;
    }
    if (locked !== this.locked) {
      if (this.locked !== null) this.elements[this.locked].setAttribute("aria-pressed", "false");
      if (locked !== null) this.elements[locked].setAttribute("aria-pressed", "true");
      this.locked = locked;
    }
  }
}

/** @param {Laid[]} laid @param {Lit} lit @param {number} threshold @returns {{drawn: SVGElement[], more: number}} */
function linesOfAll(laid, lit, threshold) {
  const each = laid.map((one) => drawnLines(one, lit, threshold, Math.ceil(MOST_LINES / laid.length)));
  return { drawn: each.flatMap((one) => one.drawn), more: each.reduce((sum, one) => sum + one.more, 0) };
}

/**
 * Lines of like weight as one path, so that many cost no more than few.
 * @param {Laid} laid
 * @param {Lit} lit
 * @param {number} threshold
 * @param {number} most
 * @returns {{drawn: SVGElement[], more: number}}
 */
function drawnLines({ matrix, colour }, lit, threshold, most) {
  const entries = chosenEntries(matrix, lit, threshold);
  const shown = entries.slice(-most);
  /** @type {string[]} */
  const paths = [];
  for (const { row, column, weight } of shown) {
    const step = Math.min(STEPS - 1, Math.floor(weight * STEPS));
    paths[step] = `${paths[step] ?? ""}M0 ${(row + 0.5) * ROW}L${WIDTH} ${(column + 0.5) * ROW}`;
  }
  const drawn = paths.flatMap((path, step) => {
    const weight = (step + 0.5) / STEPS;
    return makeSvg("path", { d: path, "stroke-width": (0.5 + 3 * weight).toFixed(2), "stroke-opacity": Math.min(1, 0.15 + weight).toFixed(2), style: colour && `stroke: ${colour}` });
  });
  return { drawn, more: entries.length - shown.length };
}

/**
 * The entries of at least the threshold, of the lit row or column or of all, the largest last.
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
  return found.sort((a, b) => a.weight - b.weight);
}
