// The matrix of one head as it is shown: without the sink where that is asked, in blocks where it is large.

import { blockMaxima, mergedGroups, visibleEntries, withoutColumns } from "./matrix.js";
import { axisNames, matrixOfHead } from "./weights.js";

export const MOST_TOKENS = 256;

/**
 * @typedef {import("./matrix.js").Matrix} Matrix
 *
 * @typedef {object} Shown
 * @property {Matrix} matrix
 * @property {string[]} queries a name per row
 * @property {string[]} keys a name per column
 * @property {string[]} left_out tokens without which the rows were divided by their sums
 * @property {number} block tokens per entry along each side
 * @property {boolean} words whether rows and columns are words instead of tokens
 * @property {boolean} stored whether the blocks are all that the page holds
 * @property {import("./budget.js").Fitted[]} fits
 * @property {import("./matrix.js").Support | null} visible entries of which the row may look at the column; null of block maxima
 */

/**
 * @param {import("./weights.js").Layer} layer
 * @param {import("./weights.js").Side} side
 * @param {import("./weights.js").HeadFacts} head
 * @param {{sink: boolean, full: boolean, words: boolean}} state
 * @returns {Shown}
 */
export function shownMatrix(layer, side, head, state) {
  let matrix = matrixOfHead(layer, head.head);
  let dropped = state.sink || side.block > 1 ? side.keys.map(() => false) : sinksOf(side);
  const leftOut = [...new Set(side.keys.filter((_, column) => dropped[column]))];
  if (leftOut.length) matrix = withoutColumns(matrix, dropped);
  const merged = state.words && side.block === 1 && side.queryWords && side.keyWords
    ? { queries: side.queryWords, keys: side.keyWords }
    : null;
  if (merged) {
    const given = dropped;
    matrix = mergedGroups(matrix, merged.queries.starts, merged.keys.starts);
    dropped = merged.keys.starts.map((start) => given[start]);
  }
  const [queries, keys] = merged ? [merged.queries.names, merged.keys.names] : [side.queries, side.keys];
  const more = side.block === 1 && !state.full ? Math.ceil(Math.max(matrix.rows, matrix.columns) / MOST_TOKENS) : 1;
  const block = side.block * more;
  return {
    matrix: more > 1 ? blockMaxima(matrix, more) : matrix,
    queries: axisNames(queries, block),
    keys: axisNames(keys, block),
    left_out: leftOut,
    block,
    words: Boolean(merged),
    stored: side.block > 1,
    fits: block === 1 && state.sink && !merged ? (side.fits[head.layer] ?? [])[head.head] ?? [] : [],
    visible: block === 1 ? visibleEntries(matrix, head.site === "decoder", dropped) : null,
  };
}

/** @param {import("./weights.js").Side} side @returns {boolean[]} which keys are special tokens */
export function sinksOf(side) {
  return side.keys.map((_, column) => "ocs".includes(side.keyKinds[column] ?? "w"));
}
