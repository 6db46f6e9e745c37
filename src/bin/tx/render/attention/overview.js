// The grid of small maps, layer by head, drawn when they come into sight.
const grid = document.getElementById("heads");
// Most pixels of a small map: more rows and columns share them, the largest weight wins.
const THUMB = 48;
let stale = new Set(), drawing = false;

const sight = new IntersectionObserver(entries => {
  for (const { target, isIntersecting } of entries) {
    target.inSight = isIntersecting;
  }
  drawThumbs();
}, { rootMargin: "50px" });

function drawThumb(button) {
  const map = headMap(button.layer, button.head), canvas = button.firstChild;
  const rows = map.queries.length, columns = map.keys.length;
  canvas.width = Math.max(1, Math.min(columns, THUMB));
  canvas.height = Math.max(1, Math.min(rows, THUMB));
  const most = new Float32Array(canvas.width * canvas.height);
  for (let row = 0; row < rows; row++) {
    const start = Math.floor(row * canvas.height / rows) * canvas.width;
    for (let column = 0; column < columns; column++) {
      const at = start + Math.floor(column * canvas.width / columns);
      most[at] = Math.max(most[at], map.weights[row * columns + column]);
    }
  }
  const context = canvas.getContext("2d"), image = context.createImageData(canvas.width, canvas.height);
  most.forEach((weight, at) => image.data.set(shade(weight), 4 * at));
  context.putImageData(image, 0, 0);
}

// A few at a time, so that the page answers meanwhile.
function drawThumbs() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    const start = performance.now();
    for (const button of stale) {
      if (!button.inSight) continue;
      if (performance.now() - start > 8) return drawThumbs();
      stale.delete(button);
      drawThumb(button);
    }
  });
}

function redrawThumbs() {
  stale = new Set(grid.querySelectorAll("button"));
  drawThumbs();
}

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function buildOverview() {
  sight.disconnect();
  const heads = [...Array(data.heads[state.kind]).keys(), "mean"], table = element("table");
  const top = table.createTHead().insertRow();
  top.append(element("th", undefined, { "aria-label": "layer and head" }), ...heads.map(head => element("th", head, { scope: "col" })));
  const body = table.createTBody();
  layers().forEach((_, layer) => {
    const row = body.insertRow();
    row.append(element("th", `layer ${layer}`, { scope: "row" }));
    for (const head of heads) {
      const button = element("button", undefined, { type: "button", "aria-label": headName(layer, head) });
      button.append(element("canvas"));
      Object.assign(button, { layer, head });
      button.addEventListener("click", () => choose(layer, head));
      button.addEventListener("keydown", moveInGrid);
      row.insertCell().append(button);
      sight.observe(button);
    }
  });
  grid.replaceChildren(table);
  sizeThumbs();
}

// As large as fits, within reason.
function sizeThumbs() {
  const columns = data.heads[state.kind] + 1, free = grid.clientWidth - 84;
  grid.style.setProperty("--thumb", `${Math.max(14, Math.min(72, Math.floor(free / columns) - 4))}px`);
}

function markChosen() {
  for (const button of grid.querySelectorAll("button")) {
    const chosen = button.layer === state.layer && button.head === state.head;
    button.setAttribute("aria-pressed", chosen);
    button.tabIndex = chosen ? 0 : -1;
  }
}

// Arrow keys move the focus; Enter, as a click, chooses.
function moveInGrid(event) {
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  if (!step) return;
  event.preventDefault();
  const cell = event.currentTarget.parentElement, row = cell.parentElement;
  const next = row.parentElement.rows[row.sectionRowIndex + step[0]]?.cells[cell.cellIndex + step[1]]?.querySelector("button");
  if (!next) return;
  event.currentTarget.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}
