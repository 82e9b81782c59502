// Query and key of the locked entry, and their products by dimension.

import { byId, make, makeSvg } from "./elements.js";
import { inflate } from "./weights.js";

/**
 * @typedef {import("./head_matrix.js").Shown} Shown
 * @typedef {import("./address.js").State} State
 *
 * @typedef {object} Vectors of the tokens of a side in all heads of a layer
 * @property {Int8Array} levels
 * @property {number} tokens
 * @property {number} dim
 * @property {number[]} scales by head, what a level stands for
 */

const NAME_WIDTH = 60;
const STRIPE = 20;
const BARS = 60;
const MOST_WIDE = 8;

/** @type {Map<string, Promise<Vectors | null>>} */
const decodedVectors = new Map();

/** @param {string} address @returns {Promise<Vectors | null>} null where the page holds none */
function vectorsAt(address) {
  let promise = decodedVectors.get(address);
  if (!promise) {
    promise = decodeVectors(document.getElementById(address));
    decodedVectors.set(address, promise);
  }
  return promise;
}

/** @param {HTMLElement | null} element @returns {Promise<Vectors | null>} */
async function decodeVectors(element) {
  if (!element) return null;
  const [, tokens, dim] = (element.dataset.shape ?? "").split(" ").map(Number);
  const bytes = await inflate(element.textContent ?? "");
  return { levels: new Int8Array(bytes.buffer), tokens, dim, scales: (element.dataset.scales ?? "").split(" ").map(Number) };
}

/** @param {Vectors} vectors @param {number} head @param {number} token @returns {number[]} */
function vectorOf({ levels, tokens, dim, scales }, head, token) {
  const start = (head * tokens + token) * dim;
  return Array.from(levels.subarray(start, start + dim), (level) => level * scales[head]);
}

/** @type {State | null} what was asked for last: layers are decoded in their own time */
let latest = null;

/**
 * @param {import("./weights.js").HeadFacts} head
 * @param {number} sentence
 * @param {Shown} shown
 * @param {State} state
 */
export async function showNeurons(head, sentence, shown, state) {
  const box = byId("neurons");
  const address = `${sentence}.${head.site}.${head.layer}`;
  latest = state;
  const [queries, keys] = await Promise.all([vectorsAt(`queries.${address}`), vectorsAt(`keys.${address}`)]);
  if (latest !== state) return;
  box.hidden = !queries || !keys || shown.block > 1 || shown.words;
  if (!queries || !keys || box.hidden) return;
  const { row, column } = state;
  if (row === null || column === null || row >= queries.tokens || column >= keys.tokens) {
    box.replaceChildren(make("p", { class: "note", text: "Click an entry of the matrix to see its query and key, and their products by dimension." }));
    return;
  }
  const [query, key] = [vectorOf(queries, head.head, row), vectorOf(keys, head.head, column)];
  const products = query.map((value, index) => value * key[index]);
  const total = products.reduce((sum, value) => sum + value, 0);
  const score = total / Math.sqrt(products.length);
  box.replaceChildren(
    make("p", { id: "score", text: `query “${shown.queries[row]}” · key “${shown.keys[column]}” = ${total.toFixed(2)}; divided by √${products.length}, the score is ${score.toFixed(2)}` }),
    make("div", { class: "wide" }, [pictureOfProducts(query, key, products)]),
    make("p", { class: "note", text: `Largest products: ${largestProducts(products)}. Vectors are rounded to 8 bits. What a model adds to scores, such as masks and relative positions, is not part of them.` }),
  );
}

/** @param {number[]} products @returns {string} */
function largestProducts(products) {
  const order = products.map((_, index) => index).sort((a, b) => Math.abs(products[b]) - Math.abs(products[a]));
  return order.slice(0, 3).map((index) => `dimension ${index} (${products[index].toFixed(2)})`).join(", ");
}

/** @param {number[]} query @param {number[]} key @param {number[]} products @returns {SVGElement} */
function pictureOfProducts(query, key, products) {
  const step = Math.min(MOST_WIDE, 640 / products.length);
  const width = NAME_WIDTH + step * products.length;
  const middle = 2 * STRIPE + BARS / 2 + 4;
  const most = Math.max(...products.map(Math.abs), 1e-9);
  const bars = products.map((value, index) => {
    const tall = (BARS / 2) * (Math.abs(value) / most);
    return cell(index, step, value > 0 ? middle - tall : middle, tall, value, 1, "product");
  });
  return makeSvg("svg", { width, height: 2 * STRIPE + BARS + 8, role: "img", "aria-label": "Query, key, and their products by dimension" }, [
    ...stripe("query", query, 0, step), ...stripe("key", key, STRIPE, step),
    makeSvg("text", { x: 0, y: middle + 4, text: "product" }), ...bars,
  ]);
}

/** @param {string} name @param {number[]} values @param {number} top @param {number} step @returns {SVGElement[]} */
function stripe(name, values, top, step) {
  const most = Math.max(...values.map(Math.abs), 1e-9);
  return [
    makeSvg("text", { x: 0, y: top + 13, text: name }),
    ...values.map((value, index) => cell(index, step, top + 1, STRIPE - 4, value, Math.abs(value) / most, name)),
  ];
}

/** @param {number} index @param {number} step @param {number} y @param {number} height @param {number} value @param {number} opacity @param {string} name @returns {SVGElement} */
function cell(index, step, y, height, value, opacity, name) {
  return makeSvg("rect", { x: NAME_WIDTH + index * step, y, width: Math.max(step - 1, 0.5), height, class: value < 0 ? "negative" : "positive", "fill-opacity": opacity.toFixed(2) }, [
    makeSvg("title", { text: `${name}, dimension ${index}: ${value.toFixed(3)}` }),
  ]);
}
