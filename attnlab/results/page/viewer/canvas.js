// Draws one matrix on a canvas: cells, tokens on both axes, outlines, the lit row and column.

import { colourTable, darkPage, levelOf } from "./colours.js";
import { shortened } from "./elements.js";

/**
 * @typedef {import("./matrix.js").Matrix} Matrix
 *
 * @typedef {[number, number, number, number]} Border a line from one corner of an entry to another, in entries
 *
 * @typedef {object} Drawn what a canvas shows
 * @property {Matrix} matrix
 * @property {string[]} queries
 * @property {string[]} keys
 * @property {Border[]} borders of what is outlined
 * @property {number | null} row lit
 * @property {number | null} column lit
 *
 * @typedef {object} Layout
 * @property {number} cell pixels a side
 * @property {number} left
 * @property {number} top
 * @property {number} width of the whole canvas
 * @property {number} height
 */

const FONT = '11px "DejaVu Sans", Verdana, Arial, sans-serif';
const MOST_CELL = 40;
const TITLE = 18;
const LABEL = 92;

/** @param {Matrix} matrix @param {boolean} [dark] colours @returns {HTMLCanvasElement} one pixel per entry */
export function pictureOf(matrix, dark = darkPage()) {
  const picture = document.createElement("canvas");
  picture.width = matrix.columns;
  picture.height = matrix.rows;
  const context = /** @type {CanvasRenderingContext2D} */ (picture.getContext("2d"));
  const image = context.createImageData(matrix.columns, matrix.rows);
  const table = colourTable(dark);
  const pixels = new Uint32Array(image.data.buffer);
  for (let index = 0; index < pixels.length; index++) pixels[index] = table[levelOf(matrix.values[index])];
  context.putImageData(image, 0, 0);
  return picture;
}

/**
 * A picture without axes, filling the canvas.
 * @param {HTMLCanvasElement} canvas
 * @param {Matrix} matrix
 * @param {number} side of the longer axis, in pixels
 */
export function drawSmall(canvas, matrix, side) {
  const unit = side / Math.max(matrix.rows, matrix.columns);
  const [width, height] = [matrix.columns * unit, matrix.rows * unit];
  const context = sized(canvas, width, height);
  context.imageSmoothingEnabled = matrix.columns > width;
  context.drawImage(pictureOf(matrix), 0, 0, width, height);
}

/**
 * @param {Matrix} matrix
 * @param {number} room width that there is
 * @returns {Layout}
 */
export function layoutOf(matrix, room) {
  const cell = Math.max(2, Math.min(MOST_CELL, Math.floor((room - LABEL - TITLE - 8) / matrix.columns), Math.max(9, Math.floor(620 / matrix.rows))));
  const [left, top] = [LABEL + TITLE, LABEL + TITLE];
  return { cell, left, top, width: left + cell * matrix.columns + 8, height: top + cell * matrix.rows + 8 };
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {Drawn} drawn
 * @param {Layout} layout
 * @param {HTMLCanvasElement} picture
 */
export function drawMatrix(canvas, drawn, layout, picture) {
  const context = sized(canvas, layout.width, layout.height);
  const ink = getComputedStyle(canvas).color;
  const { matrix } = drawn;
  const [width, height] = [layout.cell * matrix.columns, layout.cell * matrix.rows];
  context.imageSmoothingEnabled = false;
  context.drawImage(picture, layout.left, layout.top, width, height);
  context.strokeStyle = ink;
  context.globalAlpha = 0.45;
  context.strokeRect(layout.left - 0.5, layout.top - 0.5, width + 1, height + 1);
  context.globalAlpha = 1;
  drawAxes(context, drawn, layout, ink);
  if (drawn.borders.length) drawOutline(context, drawn.borders, layout, colourOf(canvas, "--outline"));
  drawLit(context, drawn, layout, colourOf(canvas, "--accent"));
}

/** @param {HTMLElement} element @param {string} name of a custom property @returns {string} its colour in the theme of the page */
function colourOf(element, name) {
  const before = element.style.outlineColor;
  element.style.outlineColor = `var(${name})`;
  const colour = getComputedStyle(element).outlineColor;
  element.style.outlineColor = before;
  return colour;
}

/**
 * The entry under the pointer.
 * @param {Layout} layout
 * @param {Matrix} matrix
 * @param {number} x
 * @param {number} y
 * @returns {{row: number | null, column: number | null}} null along an axis where the pointer is on the other's tokens
 */
export function entryAt(layout, matrix, x, y) {
  const column = Math.floor((x - layout.left) / layout.cell), row = Math.floor((y - layout.top) / layout.cell);
  const inside = (/** @type {number} */ value, /** @type {number} */ most) => (value >= 0 && value < most ? value : null);
  return { row: inside(row, matrix.rows), column: inside(column, matrix.columns) };
}

/** @param {HTMLCanvasElement} canvas @param {number} width @param {number} height @returns {CanvasRenderingContext2D} */
function sized(canvas, width, height) {
  const ratio = Math.min(3, devicePixelRatio || 1);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.scale(ratio, ratio);
  return context;
}

/** @param {CanvasRenderingContext2D} context @param {Drawn} drawn @param {Layout} layout @param {string} ink */
function drawAxes(context, drawn, layout, ink) {
  context.font = FONT;
  context.textBaseline = "middle";
  context.fillStyle = ink;
  const step = Math.ceil(12 / layout.cell);
  drawn.queries.forEach((token, row) => {
    if (!labelled(row, step, drawn.row)) return;
    context.textAlign = "right";
    context.fillText(shortened(token), layout.left - 5, layout.top + (row + 0.5) * layout.cell);
  });
  drawn.keys.forEach((token, column) => {
    if (!labelled(column, step, drawn.column)) return;
    turned(context, layout.left + (column + 0.5) * layout.cell, layout.top - 5, "left", shortened(token));
  });
  context.font = `bold ${FONT}`;
  context.textAlign = "left";
  context.fillText("key →", layout.left, 8);
  turned(context, 8, layout.top, "right", "← query");
}

/** @param {number} index @param {number} step @param {number | null} lit @returns {boolean} */
function labelled(index, step, lit) {
  if (index === lit) return true;
  return index % step === 0 && (lit === null || Math.abs(index - lit) >= step);
}

/** @param {CanvasRenderingContext2D} context @param {number} x @param {number} y @param {CanvasTextAlign} align @param {string} text */
function turned(context, x, y, align, text) {
  context.save();
  context.translate(x, y);
  context.rotate(-Math.PI / 2);
  context.textAlign = align;
  context.fillText(text, 0, 0);
  context.restore();
}

/** @param {CanvasRenderingContext2D} context @param {Border[]} borders @param {Layout} layout @param {string} colour */
function drawOutline(context, borders, layout, colour) {
  context.strokeStyle = colour;
  context.lineWidth = layout.cell > 6 ? 1.5 : 1;
  context.beginPath();
  for (const [x1, y1, x2, y2] of borders) {
    context.moveTo(layout.left + x1 * layout.cell, layout.top + y1 * layout.cell);
    context.lineTo(layout.left + x2 * layout.cell, layout.top + y2 * layout.cell);
  }
  context.stroke();
}

/**
 * The lines between entries that are kept and others, in entries.
 * @param {Matrix} matrix
 * @param {import("./matrix.js").Support | null} kept
 * @returns {Border[]}
 */
export function bordersOf(matrix, kept) {
  if (!kept) return [];
  const at = (/** @type {number} */ row, /** @type {number} */ column) =>
    row >= 0 && column >= 0 && row < matrix.rows && column < matrix.columns && kept[row * matrix.columns + column] === 1;
  /** @type {Border[]} */
  const found = [];
  for (let row = 0; row <= matrix.rows; row++) {
    for (let column = 0; column <= matrix.columns; column++) {
      if (at(row, column) !== at(row - 1, column)) found.push([column, row, column + 1, row]);
      if (at(row, column) !== at(row, column - 1)) found.push([column, row, column, row + 1]);
    }
  }
  return found;
}

/** @param {CanvasRenderingContext2D} context @param {Drawn} drawn @param {Layout} layout @param {string} colour */
function drawLit(context, drawn, layout, colour) {
  const { cell, left, top } = layout;
  context.strokeStyle = colour;
  context.lineWidth = 2;
  if (drawn.row !== null) {
    context.strokeRect(left - 1, top + drawn.row * cell - 1, cell * drawn.matrix.columns + 2, cell + 2);
  }
  if (drawn.column !== null) {
    context.strokeRect(left + drawn.column * cell - 1, top - 1, cell + 2, cell * drawn.matrix.rows + 2);
  }
}
