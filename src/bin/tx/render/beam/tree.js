// The tree: where columns, cards and lines are, and which of them are marked.
let current = root;
let pinned = byId.get(hypotheses[0]?.id) ?? root;
let hovered = null;
// Cards that look otherwise than the rest.
let marked = [];
const places = new Map();
const cards = new Map();

const visible = step => columns[step].filter(one => one.fate !== "pruned" || $("fallen").checked || isAsked.has(one) || one === current);

const CARD = { width: 148, height: 44 }, GAP = 60, ROW = 54, TOP = 48, FOLD = 88;

// More cards than this are painted only near what is seen.
const MANY = 1500, MARGIN = 1500;
let spread = [], painted = [];

// Finds the place of every column and card anew.
function draw() {
  places.clear();
  spread = [];
  let x = 16, bottom = TOP + 2 * CARD.height;
  for (let step = 0; step < columns.length; step++) {
    const group = groupOf.get(step), isFolded = group && !group.open, width = isFolded ? FOLD : CARD.width;
    spread.push({ step, group, isFolded, left: x, right: x + width });
    for (const last = isFolded ? group.to : step; ; step++) {
      for (const [row, one] of visible(step).entries()) {
        const top = TOP + row * ROW;
        places.set(one, { left: x, right: x + width, top, y: top + CARD.height / 2, folded: isFolded && group });
        if (!isFolded) bottom = Math.max(bottom, top + CARD.height);
      }
      if (step === last) break;
    }
    x += width + GAP;
  }
  const tree = $("tree");
  tree.style.width = `${x - GAP + 16}px`;
  tree.style.height = `${bottom + 16}px`;
  $("unfold").textContent = groups.some(group => !group.open) ? "Open all steps" : "Fold steps";
  painted = [];
  paint();
}

// Paints the columns that are seen, cards over edges; all of them unless there are many.
function paint() {
  const { scrollLeft, clientWidth } = $("box"), all = places.size <= MANY;
  const within = margin => spread.filter(({ left, right }) => all || right > scrollLeft - margin && left < scrollLeft + clientWidth + margin);
  if (painted.length && within(0).every(column => painted.includes(column))) return;
  const near = painted = within(MARGIN);
  const tree = $("tree"), parts = document.createDocumentFragment(), hadFocus = tree.contains(document.activeElement);
  cards.clear();
  const ends = [];
  for (const { step, group, isFolded, left } of near) {
    if (isFolded) {
      parts.append(folded(group, left, parseFloat(tree.style.height) - 16 - TOP));
      ends.push(...visible(group.from));
      continue;
    }
    parts.append(heading(step, left, group));
    for (const one of visible(step)) {
      parts.append(card(one));
      ends.push(one);
    }
  }
  tree.replaceChildren(edges(parseFloat(tree.style.width), parseFloat(tree.style.height), ends), parts);
  mark();
  if (hadFocus) cards.get(current)?.focus({ preventScroll: true });
}

function heading(step, x, group) {
  const head = make("p", { class: "head" }, step ? `step ${step}` : "");
  head.style.left = `${x}px`;
  head.style.width = `${CARD.width}px`;
  if (group && group.from === step) {
    const button = make("button", { type: "button", "data-close": step }, `fold ${group.from}–${group.to}`);
    button.addEventListener("click", () => fold(group, false));
    head.append(button);
  }
  return head;
}

function card(one) {
  const { left, top } = places.get(one);
  const numbers = one === root ? [] : [make("small", {}, make("span", {}, number(one.log_prob)), make("span", {}, one.score === undefined ? `number ${one.rank === null ? "-" : one.rank + 1}` : number(one.score)))];
  const element = make("button", { type: "button", class: `card ${one.fate}${isAsked.has(one) && one !== root ? " asked" : ""}`, tabindex: -1, "aria-label": spoken(one), "data-step": one.step, "data-rank": one.rank }, make("b", { dir: "auto" }, ...piece(one.piece)), ...numbers);
  element.style.left = `${left}px`;
  element.style.top = `${top}px`;
  element.addEventListener("click", () => go(one));
  element.addEventListener("focus", () => { if (current !== one) go(one); });
  cards.set(one, element);
  return element;
}

// A run of steps that is not shown, with what its best hypothesis says there.
function folded(group, x, height) {
  const pieces = [];
  for (let step = group.from; step <= group.to; step++) {
    const best = columns[step].find(one => one.fate !== "pruned");
    if (best) pieces.push(best.piece);
  }
  const range = group.from === group.to ? `step ${group.from}` : `steps ${group.from}–${group.to}`;
  const button = make("button", { type: "button", class: "fold", "aria-label": `Open ${range}`, "data-open": group.from }, make("b", {}, range), "open", make("em", { dir: "auto", "aria-hidden": "true" }, pieces.slice(0, 12).join(" ") + (pieces.length > 12 ? " …" : "")));
  button.style.left = `${x}px`;
  button.style.top = `${TOP}px`;
  button.style.height = `${height}px`;
  button.addEventListener("click", () => { fold(group, true); go(visible(group.from)[0] ?? root); });
  return button;
}

function fold(group, open) {
  group.open = open;
  if (!open && groupOf.get(current.step) === group) current = visible(group.from - 1)[0] ?? root;
  draw();
  if (!open) go(current);
}

// The line between a candidate and the one it extends.
function curve(one) {
  const parent = byId.get(one.parent), to = places.get(one), from = parent && places.get(parent);
  if (!to || !from || to.folded && to.folded === from.folded) return "";
  const y = [from.folded ? to.y : from.y, to.folded ? from.y : to.y];
  const middle = (from.right + to.left) / 2;
  return `M${from.right} ${y[0]}C${middle} ${y[0]} ${middle} ${y[1]} ${to.left} ${y[1]}`;
}

function edges(width, height, ends) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
  svg.setAttribute("aria-hidden", "true");
  const lines = { kept: [], fell: [] };
  for (const one of ends) lines[one.fate === "pruned" ? "fell" : "kept"].push(curve(one));
  const drawn = [["fell", lines.fell], ["kept", lines.kept], ["trail", []], ["shown", []], ["asked", asked.map(curve)]];
  for (const [name, curves] of drawn) {
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("class", name);
    path.setAttribute("d", curves.join(""));
    svg.append(path);
  }
  return svg;
}

// Shows which path is chosen, and where the cursor is.
function mark() {
  const shown = pathTo(hovered ?? pinned);
  const draws = (name, path) => $("tree").querySelector(`path.${name}`).setAttribute("d", path.map(curve).join(""));
  draws("shown", shown);
  draws("trail", pathTo(current));
  for (const element of marked) {
    element.classList.remove("on", "current");
    element.removeAttribute("aria-current");
    element.tabIndex = -1;
  }
  marked = [];
  for (const one of [...shown, current]) {
    const element = cards.get(one);
    if (!element) continue;
    marked.push(element);
    if (shown.includes(one)) element.classList.add("on");
    if (one === current) {
      element.classList.add("current");
      element.setAttribute("aria-current", "true");
    }
  }
  const stop = cards.get(current) ?? cards.values().next().value;
  if (stop) {
    stop.tabIndex = 0;
    marked.push(stop);
  }
  for (const row of $("list").tBodies[0].rows) {
    const chosen = byId.get(Number(row.dataset.id)) === pinned;
    row.classList.toggle("on", chosen);
    row.querySelector("button").setAttribute("aria-pressed", chosen);
  }
}
