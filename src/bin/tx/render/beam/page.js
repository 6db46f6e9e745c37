// What is said of a card, the keys and controls, and the tables.
// The last pieces before one.
function before(one) {
  const pieces = pathTo(byId.get(one.parent)).slice(1).map(at => at.piece);
  return (pieces.length > 40 ? ["…"] : []).concat(pieces.slice(-40)).join(" ");
}

function fate(one) {
  const place = one.bank === undefined ? "" : ` among those with ${one.bank} pieces of what must be said`;
  if (one.how === "ruled_out") return "ruled out by the rules of the search";
  if (one.fate !== "pruned") return fates[one.fate] + place;
  const gap = one.gap === undefined || one.gap === null ? "" : `, ${number(one.gap)} of log_prob below the last one kept`;
  return fates.pruned + gap + place;
}

function numbers(one) {
  const score = one.score === undefined ? "" : `, score ${number(one.score)}`;
  return `log_prob ${number(one.log_prob)}${score}, ${fate(one)}`;
}

function rank(one) {
  if (one.beyond) return one.rank === null ? "asked for" : `number ${one.rank + 1} of ${one.of} extensions`;
  return `number ${one.rank + 1} of the ${one.count} best extensions`;
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
  draw();
});
$("unfold").hidden = groups.length === 0;

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
  $("why-name").append("Why not: ", make("bdi", { dir: "auto" }, why.text));
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
current = columns[1]?.find(one => one.fate !== "pruned") ?? root;
draw();
say(current);
