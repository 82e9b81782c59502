// How much of the weight a few keys per row capture: figures, a curve, and what is left of the matrix.

import { drawSmall } from "./canvas.js";
import { make, makeSvg, percent } from "./elements.js";
import { bandSupport, captured, massByBudget, maskedBy, supportOf } from "./matrix.js";

/**
 * @typedef {import("./matrix.js").Matrix} Matrix
 * @typedef {import("./matrix.js").Support} Support
 *
 * @typedef {object} Fitted a structured matrix that was fitted to this one
 * @property {string} name
 * @property {string} words
 * @property {[number, number] | null} offsets
 * @property {number[]} columns
 * @property {[number, number, number][]} blocks first row, rows and column
 * @property {number[]} error entries of E, counted row by row
 * @property {string} relative
 */

export const KINDS = {
  none: "nothing",
  largest: "the largest keys of each row",
  band: "the best band",
  columns: "the best columns",
  both: "the best band and columns",
};

const MOST_KEYS = 24;

/** @param {Matrix} matrix @returns {number} keys per row that can be asked for */
export function mostKeys(matrix) {
  return Math.min(MOST_KEYS, matrix.columns);
}

/** @param {Matrix} matrix @param {Fitted} fitted @returns {Support} the structure and E */
export function fittedSupport(matrix, fitted) {
  const band = fitted.offsets ? { first: fitted.offsets[0], last: fitted.offsets[1] } : null;
  const kept = bandSupport(matrix, band, fitted.columns);
  for (const [start, rows, column] of fitted.blocks) {
    for (let row = start; row < start + rows; row++) {
      kept.fill(0, row * matrix.columns, (row + 1) * matrix.columns);
      kept[row * matrix.columns + column] = 1;
    }
  }
  for (const index of fitted.error) kept[index] = 1;
  return kept;
}

/**
 * The entries to outline, of those that rows may look at; none in block maxima.
 * @param {import("./head_matrix.js").Shown} shown
 * @param {string} outline
 * @param {number} keys
 * @returns {Support | null}
 */
export function outlineOf(shown, outline, keys) {
  const { matrix, fits, visible } = shown;
  const fitted = fits.find((one) => one.name === outline);
  if (!visible || outline === "none" || !(fitted || outline in KINDS)) return null;
  const kept = fitted ? fittedSupport(matrix, fitted) : supportOf(matrix, outline, keys);
  return kept.map((one, index) => one * visible[index]);
}

/**
 * @param {HTMLElement} box
 * @param {Matrix} matrix
 * @param {Support | null} kept
 * @param {Fitted | undefined} fitted the structured matrix whose entries are kept
 */
export function showParts(box, matrix, kept, fitted) {
  box.hidden = kept === null;
  if (kept === null) return;
  const parts = [
    { name: "the head", matrix },
    { name: "kept: its weights inside the outline", matrix: maskedBy(matrix, kept, true) },
    { name: "not kept: its weights outside", matrix: maskedBy(matrix, kept, false) },
  ];
  const figures = parts.map(({ name, matrix: one }) => {
    const canvas = make("canvas", { role: "img", "aria-label": name });
    drawSmall(canvas, one, 190);
    return make("figure", {}, [canvas, make("figcaption", { text: name })]);
  });
  const distance = `The fitted matrix (${fitted?.words}) has its own weights there; its relative distance to the head is ${fitted?.relative}.`;
  box.replaceChildren(...figures, ...(fitted ? [make("p", { class: "note", text: distance })] : []));
}

/**
 * @param {HTMLElement} box
 * @param {Matrix} matrix
 * @param {number} keys
 * @param {Support | null} kept
 * @param {boolean} cut whether entries are block maxima, which hold no mass
 */
export function showBudget(box, matrix, keys, kept, cut) {
  if (cut) {
    box.replaceChildren(make("p", { class: "note", text: "Mass is not counted here: entries are the largest of a block." }));
    return;
  }
  const most = mostKeys(matrix);
  const curves = massByBudget(matrix, most);
  const used = kept ? kept.reduce((total, one) => total + one, 0) / matrix.rows : keys;
  const share = kept ? captured(matrix, kept) : null;
  box.replaceChildren(
    make("p", { class: "captured", "aria-live": "polite" }, [
      ...figure("largest keys", curves.largest[keys - 1]),
      ...figure("best band", curves.band[keys - 1]),
      ...(share === null ? [] : figure(`outlined, ${used.toFixed(1)} keys per row`, share)),
    ]),
    curve(curves, keys, most),
  );
}

/** @param {string} name @param {number} share @returns {HTMLElement[]} */
function figure(name, share) {
  return [make("span", { class: "figure" }, [make("strong", { text: percent(share) }), ` ${name}`])];
}

/** @param {{largest: number[], band: number[]}} curves @param {number} keys @param {number} most @returns {SVGElement} */
function curve(curves, keys, most) {
  const [width, height, left, foot] = [300, 120, 38, 18];
  const x = (/** @type {number} */ count) => left + ((count - 1) * (width - left - 46)) / Math.max(1, most - 1);
  const y = (/** @type {number} */ share) => 6 + (1 - share) * (height - foot - 6);
  const line = (/** @type {number[]} */ shares) => shares.map((share, index) => `${x(index + 1).toFixed(1)},${y(share).toFixed(1)}`).join(" ");
  const last = most - 1;
  const apart = Math.abs(y(curves.largest[last]) - y(curves.band[last])) < 12 ? 12 : 0;
  return makeSvg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "curve", role: "img", "aria-label": "Mass captured by keys per row" }, [
    ...[0, 0.5, 1].flatMap((share) => [
      makeSvg("line", { class: "rule", x1: left, x2: width - 46, y1: y(share), y2: y(share) }),
      makeSvg("text", { x: left - 4, y: y(share) + 4, class: "end", text: `${100 * share}%` }),
    ]),
    makeSvg("line", { class: "now", x1: x(keys), x2: x(keys), y1: 6, y2: height - foot }),
    makeSvg("polyline", { class: "largest", points: line(curves.largest) }),
    makeSvg("polyline", { class: "band", points: line(curves.band) }),
    makeSvg("text", { x: width - 42, y: y(curves.largest[last]) + 4, text: "largest" }),
    makeSvg("text", { x: width - 42, y: y(curves.band[last]) + 4 + apart, text: "band" }),
    makeSvg("text", { x: left, y: height - 3, text: "1 key per row" }),
    makeSvg("text", { x: width - 46, y: height - 3, class: "end", text: `${most}` }),
  ]);
}
