// Tables of the page: sorted by a click on a heading, filtered by words, downloaded as CSV.

import { csvOf, download, make } from "./elements.js";

const FEW = 5;

/** Gives every table of results its tools. */
export function enhanceTables() {
  document.querySelectorAll("table.results").forEach((table, index) => {
    if (table instanceof HTMLTableElement) enhance(table, index);
  });
}

/** @param {HTMLTableElement} table @param {number} index */
function enhance(table, index) {
  const rows = [...table.tBodies[0].rows];
  const count = make("span", { class: "note", "aria-live": "polite", text: rowsSaid(rows.length, rows.length) });
  const filter = make("input", { type: "search", placeholder: "Filter rows", "aria-label": "Filter rows of the table" });
  filter.addEventListener("input", () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = (row.textContent ?? "").toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += Number(!row.hidden);
    }
    count.textContent = rowsSaid(shown, rows.length);
  });
  const save = make("button", { type: "button", text: "CSV" });
  save.title = "Download the rows shown";
  save.addEventListener("click", () => download(`${table.dataset.name ?? "table"}-${index}.csv`, new Blob([tableCsv(table)], { type: "text/csv" })));
  const tools = make("div", { class: "tools" }, rows.length > FEW ? [filter, count, save] : [save]);
  table.parentElement?.before(tools);
  [...(table.tHead?.rows[0].cells ?? [])].forEach((heading, column) => sortable(table, heading, column, rows));
}

/** @param {number} shown @param {number} all @returns {string} */
function rowsSaid(shown, all) {
  return shown === all ? `${all} rows` : `${shown} of ${all} rows`;
}

/** @param {HTMLTableElement} table @param {HTMLTableCellElement} heading @param {number} column @param {HTMLTableRowElement[]} rows */
function sortable(table, heading, column, rows) {
  const button = make("button", { type: "button", class: "sort", text: heading.textContent ?? "" });
  heading.replaceChildren(button);
  button.addEventListener("click", () => {
    const rising = heading.getAttribute("aria-sort") === "descending" || (heading.ariaSort === "none" && !numeric(rows, column));
    for (const other of heading.parentElement?.children ?? []) other.setAttribute("aria-sort", "none");
    heading.setAttribute("aria-sort", rising ? "ascending" : "descending");
    table.tBodies[0].append(...sortedRows(rows, column, rising));
  });
  heading.setAttribute("aria-sort", "none");
}

/** @param {HTMLTableRowElement[]} rows @param {number} column @returns {boolean} */
function numeric(rows, column) {
  return rows.every((row) => textOf(row, column) === "" || !Number.isNaN(numberOf(textOf(row, column))));
}

/**
 * Numbers by size, text by letters, empty cells last.
 * @param {HTMLTableRowElement[]} rows
 * @param {number} column
 * @param {boolean} rising
 * @returns {HTMLTableRowElement[]}
 */
function sortedRows(rows, column, rising) {
  const byNumber = numeric(rows, column);
  const sign = rising ? 1 : -1;
  return [...rows].sort((a, b) => {
    const [one, other] = [textOf(a, column), textOf(b, column)];
    if (!one || !other) return Number(!one) - Number(!other);
    return sign * (byNumber ? compared(numberOf(one), numberOf(other)) : one.localeCompare(other, "en", { numeric: true }));
  });
}

/** @param {HTMLTableRowElement} row @param {number} column @returns {string} */
function textOf(row, column) {
  return row.cells[column]?.textContent?.trim() ?? "";
}

/** @param {number} one @param {number} other @returns {number} 0 of two infinite ones too */
function compared(one, other) {
  return Number(one > other) - Number(one < other);
}

/** @param {string} text @returns {number} */
function numberOf(text) {
  return Number(text.replaceAll(",", "").replace("−", "-").replace(/\binf$/, "Infinity"));
}

/** @param {HTMLTableElement} table @returns {string} */
function tableCsv(table) {
  const rows = [...(table.tHead?.rows ?? []), ...table.tBodies[0].rows].filter((row) => !row.hidden);
  return csvOf(rows.map((row) => [...row.cells].map((cell) => cell.textContent?.trim() ?? "")));
}
