
"use strict";
// Sorts a table by the column of the pressed button: by the text after the last arrow, numbers numerically, and
// durations by their length.
const seconds = { s: 1, min: 60, h: 3600, days: 86400 };
function key(cell) {
  if (cell.dataset.key) return Number(cell.dataset.key);
  const text = cell.textContent.split("→").pop().trim().replace(/(\d),(?=\d{3})/g, "$1");
  if (/^never\b/.test(text)) return Infinity;
  const found = /^(?:up to )?([+−±-]?)(\d+(?:\.\d+)?)(?![\w.])(?: (s|min|h|days)\b)?/.exec(text);
  if (!found) return text;
  const size = Number(found[2]) * (seconds[found[3]] || 1);
  return found[1] === "−" || found[1] === "-" ? -size : size;
}
function order(one, two) {
  if (typeof one === "number" && typeof two === "number") return one === two ? 0 : one - two;
  if (typeof one !== typeof two) return typeof one === "number" ? 1 : -1;
  return one < two ? -1 : one > two ? 1 : 0;
}
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.parentElement;
    const body = head.closest("table").tBodies[0];
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = Array.from(body.rows, (row) => [key(row.cells[head.cellIndex]), row]);
    rows.sort((one, two) => (down ? order(two[0], one[0]) : order(one[0], two[0])));
    body.append(...rows.map((pair) => pair[1]));
  });
}
// On paper nothing can be unfolded.
addEventListener("beforeprint", () => {
  for (const each of document.querySelectorAll("details.part")) each.open = true;
});
