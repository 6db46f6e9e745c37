const data = JSON.parse(document.getElementById("data").textContent);
const byId = id => document.getElementById(id);

// Numbers of 16 bits, little-endian, in base64.
function floats(text) {
  const bytes = Uint8Array.from(atob(text), c => c.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Array.from({ length: bytes.length / 2 }, (_, i) => {
    const bits = view.getUint16(2 * i, true);
    const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
  });
}

const say = x => x === -Infinity ? "−∞" : x.toFixed(3).replace("-", "−");

// The table of one stage, for the head that is chosen.
function draw(box) {
  const stage = data.stages[box.dataset.stage];
  const head = stage.heads > 1 ? Number(byId("head").value) % stage.heads : 0;
  if (box.dataset.drawn === String(head)) return;
  box.dataset.drawn = head;
  const values = stage.numbers ??= floats(stage.values);
  const [n, m] = [stage.rows, stage.columns], from = head * n * m;
  const labels = data.tokens[stage.labels], keys = data.tokens[stage.across];
  const most = values.slice(from, from + n * m).filter(Number.isFinite).reduce((most, x) => Math.max(most, Math.abs(x)), 0);
  const table = document.createElement("table");
  const caption = table.createCaption();
  caption.textContent = (stage.heads > 1 ? `head ${head} of ${stage.heads}` : "") + (stage.left ? ` (${stage.left} more columns)` : "");
  const header = table.createTHead().insertRow();
  header.append(document.createElement("td"));
  for (let column = 0; column < m; column++) {
    const th = document.createElement("th");
    th.scope = "col";
    th.dir = "auto";
    th.textContent = th.title = keys ? keys[column] : column;
    header.append(th);
  }
  const body = table.createTBody();
  for (let row = 0; row < n; row++) {
    const line = body.insertRow(), th = document.createElement("th");
    th.scope = "row";
    th.dir = "auto";
    th.textContent = th.title = labels[row];
    line.append(th);
    for (let column = 0; column < m; column++) {
      const x = values[from + row * m + column], cell = line.insertCell();
      cell.textContent = say(x);
      cell.style.setProperty("--share", Number.isFinite(x) && most > 0 ? Math.abs(x) / most : 0);
      if (x < 0) cell.style.setProperty("--hue", "var(--second)");
    }
  }
  box.replaceChildren(table);
}

const seen = new Set();
const observer = new IntersectionObserver(entries => {
  for (const { target, isIntersecting } of entries) {
    if (isIntersecting) { seen.add(target); draw(target); } else seen.delete(target);
  }
}, { rootMargin: "300px" });
const boxes = document.querySelectorAll(".map");
boxes.forEach(box => { box.tabIndex = 0; box.setAttribute("role", "region"); box.setAttribute("aria-label", box.dataset.name); observer.observe(box); });

// Of the layers one is shown at a time.
function chooseLayer() {
  const layer = byId("layer").value;
  document.querySelectorAll("[data-layer]").forEach(part => { part.hidden = part.dataset.layer !== layer; });
}
byId("layer").addEventListener("change", chooseLayer);
byId("head").addEventListener("change", () => seen.forEach(draw));
chooseLayer();

// The chapter that is being read is marked in the list.
const links = [...document.querySelectorAll("nav a")];
const reader = new IntersectionObserver(entries => {
  const read = entries.find(entry => entry.isIntersecting);
  if (!read) return;
  for (const link of links) {
    if (link.hash === `#${read.target.id}`) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current");
  }
}, { rootMargin: "-25% 0px -65% 0px" });
document.querySelectorAll("main section").forEach(section => reader.observe(section));
