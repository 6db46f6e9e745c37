// A click, or Enter on a focused heading, sorts by that column; another one turns the order around.
for (const th of document.querySelectorAll("table.sortable thead th")) {
  th.querySelector("button")?.addEventListener("click", () => {
    const up = th.getAttribute("aria-sort") !== "ascending";
    const body = th.closest("table").tBodies[0];
    const value = row => { const text = row.cells[th.cellIndex].dataset.value; return text === "" ? Infinity : Number(text); };
    const rows = [...body.rows].sort((a, b) => { const [x, y] = [value(a), value(b)]; return x === y ? 0 : (x < y) === up ? -1 : 1; });
    for (const other of th.parentElement.cells) other.removeAttribute("aria-sort");
    th.setAttribute("aria-sort", up ? "ascending" : "descending");
    body.append(...rows);
  });
}
