// What is shown, as it stands in the address after the #.

/**
 * @typedef {object} State
 * @property {string} head name, or empty for the whole page
 * @property {number} sentence
 * @property {number | null} row the locked query
 * @property {number | null} column the locked key
 * @property {boolean} sink whether special tokens keep their weight
 * @property {string} outline none, a kind of outline, or the name of a fit
 * @property {number} keys per row
 * @property {number} lines weight from which a line is drawn
 * @property {boolean} words whether tokens are merged to words
 * @property {string | null} theme light, dark or system; null where the address does not say
 * @property {number[]} also heads of the layer whose lines are laid over those of the head
 * @property {string} sides of a pair, the sentence of the queries and that of the keys whose lines are drawn, a or b; or all
 * @property {boolean} full whether block maxima are left for all values
 */

export const THEMES = ["system", "light", "dark"];

/** @returns {State} */
export function plainState() {
  return { head: "", sentence: 0, row: null, column: null, sink: true, outline: "none", keys: 2, lines: 0.15, full: false, words: false, also: [], sides: "all", theme: null };
}

/** @param {string} hash @returns {State | null} null where it is an anchor of the page */
export function parseAddress(hash) {
  const text = hash.replace(/^#/, "");
  const fields = new URLSearchParams(text);
  if (text && !["head", "sentence", "theme"].some((name) => fields.has(name))) return null;
  const state = plainState();
  state.head = fields.get("head") ?? "";
  state.sentence = whole(fields.get("sentence")) ?? state.sentence;
  state.row = whole(fields.get("row"));
  state.column = whole(fields.get("column"));
  state.sink = fields.get("sink") !== "off";
  state.full = fields.get("full") === "on";
  state.words = fields.get("level") === "words";
  state.also = (fields.get("with") ?? "").split(",").map(whole).filter((head) => head !== null);
  state.sides = fields.get("sides") ?? state.sides;
  const theme = fields.get("theme") ?? "";
  if (THEMES.includes(theme)) state.theme = theme;
  state.outline = fields.get("outline") ?? state.outline;
  state.keys = Math.max(1, whole(fields.get("keys")) ?? state.keys);
  const lines = Number(fields.get("lines") ?? NaN);
  if (lines >= 0 && lines <= 1) state.lines = lines;
  return state;
}

/** @param {State} state @returns {string} only what differs from the plain state, head and sentence first */
export function addressOf(state) {
  const plain = plainState();
  const fields = [];
  if (state.head) fields.push(`head=${state.head}`);
  if (state.head || state.sentence) fields.push(`sentence=${state.sentence}`);
  if (state.row !== null) fields.push(`row=${state.row}`);
  if (state.column !== null) fields.push(`column=${state.column}`);
  if (!state.sink) fields.push("sink=off");
  if (state.outline !== plain.outline) fields.push(`outline=${state.outline}`);
  if (state.keys !== plain.keys) fields.push(`keys=${state.keys}`);
  if (state.lines !== plain.lines) fields.push(`lines=${state.lines}`);
  if (state.also.length) fields.push(`with=${state.also.join(",")}`);
  if (state.sides !== plain.sides) fields.push(`sides=${state.sides}`);
  if (state.full) fields.push("full=on");
  if (state.words) fields.push("level=words");
  if (state.theme && state.theme !== THEMES[0]) fields.push(`theme=${state.theme}`);
  return fields.length ? `#${fields.join("&")}` : "";
}

/** @param {string | null} text @returns {number | null} */
function whole(text) {
  return text !== null && /^\d+$/.test(text) ? Number(text) : null;
}
