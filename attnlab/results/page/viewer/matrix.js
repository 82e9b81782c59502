// Arithmetic of one attention matrix: nothing here knows of the page.

/**
 * @typedef {object} Matrix
 * @property {number} rows queries
 * @property {number} columns keys
 * @property {Float32Array} values row by row
 */

/** @typedef {Uint8Array} Support 1 where an entry is kept, row by row */

/**
 * @param {number} rows
 * @param {number} columns
 * @param {(row: number, column: number) => number} value
 * @returns {Matrix}
 */
export function matrixOf(rows, columns, value) {
  const values = new Float32Array(rows * columns);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      values[row * columns + column] = value(row, column);
    }
  }
  return { rows, columns, values };
}

/** @param {Matrix} matrix @param {number} row @returns {Float32Array} */
export function rowOf(matrix, row) {
  return matrix.values.subarray(row * matrix.columns, (row + 1) * matrix.columns);
}

/** @param {Matrix} matrix @param {number} column @returns {Float32Array} */
export function columnOf(matrix, column) {
  return Float32Array.from({ length: matrix.rows }, (_, row) => matrix.values[row * matrix.columns + column]);
}

/** @param {ArrayLike<number>} values @returns {number} */
export function sum(values) {
  let total = 0;
  for (let index = 0; index < values.length; index++) total += values[index];
  return total;
}

/**
 * The rows divided by their weight on the other columns; a row without any stays empty.
 * @param {Matrix} matrix
 * @param {boolean[]} dropped
 * @returns {Matrix}
 */
export function withoutColumns(matrix, dropped) {
  const kept = matrixOf(matrix.rows, matrix.columns, (row, column) =>
    dropped[column] ? 0 : matrix.values[row * matrix.columns + column]);
  for (let row = 0; row < kept.rows; row++) {
    const values = rowOf(kept, row);
    const total = sum(values);
    if (total > 0) values.forEach((value, column) => (values[column] = value / total));
  }
  return kept;
}

/**
 * The largest entry of each square of `block` rows and columns.
 * @param {Matrix} matrix
 * @param {number} block
 * @returns {Matrix}
 */
export function blockMaxima(matrix, block) {
  const rows = Math.ceil(matrix.rows / block), columns = Math.ceil(matrix.columns / block);
  const pooled = { rows, columns, values: new Float32Array(rows * columns) };
  for (let row = 0; row < matrix.rows; row++) {
    const below = Math.floor(row / block) * columns;
    for (let column = 0; column < matrix.columns; column++) {
      const at = below + Math.floor(column / block);
      pooled.values[at] = Math.max(pooled.values[at], matrix.values[row * matrix.columns + column]);
    }
  }
  return pooled;
}

/** @param {Matrix} matrix @returns {Float64Array} total weight by offset, key minus query, from 1 - rows on */
export function massByOffset(matrix) {
  const found = new Float64Array(matrix.rows + matrix.columns - 1);
  for (let row = 0; row < matrix.rows; row++) {
    const first = matrix.rows - 1 - row, at = row * matrix.columns;
    for (let column = 0; column < matrix.columns; column++) found[first + column] += matrix.values[at + column];
  }
  return found;
}

/** @param {Matrix} matrix @returns {Float32Array} total weight of every column */
export function massByColumn(matrix) {
  const found = new Float32Array(matrix.columns);
  for (let row = 0; row < matrix.rows; row++) {
    const at = row * matrix.columns;
    for (let column = 0; column < matrix.columns; column++) found[column] += matrix.values[at + column];
  }
  return found;
}

/** @param {ArrayLike<number>} values @param {number} count @returns {number[]} positions of the largest, the first of equal ones first */
export function largest(values, count) {
  /** @type {number[]} */
  const order = [];
  for (let index = 0; index < values.length; index++) {
    let rank = order.length;
    if (rank === count && !(rank && values[index] > values[order[rank - 1]])) continue;
    while (rank > 0 && values[index] > values[order[rank - 1]]) rank--;
    order.splice(rank, 0, index);
    if (order.length > count) order.pop();
  }
  return order;
}

/**
 * The `width` neighbouring offsets that hold the most weight.
 * @param {Matrix} matrix
 * @param {number} width
 * @returns {{first: number, last: number}}
 */
export function bestBand(matrix, width) {
  const masses = massByOffset(matrix);
  let mass = sum(masses.subarray(0, width)), best = mass, at = 0;
  for (let start = 1; start + width <= masses.length; start++) {
    mass += masses[start + width - 1] - masses[start - 1];
    if (mass > best + 1e-9) [best, at] = [mass, start];
  }
  const first = at + 1 - matrix.rows;
  return { first, last: first + Math.min(width, masses.length) - 1 };
}

/** @param {Matrix} matrix @param {number} keys @returns {Support} the largest `keys` entries of every row, none of weight 0 */
export function topSupport(matrix, keys) {
  const kept = new Uint8Array(matrix.values.length);
  for (let row = 0; row < matrix.rows; row++) {
    const values = rowOf(matrix, row);
    for (const column of largest(values, keys)) kept[row * matrix.columns + column] = Number(values[column] > 0);
  }
  return kept;
}

/**
 * @param {Matrix} matrix
 * @param {{first: number, last: number} | null} band offsets
 * @param {number[]} columns
 * @returns {Support}
 */
export function bandSupport(matrix, band, columns) {
  const kept = new Uint8Array(matrix.values.length);
  for (let row = 0; row < matrix.rows; row++) {
    for (const column of columns) kept[row * matrix.columns + column] = 1;
    if (!band) continue;
    const from = Math.max(0, row + band.first), to = Math.min(matrix.columns - 1, row + band.last);
    for (let column = from; column <= to; column++) kept[row * matrix.columns + column] = 1;
  }
  return kept;
}

/** @param {Matrix} matrix @param {number} keys @returns {number[]} the columns of the most weight */
export function bestColumns(matrix, keys) {
  return largest(massByColumn(matrix), keys).sort((a, b) => a - b);
}

/** @param {Matrix} matrix @param {Support} kept @returns {number} share of all weight on what is kept */
export function captured(matrix, kept) {
  const total = sum(matrix.values);
  let inside = 0;
  kept.forEach((one, index) => (inside += one * matrix.values[index]));
  return total > 0 ? inside / total : 0;
}

/**
 * The support of one kind that has at most `keys` entries in every row.
 * @param {Matrix} matrix
 * @param {string} kind largest, band, columns or both
 * @param {number} keys
 * @returns {Support}
 */
export function supportOf(matrix, kind, keys) {
  if (kind === "largest") return topSupport(matrix, keys);
  if (kind === "band") return bandSupport(matrix, bestBand(matrix, keys), []);
  if (kind === "columns") return bandSupport(matrix, null, bestColumns(matrix, keys));
  return bandAndColumns(matrix, keys);
}

/** @param {Matrix} matrix @param {number} keys @returns {Support} the best split of at most 4 columns and a band */
function bandAndColumns(matrix, keys) {
  let best = bandSupport(matrix, bestBand(matrix, keys), []);
  for (let count = 1; count <= Math.min(keys, 4); count++) {
    const columns = bestColumns(matrix, count);
    const rest = matrixOf(matrix.rows, matrix.columns, (row, column) =>
      columns.includes(column) ? 0 : matrix.values[row * matrix.columns + column]);
    const band = count < keys ? bestBand(rest, keys - count) : null;
    const kept = bandSupport(matrix, band, columns);
    if (captured(matrix, kept) > captured(matrix, best)) best = kept;
  }
  return best;
}

/**
 * The entries of which the row may look at the column.
 * @param {Matrix} matrix
 * @param {boolean} causal whether no query attends to a later key
 * @param {boolean[]} dropped columns that were left out
 * @returns {Support}
 */
export function visibleEntries(matrix, causal, dropped) {
  const visible = new Uint8Array(matrix.values.length);
  for (let row = 0; row < matrix.rows; row++) {
    const last = causal ? Math.min(row, matrix.columns - 1) : matrix.columns - 1;
    for (let column = 0; column <= last; column++) visible[row * matrix.columns + column] = Number(!dropped[column]);
  }
  return visible;
}

/**
 * Attention between groups of neighbouring tokens: summed over the keys of a group, averaged over its queries.
 * @param {Matrix} matrix
 * @param {number[]} queries first row of every group
 * @param {number[]} keys first column of every group
 * @returns {Matrix}
 */
export function mergedGroups(matrix, queries, keys) {
  const merged = { rows: queries.length, columns: keys.length, values: new Float32Array(queries.length * keys.length) };
  queries.forEach((start, group) => {
    const end = queries[group + 1] ?? matrix.rows;
    for (let row = start; row < end; row++) {
      let column = 0;
      for (let other = 0; other < keys.length; other++) {
        let total = 0;
        for (const last = keys[other + 1] ?? matrix.columns; column < last; column++) total += matrix.values[row * matrix.columns + column];
        merged.values[group * keys.length + other] += total / (end - start);
      }
    }
  });
  return merged;
}

/** @param {Matrix} matrix @param {Support} kept @param {boolean} inside @returns {Matrix} what is kept, or what is left */
export function maskedBy(matrix, kept, inside) {
  return {
    ...matrix,
    values: matrix.values.map((value, index) => ((kept[index] === 1) === inside ? value : 0)),
  };
}

/**
 * Share of the weight captured with 1, 2, ... keys per row.
 * @param {Matrix} matrix
 * @param {number} most
 * @returns {{largest: number[], band: number[]}}
 */
export function massByBudget(matrix, most) {
  const total = sum(matrix.values) || 1;
  const largestOnes = new Float64Array(most);
  for (let row = 0; row < matrix.rows; row++) {
    const values = rowOf(matrix, row);
    largest(values, most).forEach((column, rank) => (largestOnes[rank] += values[column]));
  }
  let running = 0;
  const byOffset = massByOffset(matrix);
  return {
    largest: [...largestOnes].map((value) => (running += value) / total),
    band: Array.from({ length: most }, (_, index) => bestWindow(byOffset, index + 1) / total),
  };
}

/** @param {Float64Array} values @param {number} width @returns {number} largest sum of neighbours */
function bestWindow(values, width) {
  let running = sum(values.subarray(0, width)), best = running;
  for (let start = 1; start + width <= values.length; start++) {
    running += values[start + width - 1] - values[start - 1];
    best = Math.max(best, running);
  }
  return best;
}
