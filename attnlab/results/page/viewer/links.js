// Links of one head in figures of sentence pairs: those of the head that the address names.

import { make } from "./elements.js";

const LINKS = /-links-(chosen|[\d.]+)-[a-z_]+$/;
const CHOSEN = "chosen";

/** Figures hold the links of all heads, unseen but for those of the chosen ones; a line above says whose are seen. */
export function linksOfHeads() {
  const groups = [...document.querySelectorAll('figure svg g[id*="-links-"]')]
    .map((group) => ({ group, head: LINKS.exec(group.id)?.[1] ?? CHOSEN, figure: group.closest("figure") }));
  const alone = groups.filter((one) => one.head !== CHOSEN);
  const heads = new Set(alone.map((one) => one.head));
  // Where there was no room a figure has the chosen heads alone.
  const whole = new Set(alone.map((one) => one.figure));
  if (!heads.size) return;
  const said = make("p", { id: "links-said", class: "note", "aria-live": "polite" });
  groups[0].figure?.before(said);
  const read = () => {
    const asked = new URLSearchParams(location.hash.slice(1)).get("head") ?? "";
    const head = heads.has(asked) ? asked : CHOSEN;
    for (const one of groups) {
      one.group.classList.toggle("lit", one.head === head);
      one.group.classList.toggle("unlit", one.head !== head);
      one.figure?.toggleAttribute("hidden", head !== CHOSEN && !whole.has(one.figure));
    }
    if (head === CHOSEN) {
      said.replaceChildren("Links of the chosen heads. Click a head in the map for its own.");
      return;
    }
    const back = make("a", { href: "#pair_1", text: "Show those of the chosen heads." });
    said.replaceChildren(`Links of head ${head} alone. `, back);
    said.closest("details")?.setAttribute("open", "");
    said.scrollIntoView({ block: "start" });
  };
  addEventListener("hashchange", read);
  read();
}
