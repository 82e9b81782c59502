// Lines of several heads of a layer laid over each other, and of pairs those from one sentence to the other.

import { byId, make } from "./elements.js";

/**
 * @typedef {import("./matrix.js").Matrix} Matrix
 * @typedef {import("./head_matrix.js").Shown} Shown
 * @typedef {import("./weights.js").Side} Side
 * @typedef {import("./address.js").State} State
 */

// Neighbours on the wheel of hues are far apart in the numbers of heads.
const TURN = 137.5;
const SIDES = /** @type {Record<string, string>} */ ({
  all: "both sentences", aa: "first to first", ab: "first to second", ba: "second to first", bb: "second to second",
});

/** @param {number} head @returns {string} */
export function colourOfHead(head) {
  return `hsl(${Math.round((head * TURN + 210) % 360)} 70% 58%)`;
}

/** Buttons for the heads of a layer, and a list for the sentences of a pair. */
export class Overlay {
  /** @param {(change: Partial<State>) => void} change */
  constructor(change) {
    this.change = change;
    this.list = /** @type {HTMLSelectElement} */ (byId("sides"));
    this.list.replaceChildren(...Object.entries(SIDES).map(([value, text]) => make("option", { value, text })));
    this.list.addEventListener("change", () => change({ sides: this.list.value }));
  }

  /** @param {number} own the head in view @param {number} heads of its layer @param {Side} side @param {State} state */
  show(own, heads, side, state) {
    const numbers = Array.from({ length: heads }, (_, head) => head);
    const also = othersOf(own, heads, state);
    const button = (/** @type {string} */ text, /** @type {number[]} */ chosen, /** @type {Record<string, string | boolean>} */ more) => {
      const made = make("button", { type: "button", text, ...more });
      made.addEventListener("click", () => this.change({ also: chosen }));
      return made;
    };
    byId("overlay").hidden = heads < 2;
    byId("overlay").replaceChildren(
      ...numbers.map((head) => {
        const on = head === own || also.includes(head);
        const chosen = on ? also.filter((one) => one !== head) : [...also, head];
        return button(String(head), chosen, {
          class: "overlaid", "aria-pressed": String(on), disabled: head === own,
          style: on && also.length ? `background: ${colourOfHead(head)}; color: #000` : "",
        });
      }),
      button("all", numbers, {}),
      button("one", [], {}),
    );
    byId("sides-row").hidden = side.second === undefined || side.block > 1;
    this.list.value = state.sides in SIDES ? state.sides : "all";
  }
}

/** @param {number} own @param {number} heads @param {State} state @returns {number[]} the other heads that are laid over */
export function othersOf(own, heads, state) {
  return state.also.filter((head) => head !== own && head < heads);
}

/**
 * The entries of a matrix that lead from the chosen sentence of a pair to the chosen one, 0 elsewhere.
 * @param {Shown} shown
 * @param {Side} side
 * @param {string} sides
 * @returns {Matrix}
 */
export function betweenSides(shown, side, sides) {
  const { matrix } = shown;
  if (side.second === undefined || !(sides in SIDES) || sides === "all" || shown.block > 1) return matrix;
  const [ofRow, ofColumn] = [side.queryWords, side.keyWords].map((words) => letters(side.second ?? 0, shown.words ? words : null));
  const values = matrix.values.map((weight, index) => {
    const [row, column] = [Math.floor(index / matrix.columns), index % matrix.columns];
    return ofRow(row) === sides[0] && ofColumn(column) === sides[1] ? weight : 0;
  });
  return { ...matrix, values };
}

/** @param {number} second @param {import("./weights.js").Words | null} words @returns {(index: number) => string} */
function letters(second, words) {
  return (index) => ((words ? words.starts[index] : index) < second ? "a" : "b");
}
