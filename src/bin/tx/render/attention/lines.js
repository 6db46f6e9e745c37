// Lines between tokens, as strong as the weight, of the chosen head or of all heads of its layer in colours.
const sides = document.getElementById("sides"), web = sides.querySelector("canvas"), chips = document.getElementById("chips");
const ROW = 24;
// What is fainter cannot be seen.
const FAINT = 0.01;
// The side and place of the token whose lines are shown alone.
let alone = null, threads = [];

function headColour(head) {
  const light = getComputedStyle(document.documentElement).colorScheme;
  const dark = light === "dark" || light !== "light" && matchMedia("(prefers-color-scheme: dark)").matches;
  return `hsl(${Math.round(head * 360 / data.heads[state.kind] + 210) % 360} 65% ${dark ? 68 : 42}%)`;
}

function buildLines() {
  const several = state.scope === "all";
  chips.hidden = !several;
  const heads = [...Array(data.heads[state.kind]).keys()];
  threads = several
    ? heads.filter(head => !state.left.has(head)).map(head => ({ map: headMap(state.layer, head), colour: headColour(head) }))
    : [{ map, colour: colours.mark }];
  for (const [side, labels] of [["from", map.queries], ["to", map.keys]]) {
    const list = document.getElementById(side);
    list.replaceChildren(...labels.map((label, place) => {
      const button = element("button", label, { type: "button", dir: "auto", title: label, tabindex: place ? -1 : 0 });
      Object.assign(button, { side, place });
      const item = element("li");
      item.append(button);
      return item;
    }));
  }
  alone = null;
  drawLines();
}

function buildChips() {
  chips.replaceChildren(chips.firstElementChild, ...[...Array(data.heads[state.kind]).keys()].map(head => {
    const label = element("label", undefined, { class: "check" }), box = element("input", undefined, { type: "checkbox" });
    box.checked = !state.left.has(head);
    box.addEventListener("change", () => { state.left[box.checked ? "delete" : "add"](head); buildLines(); });
    label.append(box, `head ${head}`);
    label.style.setProperty("--head", headColour(head));
    return label;
  }));
}

function drawLines() {
  const rows = map.queries.length, columns = map.keys.length, sharp = devicePixelRatio || 1;
  // An empty canvas takes the room that the tokens leave.
  web.style.height = `${ROW * Math.max(rows, columns)}px`;
  const width = web.clientWidth, height = web.clientHeight;
  web.width = width * sharp;
  web.height = Math.min(height * sharp, 16000);
  const context = web.getContext("2d");
  context.scale(sharp, web.height / Math.max(1, height));
  context.lineWidth = 1.75;
  const sums = { from: new Float32Array(rows), to: new Float32Array(columns) };
  for (const { map, colour } of threads) {
    context.strokeStyle = colour;
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        const weight = map.weights[row * columns + column];
        if (alone && alone.place !== (alone.side === "from" ? row : column)) continue;
        sums.to[column] += weight / threads.length;
        sums.from[row] += weight / threads.length;
        if (weight < FAINT) continue;
        const [y, z] = [(row + 0.5) * ROW, (column + 0.5) * ROW];
        context.globalAlpha = Math.min(1, weight);
        context.beginPath();
        context.moveTo(0, y);
        context.bezierCurveTo(width / 2, y, width / 2, z, width, z);
        context.stroke();
      }
    }
  }
  for (const button of sides.querySelectorAll("button")) {
    const here = alone && alone.side === button.side && alone.place === button.place;
    button.classList.toggle("here", !!here);
    const seen = alone && alone.side !== button.side ? sums[button.side][button.place] : 0;
    button.style.setProperty("--weight", seen.toFixed(4));
    button.title = seen ? `${button.textContent} ${number(seen)}` : button.textContent;
  }
}

function showAlone(button) {
  alone = button ? { side: button.side, place: button.place } : null;
  drawLines();
}

sides.addEventListener("pointerover", event => { const button = event.target.closest("button"); if (button) showAlone(button); });
sides.addEventListener("pointerleave", () => showAlone(document.activeElement.closest?.("#sides button")));
sides.addEventListener("focusin", event => {
  const button = event.target;
  for (const other of button.closest("ol").querySelectorAll("[tabindex='0']")) other.tabIndex = -1;
  button.tabIndex = 0;
  showAlone(button);
});
sides.addEventListener("focusout", () => showAlone(null));
sides.addEventListener("keydown", event => {
  if (event.key === "Escape") return showAlone(null);
  const { side, place } = event.target, count = { from: map.queries, to: map.keys }[side].length;
  const next = { ArrowDown: [side, place + 1], ArrowUp: [side, place - 1], Home: [side, 0], End: [side, count - 1],
    ArrowRight: ["to", Math.min(place, map.keys.length - 1)], ArrowLeft: ["from", Math.min(place, map.queries.length - 1)] }[event.key];
  const item = next && document.getElementById(next[0]).children[next[1]];
  if (!item) return;
  event.preventDefault();
  item.firstChild.focus();
});
