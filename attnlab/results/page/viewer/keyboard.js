// Keys that move: arrows between heads, / to the search, Escape back.

/** @typedef {import("./weights.js").HeadFacts} HeadFacts */

/**
 * @param {{move: (layers: number, heads: number) => void, search: () => void, back: () => void}} actions
 */
export function watchKeys(actions) {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      const typing = document.activeElement instanceof HTMLInputElement;
      if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
      if (!typing) actions.back();
      return;
    }
    if (takesKeys(event.target)) return;
    const steps = /** @type {Record<string, [number, number]>} */ ({
      ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0],
    });
    if (event.key === "/") actions.search();
    else if (event.key in steps && document.body.classList.contains("one-head")) actions.move(...steps[event.key]);
    else return;
    event.preventDefault();
  });
}

/** @param {EventTarget | null} target @returns {boolean} whether a key means something to the element itself */
function takesKeys(target) {
  return target instanceof Element && target.closest("input, select, textarea, [role=region], summary") !== null;
}

/**
 * The head so many layers and heads further on, in the order of the data; null at the ends.
 * @param {HeadFacts[]} heads
 * @param {HeadFacts} head
 * @param {number} layers
 * @param {number} steps
 * @returns {HeadFacts | null}
 */
export function neighbour(heads, head, layers, steps) {
  if (!layers) return heads[heads.indexOf(head) + steps] ?? null;
  const names = [...new Set(heads.map((one) => `${one.site}.${one.layer}`))];
  const name = names[names.indexOf(`${head.site}.${head.layer}`) + layers];
  const there = heads.filter((one) => `${one.site}.${one.layer}` === name);
  return there[Math.min(head.head, there.length - 1)] ?? null;
}
