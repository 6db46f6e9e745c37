"use strict";
// The record of a search, drawn: lists and tables, and the tree of hypotheses with a column for each step.
const record = JSON.parse(document.getElementById("record").textContent);
const { steps, hypotheses, why } = record;
const $ = id => document.getElementById(id);
const make = (name, attributes = {}, ...inside) => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...inside);
  return element;
};
const number = x => x === null || x === undefined ? "-∞" : x.toFixed(4);
const cell = (text, attributes = { class: "n" }) => make("td", attributes, text);
const textCell = text => cell(make("bdi", { dir: "auto" }, text), {});

// A piece, with the mark of the beginning of a word in the background.
function piece(text) {
  const marks = text.length - text.replace(/^▁+/, "").length;
  return marks ? [make("span", { class: "space" }, text.slice(0, marks)), text.slice(marks)] : [text];
}
const pieceCell = text => cell(make("bdi", { dir: "auto" }, ...piece(text)), {});

const fates = { live: "lives", finished: "finished", cut: "cut at the limit", pruned: "fell off" };
const stops = { bound: "no live hypothesis could still enter the list", limit: "the step limit was reached", no_candidates: "nothing was left to extend", eos: "greedy search chose the end mark", enough: "enough hypotheses had finished" };

// What is known of each hypothesis by its id: the candidate that it was, and the step of it.
const root = { id: 0, rank: 0, step: 0, fate: "root", piece: "start", parent: null, log_prob: 0, score: 0 };
const byId = new Map([[0, root]]);
const columns = [[root]];
for (const { step, candidates } of steps) {
  const column = candidates.map(one => ({ ...one, step, count: candidates.length }));
  for (const one of column) if (one.id !== undefined && one.id !== null) byId.set(one.id, one);
  columns.push(column);
}

// The candidates on the way to one, from the root.
function pathTo(one) {
  const path = [];
  for (let at = one; at; at = byId.get(at.parent)) path.unshift(at);
  return path;
}

// The way of the translation that was asked for, as far as it was in the beam, and where it left it.
function askedPath() {
  if (!why) return [];
  const path = [root];
  for (const [index, token] of why.ids.entries()) {
    const parent = path.at(-1).id;
    if (parent === undefined || parent === null) break;
    const next = columns[index + 1]?.find(one => one.parent === parent && one.token === token);
    if (next) { path.push(next); continue; }
    const left = why.left;
    if (left && left.step === index + 1 && columns[index + 1]) {
      const standing = why.standings.at(-1);
      const ghost = { ...left, piece: why.tokens[index], log_prob: standing.log_prob, score: undefined, parent, fate: "pruned", beyond: true };
      columns[index + 1].push(ghost);
      path.push(ghost);
    }
    break;
  }
  return path;
}
const asked = askedPath();
const isAsked = new Set(asked);

// Steps that are folded together: the later ones by twenties, and of the first those where each live hypothesis just goes on.
const SHOWN = 20;
const groups = [];
const groupOf = new Map();
function addGroup(from, to) {
  const group = { from, to, open: false };
  groups.push(group);
  for (let step = from; step <= to; step++) groupOf.set(step, group);
}
function isQuiet(step) {
  const { live, candidates } = steps[step - 1];
  const kept = candidates.filter(one => one.fate !== "pruned");
  return live.length > 1 && kept.length === live.length && kept.every((one, place) => one.fate === "live" && one.parent === live[place].id);
}
const early = Math.min(SHOWN, steps.length);
for (let step = 2; step <= early; step++) {
  let to = step;
  while (to <= early && isQuiet(to)) to++;
  if (to - step >= 3) addGroup(step, to - 1);
  step = Math.max(step, to);
}
for (let from = SHOWN + 1; from <= steps.length; from += SHOWN) addGroup(from, Math.min(from + SHOWN - 1, steps.length));
const leftGroup = why?.left && groupOf.get(why.left.step);
if (leftGroup) leftGroup.open = true;

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

// The last pieces before one.
function before(one) {
  const pieces = pathTo(byId.get(one.parent)).slice(1).map(at => at.piece);
  return (pieces.length > 40 ? ["…"] : []).concat(pieces.slice(-40)).join(" ");
}

function fate(one) {
  const place = one.bank === undefined ? "" : ` among those with ${one.bank} pieces of what must be said`;
  if (one.how === "ruled_out") return "ruled out by the rules of the search";
  if (one.fate !== "pruned") return fates[one.fate] + place;
  const gap = one.gap === undefined || one.gap === null ? "" : `, ${number(one.gap)} below the last one kept`;
  return fates.pruned + gap + place;
}

function numbers(one) {
  const score = one.score === undefined ? "" : `, score ${number(one.score)}`;
  return `log_prob ${number(one.log_prob)}${score}, ${fate(one)}`;
}

function rank(one) {
  if (one.beyond) return one.rank === null ? "asked for" : `number ${one.rank + 1} of ${one.of} extensions`;
  return `number ${one.rank + 1} of ${one.count} candidates`;
}

function spoken(one) {
  if (one === root) return "start of the search";
  return `step ${one.step}, ${one.piece}, ${rank(one)}, ${numbers(one)}${isAsked.has(one) ? ", asked for" : ""}`;
}

// Moves the cursor, opens what hides it, and says where it is.
function go(one) {
  const group = groupOf.get(one.step);
  const hidden = group && !group.open;
  if (hidden) group.open = true;
  const was = current;
  current = one;
  if (hidden || !places.has(one) || was.fate === "pruned" && !$("fallen").checked && !isAsked.has(was)) draw();
  const box = $("box"), { left, right } = places.get(one);
  if (left - 40 < box.scrollLeft) box.scrollLeft = left - 40;
  if (right + 40 > box.scrollLeft + box.clientWidth) box.scrollLeft = right + 40 - box.clientWidth;
  paint();
  mark();
  const element = cards.get(one);
  if (document.activeElement !== element) element.focus({ preventScroll: true });
  element.scrollIntoView({ block: "nearest", inline: "nearest" });
  say(one);
}

function say(one) {
  if (one === root) {
    $("status").replaceChildren(make("p", {}, "start of the search: the empty hypothesis"));
    return;
  }
  const first = make("p", {}, make("strong", {}, `step ${one.step}: `), make("bdi", { dir: "auto" }, one.piece), `, ${rank(one)}`);
  const lines = [first, make("p", {}, numbers(one))];
  const start = before(one);
  if (start) lines.push(make("p", {}, "after ", make("bdi", { dir: "auto" }, start)));
  $("status").replaceChildren(...lines);
}

// The candidate of a step that is nearest to a place in its column.
function near(step, row) {
  const all = visible(step);
  return all[Math.min(Math.max(row, 0), all.length - 1)];
}

$("tree").addEventListener("keydown", event => {
  if (!event.target.classList.contains("card") || event.ctrlKey || event.altKey || event.metaKey) return;
  const all = visible(current.step), row = all.indexOf(current), last = columns.length - 1;
  const filled = (step, by) => { while (columns[step] && !visible(step).length) step += by; return columns[step] ? step : current.step; };
  const moves = {
    ArrowLeft: () => near(filled(Math.max(current.step - 1, 0), -1), row),
    ArrowRight: () => columns[Math.min(current.step + 1, last)].find(one => one.parent === current.id && visible(one.step).includes(one)) ?? near(filled(Math.min(current.step + 1, last), 1), row),
    ArrowUp: () => near(current.step, row - 1),
    ArrowDown: () => near(current.step, row + 1),
    Home: () => near(1, 0),
    End: () => near(filled(last, -1), 0),
    Enter: () => byId.get(current.parent) ?? root,
    " ": () => { pinned = current; return current; },
  };
  if (!moves[event.key]) return;
  event.preventDefault();
  go(moves[event.key]() ?? current);
});
$("box").addEventListener("scroll", () => requestAnimationFrame(paint));
addEventListener("resize", () => requestAnimationFrame(paint));
$("fallen").addEventListener("change", draw);
$("unfold").addEventListener("click", () => {
  const open = groups.some(group => !group.open);
  for (const group of groups) group.open = open;
  if (!open && groupOf.has(current.step)) current = root;
  name();
  draw();
});
const name = () => { $("unfold").textContent = groups.some(group => !group.open) ? "Open all steps" : "Fold steps"; };
$("unfold").hidden = groups.length === 0;

const system = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : system.matches;
const nameTheme = () => { $("theme").textContent = isDark() ? "Light" : "Dark"; };
$("theme").addEventListener("click", () => { document.documentElement.dataset.theme = isDark() ? "light" : "dark"; nameTheme(); });
system.addEventListener("change", nameTheme);

const stop = record.stop ? `; ended after step ${steps.length}: ${stops[record.stop]}` : "";
$("facts").textContent = `beam ${record.beam_size}, length penalty ${record.length_penalty}, rules of ${record.like}, at most ${record.max_length} steps${stop}`;
for (const [index, one] of hypotheses.entries()) {
  const button = make("button", { type: "button", "aria-label": `${one.text || "(empty)"}: draw its path` }, make("bdi", { dir: "auto" }, one.text || "(empty)"));
  const row = make("tr", { "data-id": one.id }, make("th", { scope: "row", class: "n" }, `${index + 1}`), make("td", {}, button), cell(number(one.score)), cell(number(one.log_prob)), cell(`${one.ids.length}`), cell(one.finish, {}));
  const hover = own => () => { hovered = own; mark(); };
  const own = byId.get(one.id) ?? root;
  row.addEventListener("mouseenter", hover(own));
  row.addEventListener("mouseleave", hover(null));
  button.addEventListener("focus", hover(own));
  button.addEventListener("blur", hover(null));
  button.addEventListener("click", () => { pinned = own; say(own); mark(); });
  $("list").tBodies[0].append(row);
}
if (why) {
  $("why").hidden = false;
  document.querySelector("#legend .asked").hidden = false;
  $("why-name").append("Why not ", make("bdi", { dir: "auto" }, why.text), "?");
  for (const line of why.says) $("says").append(make("p", {}, line));
  const winner = hypotheses[0];
  $("says").append(make("p", {}, `log_prob ${number(why.log_prob)} (winner ${number(winner?.log_prob)}), score ${number(why.score)} (winner ${number(winner?.score)})`));
  for (const [index, { target, winner }] of why.positions.entries()) {
    const side = one => one ? [pieceCell(one.piece), cell(number(one.log_prob)), cell(number(one.sum))] : [textCell(""), cell(""), cell("")];
    const row = make("tr", {}, make("th", { scope: "row", class: "n" }, `${index + 1}`), ...side(target), ...side(winner));
    row.classList.toggle("differs", target?.piece !== winner?.piece);
    $("positions").tBodies[0].append(row);
  }
}
for (const one of record.compared ?? []) {
  $("others").hidden = false;
  $("compared").tBodies[0].append(make("tr", {}, make("th", { scope: "row", class: "n" }, `${one.beam_size}`), cell(one.length_penalty, {}), textCell(one.text), cell(number(one.score)), cell(number(one.log_prob)), cell(`${one.ids.length}`), cell(one.length_ratio.toFixed(2)), cell(`${one.steps}`), cell(one.is_first ? "yes" : "no", {})));
}
name();
nameTheme();
current = columns[1]?.find(one => one.fate !== "pruned") ?? root;
draw();
say(current);
