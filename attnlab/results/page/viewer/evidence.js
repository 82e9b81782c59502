// What is known of one head beside its matrix.

import { make, makeSvg } from "./elements.js";

/**
 * @typedef {import("./weights.js").PageData} PageData
 * @typedef {import("./weights.js").HeadFacts} HeadFacts
 */

/**
 * @param {HeadFacts} head
 * @param {PageData} data
 * @param {(name: string) => string} addressOfHead
 * @param {(sentence: number) => string} addressOfSentence
 * @returns {HTMLElement[]}
 */
export function evidenceOf(head, data, addressOfHead, addressOfSentence) {
  const texts = new Map(data.sentences.map((one) => [one.number, one.text]));
  return [
    make("h2", { text: "Evidence" }),
    make("dl", { class: "facts" }, head.lines.flatMap(([heading, value, meaning]) => [
      make("dt", { text: heading, title: meaning }),
      make("dd", { text: value }),
    ])),
    ...part(head.controls.rows.length > 0, "Its labels beside their controls", () => controls(head)),
    ...part(head.bits.length > 0, "Bits per row of each family", () => bitsOf(head)),
    ...part(head.offsets.length > 0, "Mean weight by offset", () => offsetBars(head.offsets)),
    ...part(head.nearest.length > 0, "Nearest other heads, by weight at offsets", () =>
      make("ol", { class: "plain" }, head.nearest.map(([name, figure]) =>
        make("li", {}, [make("a", { href: addressOfHead(name), text: name }), ` ${figure}`])))),
    ...part(head.best.length > 0, `Sentences that show it best, ${head.bestBy}`, () =>
      make("ol", { class: "plain" }, head.best.map(([number, figure]) =>
        make("li", {}, [make("a", { href: addressOfSentence(number), text: `${number}: ${texts.get(number) ?? ""}` }), ` ${figure}`])))),
  ];
}

/** @param {boolean} there @param {string} heading @param {() => HTMLElement} content @returns {HTMLElement[]} */
function part(there, heading, content) {
  return there ? [make("h3", { text: heading }), content()] : [];
}

/** @param {HeadFacts} head @returns {HTMLElement} */
function controls(head) {
  const heading = make("tr", {}, head.controls.columns.map(([name, meaning]) => make("th", { scope: "col", text: name, title: meaning })));
  const rows = head.controls.rows.map(({ cells, status }) =>
    make("tr", { class: `status-${status}` }, cells.map((cell, index) =>
      make(index ? "td" : "th", index ? { text: cell } : { scope: "row", text: cell }))));
  return make("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Labels and controls" }, [
    make("table", { class: "small" }, [make("thead", {}, [heading]), make("tbody", {}, rows)]),
  ]);
}

/** @param {HeadFacts} head @returns {HTMLElement} */
function bitsOf(head) {
  const most = Math.max(...head.bits.map(([, bits]) => bits));
  const rows = head.bits.map(([family, bits, member, fewest]) =>
    make("tr", { class: fewest ? "fewest" : "" }, [
      make("th", { scope: "row", text: family }),
      make("td", {}, [make("span", { class: "bar", style: `width: ${(60 * bits) / most}px` }), ` ${bits.toFixed(2)}`]),
      make("td", { class: "text", text: fewest ? `${member} (fewest)` : member }),
    ]));
  return make("table", { class: "small bits" }, [make("tbody", {}, rows)]);
}

/** @param {[number, number][]} offsets @returns {HTMLElement} */
function offsetBars(offsets) {
  const [width, height, foot] = [286, 90, 16];
  const most = Math.max(...offsets.map(([, mass]) => mass), 0.01);
  const step = width / offsets.length;
  const bars = offsets.flatMap(([offset, mass], index) => {
    const tall = ((height - foot - 14) * mass) / most;
    const middle = (index + 0.5) * step;
    return [
      makeSvg("rect", { x: index * step + 2, y: height - foot - tall, width: step - 4, height: tall }),
      makeSvg("text", { x: middle, y: height - 4, text: offset > 0 ? `+${offset}` : `${offset}`.replace("-", "−") }),
      makeSvg("text", { x: middle, y: height - foot - tall - 3, class: "figure", text: mass.toFixed(2).replace(/^0/, "") }),
    ];
  });
  const said = offsets.map(([offset, mass]) => `${offset}: ${mass.toFixed(2)}`).join(", ");
  return make("div", { class: "offsets" }, [
    makeSvg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `Mean weight by offset: ${said}` }, bars),
  ]);
}
