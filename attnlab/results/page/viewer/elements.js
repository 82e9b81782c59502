// Making elements: text from data is always set as text.

const SVG = "http://www.w3.org/2000/svg";

/**
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name
 * @param {Record<string, string | number | boolean>} [attributes] `text` becomes the content; false leaves one out
 * @param {(Node | string)[]} [children]
 * @returns {HTMLElementTagNameMap[Name]}
 */
export function make(name, attributes = {}, children = []) {
  const element = document.createElement(name);
  fill(element, attributes, children);
  return element;
}

/**
 * @param {string} name
 * @param {Record<string, string | number | boolean>} [attributes]
 * @param {(Node | string)[]} [children]
 * @returns {SVGElement}
 */
export function makeSvg(name, attributes = {}, children = []) {
  const element = /** @type {SVGElement} */ (document.createElementNS(SVG, name));
  fill(element, attributes, children);
  return element;
}

/**
 * @param {Element} element
 * @param {Record<string, string | number | boolean>} attributes
 * @param {(Node | string)[]} children
 */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") element.textContent = String(value);
    else if (value !== false) element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children);
}

/** @param {string} id @returns {HTMLElement} */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`no element ${id}`);
  return found;
}

/** @param {number} share @returns {string} */
export function percent(share) {
  return `${(100 * share).toFixed(1)} %`;
}

/** @param {string} text @param {number} most @returns {string} */
export function shortened(text, most = 12) {
  const letters = [...text];
  if (letters.length <= most) return text;
  const tail = Math.floor(most / 2) - 1;
  return `${letters.slice(0, most - tail - 1).join("")}…${letters.slice(-tail).join("")}`;
}

/**
 * @param {string} name
 * @param {Blob} blob
 */
export function download(name, blob) {
  const address = URL.createObjectURL(blob);
  const link = make("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

/** @param {string[][]} rows @returns {string} */
export function csvOf(rows) {
  const cell = (/** @type {string} */ text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  return rows.map((row) => row.map(cell).join(",") + "\n").join("");
}
