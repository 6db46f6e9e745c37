// One head large: a canvas as large as its window, drawn anew when it scrolls, with the labels always in sight.
const pane = document.getElementById("map"), spacer = pane.firstChild, canvas = spacer.firstChild;
const value = document.getElementById("value"), probe = document.body.appendChild(document.createElement("span"));
const whole = document.getElementById("whole");
const FONT = "system-ui, sans-serif";
let map, size, colours, ramp, inks, drawn = false;

function colour(text) {
  probe.style.color = text;
  return getComputedStyle(probe).color;
}

// By the square root of the weight, so that small ones can be told apart.
function step(weight) {
  return Math.min(255, Math.round(255 * Math.sqrt(weight)));
}

function shade(weight) {
  return ramp[step(weight)];
}

function readColours() {
  colours = Object.fromEntries(["ink", "soft", "ground", "band", "edge", "mark"].map(name => [name, colour(`var(--${name})`)]));
  const part = text => text.match(/[\d.]+/g).slice(0, 3).map(Number);
  const [from, to] = [part(colours.band), part(colours.mark)];
  ramp = Array.from({ length: 256 }, (_, step) => [...from.map((low, i) => Math.round(low + (to[i] - low) * step / 255)), 255]);
  // The text in a cell is what stands out more.
  const light = rgb => 0.05 + rgb.slice(0, 3).reduce((sum, c, i) => sum + [0.2126, 0.7152, 0.0722][i] * (c / 255) ** 2.2, 0);
  const [ground, ink] = [light(part(colours.ground)), light(part(colours.ink))];
  const contrast = (a, b) => Math.max(a, b) / Math.min(a, b);
  inks = ramp.map(rgb => contrast(light(rgb), ground) > contrast(light(rgb), ink) ? colours.ground : colours.ink);
  const legend = document.querySelector("#scale canvas").getContext("2d"), image = legend.createImageData(256, 1);
  for (let x = 0; x < 256; x++) image.data.set(shade(x / 255), 4 * x);
  legend.putImageData(image, 0, 0);
}

function shortened(context, text, room) {
  if (context.measureText(text).width <= room) return text;
  const letters = [...text];
  while (letters.length > 1 && context.measureText(letters.join("") + "…").width > room) letters.pop();
  return letters.join("") + "…";
}

function layOut() {
  const context = canvas.getContext("2d"), room = pane.clientWidth;
  const rows = map.queries.length, columns = map.keys.length;
  context.font = `13px ${FONT}`;
  const widest = (labels, most) => Math.min(most, Math.max(0, ...labels.map(label => context.measureText(label).width)));
  const left = Math.ceil(widest(map.queries, Math.min(150, room * 0.3))) + 12;
  const longest = Math.ceil(widest(map.keys, 120));
  const across = columns ? Math.floor((room - left - 2) / columns) : 0, high = 0.76 * innerHeight - longest;
  const fits = across >= 16 && rows * 18 <= high;
  document.getElementById("whole-label").hidden = fits;
  const least = whole.checked && !fits ? 1 : 16;
  const width = Math.max(least, Math.min(64, across));
  const height = least === 1 ? Math.max(1, Math.min(28, Math.floor(high / rows))) : Math.max(18, Math.min(30, width));
  // Labels of columns lie if they fit, else they stand.
  const lying = longest + 8 <= width;
  size = { left, top: lying ? 24 : longest + 12, width, height, lying, longest };
  spacer.style.width = `${left + columns * width + 2}px`;
  spacer.style.height = `${size.top + rows * height + 2}px`;
}

function drawMap() {
  if (drawn) return;
  drawn = true;
  requestAnimationFrame(() => { drawn = false; drawMapNow(); });
}

function drawMapNow() {
  const sharp = devicePixelRatio || 1, rows = map.queries.length, columns = map.keys.length;
  const { left, top, width, height } = size;
  const shownWidth = Math.min(pane.clientWidth, left + columns * width + 2);
  const shownHeight = Math.min(Math.max(pane.clientHeight, 60), top + rows * height + 2);
  canvas.width = shownWidth * sharp;
  canvas.height = shownHeight * sharp;
  canvas.style.width = `${shownWidth}px`;
  canvas.style.height = `${shownHeight}px`;
  const context = canvas.getContext("2d"), x0 = left - pane.scrollLeft, y0 = top - pane.scrollTop;
  context.scale(sharp, sharp);
  const first = (scrolled, step) => Math.max(0, Math.floor(scrolled / step));
  const last = (scrolled, room, step, count) => Math.min(count, Math.ceil((scrolled + room) / step));
  const rowRange = [first(pane.scrollTop, height), last(pane.scrollTop, shownHeight - top, height, rows)];
  const columnRange = [first(pane.scrollLeft, width), last(pane.scrollLeft, shownWidth - left, width, columns)];
  const gap = Math.min(width, height) > 6 ? 1 : 0;
  const clipped = (x, y, w, h, draw) => {
    context.save();
    context.beginPath();
    context.rect(x, y, w, h);
    context.clip();
    draw();
    context.restore();
  };
  clipped(left - 2, top - 2, shownWidth, shownHeight, () => {
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.font = `12px ${FONT}`;
    for (let row = rowRange[0]; row < rowRange[1]; row++) {
      for (let column = columnRange[0]; column < columnRange[1]; column++) {
        const weight = map.weights[row * columns + column], x = x0 + column * width, y = y0 + row * height;
        context.fillStyle = `rgb(${shade(weight).slice(0, 3)})`;
        context.fillRect(x, y, width - gap, height - gap);
        if (width >= 30 && height >= 18 && weight >= 0.005) {
          context.fillStyle = inks[step(weight)];
          context.fillText(Math.round(100 * weight), x + (width - gap) / 2, y + (height - gap) / 2 + 1);
        }
      }
    }
    context.strokeStyle = colours.ink;
    context.lineWidth = 2;
    if (rows && columns) context.strokeRect(x0 + state.key * width - 0.5, y0 + state.query * height - 0.5, width + 1 - gap, height + 1 - gap);
  });
  const label = (text, chosen, room) => {
    context.font = `${chosen ? 600 : 400} 13px ${FONT}`;
    context.fillStyle = chosen ? colours.mark : colours.ink;
    return shortened(context, text, room);
  };
  if (height >= 12) {
    clipped(0, top - 2, left, shownHeight, () => {
      context.textAlign = "right";
      context.textBaseline = "middle";
      for (let row = rowRange[0]; row < rowRange[1]; row++) {
        context.fillText(label(map.queries[row], row === state.query, left - 12), left - 8, y0 + (row + 0.5) * height);
      }
    });
  }
  if (width < 14) return;
  clipped(left - 2, 0, shownWidth, top, () => {
    for (let column = columnRange[0]; column < columnRange[1]; column++) {
      const text = label(map.keys[column], column === state.key, size.longest);
      context.save();
      context.translate(x0 + (column + 0.5) * width, top - 8);
      context.textAlign = size.lying ? "center" : "left";
      context.textBaseline = size.lying ? "alphabetic" : "middle";
      if (!size.lying) context.rotate(-Math.PI / 2);
      context.fillText(text, 0, 0);
      context.restore();
    }
  });
}

// The cell under the cursor, in words.
function tell() {
  const { queries, keys, weights } = map;
  if (!queries.length || !keys.length) return value.replaceChildren("Nothing is left to look at.");
  const weight = weights[state.query * keys.length + state.key];
  value.replaceChildren(element("bdi", queries[state.query]), " looks at ", element("bdi", keys[state.key]), ": ", element("b", number(weight)));
}

function point(query, key) {
  state.query = Math.max(0, Math.min(map.queries.length - 1, query));
  state.key = Math.max(0, Math.min(map.keys.length - 1, key));
  tell();
  drawMap();
}

function cellAt(event) {
  const box = canvas.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  if (x < size.left || y < size.top) return null;
  const key = Math.floor((x - size.left + pane.scrollLeft) / size.width);
  const query = Math.floor((y - size.top + pane.scrollTop) / size.height);
  return query < map.queries.length && key < map.keys.length ? [query, key] : null;
}

function scrollToCursor() {
  const { left, top, width, height } = size;
  const [x, y] = [state.key * width, state.query * height];
  pane.scrollLeft = Math.max(x + width - (pane.clientWidth - left), Math.min(pane.scrollLeft, x));
  pane.scrollTop = Math.max(y + height - (pane.clientHeight - top), Math.min(pane.scrollTop, y));
}

pane.addEventListener("scroll", drawMap);
pane.addEventListener("pointermove", event => { const cell = cellAt(event); if (cell) point(...cell); });
pane.addEventListener("pointerdown", event => { const cell = cellAt(event); if (cell) point(...cell); });
pane.addEventListener("keydown", event => {
  const page = Math.max(1, Math.floor((pane.clientHeight - size.top) / size.height) - 1);
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], PageUp: [-page, 0], PageDown: [page, 0],
    Home: [0, -Infinity], End: [0, Infinity] }[event.key];
  if (!step) return;
  event.preventDefault();
  point(state.query + step[0], state.key + step[1]);
  scrollToCursor();
});
