// The data of the page, and the weights: 8-bit square roots, deflated, in base64.

/**
 * @typedef {import("./matrix.js").Matrix} Matrix
 *
 * @typedef {object} Words
 * @property {number[]} starts the first token of every word
 * @property {string[]} names
 *
 * @typedef {object} Side the tokens of a sentence at a site
 * @property {string[]} queries
 * @property {string[]} keys
 * @property {string} queryKinds a letter per token: w word, p punctuation, o opening, c closing, s special
 * @property {string} keyKinds
 * @property {Words | null} queryWords words that are more than one token, null where there are none on either side
 * @property {Words | null} keyWords
 * @property {number} [second] position of the first token of the second sentence of a pair that is read as one text
 * @property {number} block how many tokens an entry stands for along each side
 * @property {Record<string, import("./budget.js").Fitted[][]>} fits by layer, of every head
 *
 * @typedef {object} Sentence
 * @property {number} number
 * @property {string} text
 * @property {Record<string, Side>} sites
 *
 * @typedef {object} Control a label's figure beside those of its controls, as text
 * @property {string[]} cells
 * @property {string} status
 *
 * @typedef {object} HeadFacts
 * @property {string} name
 * @property {string} site
 * @property {number} layer
 * @property {number} head
 * @property {string} short its closest role
 * @property {string} phrase its closest role with the figure
 * @property {[string, string, string][]} lines heading, value and meaning
 * @property {{columns: [string, string][], rows: Control[]}} controls headings with their meanings, and labels
 * @property {[string, number, string, boolean][]} bits family, bits per row, its member, fewest
 * @property {[number, number][]} offsets
 * @property {[string, string][]} nearest
 * @property {[number, string][]} best sentence and figure
 * @property {string} bestBy
 *
 * @typedef {object} PageData
 * @property {string} title
 * @property {Record<string, string>} sites
 * @property {HeadFacts[]} heads
 * @property {Sentence[]} sentences
 *
 * @typedef {object} Layer
 * @property {Uint8Array} levels
 * @property {number} heads
 * @property {number} rows
 * @property {number} columns
 * @property {number} scale
 */

/** @param {string} name @returns {PageData} */
export function readData(name) {
  return JSON.parse(document.getElementById(name)?.textContent ?? "{}");
}

/** @param {string} text @returns {Promise<Uint8Array>} */
export async function inflate(text) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let index = 0; index < letters.length; index++) bytes[index] = letters.charCodeAt(index);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

export class Weights {
  /** @param {PageData} data */
  constructor(data) {
    this.data = data;
    /** @type {Map<string, Promise<Layer | null>>} */
    this.layers = new Map();
  }

  /**
   * All heads of a layer, or pictures of at most 64 pixels a side where there are some.
   * @param {Sentence} sentence
   * @param {string} site
   * @param {number} layer
   * @param {boolean} small
   * @returns {Promise<Layer | null>}
   */
  layer(sentence, site, layer, small = false) {
    const address = `${sentence.number}.${site}.${layer}`;
    const found = small ? document.getElementById(`small.${address}`) : null;
    const element = found ?? document.getElementById(`weights.${address}`);
    if (!element) return Promise.resolve(null);
    let promise = this.layers.get(element.id);
    if (!promise) {
      promise = decode(element);
      this.layers.set(element.id, promise);
      this.forget();
    }
    return promise;
  }

  /** The oldest layers go: 512 tokens and 12 heads take 3 MB each. */
  forget() {
    for (const name of this.layers.keys()) {
      if (this.layers.size <= 64) return;
      this.layers.delete(name);
    }
  }
}

/** @param {HTMLElement} element @returns {Promise<Layer>} */
async function decode(element) {
  const [heads, rows, columns] = (element.dataset.shape ?? "").split(" ").map(Number);
  const levels = await inflate(element.textContent ?? "");
  return { levels, heads, rows, columns, scale: Number(element.dataset.scale) };
}

/** @param {Layer} layer @param {number} head @returns {Matrix} */
export function matrixOfHead(layer, head) {
  const size = layer.rows * layer.columns;
  const squares = Float32Array.from({ length: 256 }, (_, level) => (level / 255) ** 2 * layer.scale);
  const levels = layer.levels.subarray(head * size, (head + 1) * size);
  const values = new Float32Array(size);
  for (let index = 0; index < size; index++) values[index] = squares[levels[index]];
  return { rows: layer.rows, columns: layer.columns, values };
}

/** @param {string[]} tokens @param {number} block @returns {string[]} a name per entry of an axis */
export function axisNames(tokens, block) {
  if (block === 1) return tokens;
  const starts = Array.from({ length: Math.ceil(tokens.length / block) }, (_, index) => index * block);
  return starts.map((start) => `${tokens[start]} … ${tokens[Math.min(start + block, tokens.length) - 1]}`);
}
