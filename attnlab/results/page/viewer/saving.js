// The matrix in view as SVG, PNG and CSV.

import { csvOf, download, makeSvg, shortened } from "./elements.js";
import { pictureOf } from "./canvas.js";

/**
 * @typedef {import("./head_matrix.js").Shown} Shown
 */

const CELL = 12;
const EDGE = 100;
// Files are looked at and printed on white.
const INK = "#14171b";

/** @param {string} name @param {Shown} shown */
export function saveCsv(name, shown) {
  const { matrix } = shown;
  const rows = shown.queries.map((query, row) => [
    query, ...Array.from(matrix.values.subarray(row * matrix.columns, (row + 1) * matrix.columns), (value) => value.toPrecision(4)),
  ]);
  download(`${name}.csv`, new Blob([csvOf([["query", ...shown.keys], ...rows])], { type: "text/csv" }));
}

/** @param {string} name @param {HTMLCanvasElement} canvas */
export function savePng(name, canvas) {
  const page = document.createElement("canvas");
  page.width = canvas.width;
  page.height = canvas.height;
  const context = /** @type {CanvasRenderingContext2D} */ (page.getContext("2d"));
  context.fillStyle = getComputedStyle(document.body).backgroundColor;
  context.fillRect(0, 0, page.width, page.height);
  context.drawImage(canvas, 0, 0);
  page.toBlob((blob) => blob && download(`${name}.png`, blob));
}

/** @param {string} name @param {Shown} shown */
export function saveSvg(name, shown) {
  download(`${name}.svg`, new Blob([svgOf(name, shown)], { type: "image/svg+xml" }));
}

/** @param {string} name @param {Shown} shown @returns {string} tokens as text, the entries as one picture */
export function svgOf(name, shown) {
  const { matrix } = shown;
  const [width, height] = [EDGE + CELL * matrix.columns + 8, EDGE + CELL * matrix.rows + 8];
  const text = (/** @type {string} */ token, /** @type {Record<string, string | number>} */ attributes) =>
    makeSvg("text", { ...attributes, text: shortened(token) });
  const svg = makeSvg("svg", {
    xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width} ${height}`, width, height,
    "font-family": "DejaVu Sans, Verdana, Arial, sans-serif", "font-size": 9, fill: INK,
  }, [
    makeSvg("title", { text: `${name}: rows are queries, columns are keys` }),
    makeSvg("rect", { width, height, fill: "#ffffff" }),
    makeSvg("image", {
      href: pictureOf(matrix, false).toDataURL("image/png"), x: EDGE, y: EDGE, width: CELL * matrix.columns, height: CELL * matrix.rows,
      style: "image-rendering: pixelated", preserveAspectRatio: "none",
    }),
    ...shown.queries.map((token, row) => text(token, { x: EDGE - 4, y: EDGE + CELL * (row + 0.75), "text-anchor": "end" })),
    ...shown.keys.map((token, column) => {
      const x = EDGE + CELL * (column + 0.75);
      return text(token, { x, y: EDGE - 4, transform: `rotate(-90 ${x} ${EDGE - 4})` });
    }),
  ]);
  return new XMLSerializer().serializeToString(svg);
}
