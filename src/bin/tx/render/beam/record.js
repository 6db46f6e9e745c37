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
