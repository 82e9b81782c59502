// Colours of weights: lightness changes in one direction, so that no hue needs to be told from another.

const LIGHT = ["#ffffff", "#dbe9f6", "#a6cce4", "#5ba3cf", "#2171b5", "#08306b"];
const DARK = ["#14171b", "#1d3a5f", "#1f6f8b", "#35a08a", "#8fd06b", "#fdf06a"];

/** @param {boolean} dark @returns {Uint32Array} 256 pixels, from nothing to a whole weight, by its square root */
export function colourTable(dark) {
  const stops = (dark ? DARK : LIGHT).map(channels);
  return Uint32Array.from({ length: 256 }, (_, level) => {
    const at = (level / 255) * (stops.length - 1);
    const low = Math.min(Math.floor(at), stops.length - 2);
    const [red, green, blue] = stops[low].map((value, index) =>
      Math.round(value + (stops[low + 1][index] - value) * (at - low)));
    return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
  });
}

/** @param {number} pixel @returns {string} */
export function cssColour(pixel) {
  return `rgb(${pixel & 255}, ${(pixel >> 8) & 255}, ${(pixel >> 16) & 255})`;
}

/** @param {number} pixel @returns {string} black or white, whichever is read better on it */
export function inkOn(pixel) {
  const [red, green, blue] = [pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255].map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000000" : "#ffffff";
}

/** @param {number} weight @returns {number} index into the table */
export function levelOf(weight) {
  return Math.min(255, Math.round(Math.sqrt(Math.max(0, weight)) * 255));
}

/** @returns {boolean} */
export function darkPage() {
  if (matchMedia("print").matches) return false;
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** @param {string} hex @returns {number[]} */
function channels(hex) {
  return [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16));
}
