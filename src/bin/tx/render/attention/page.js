// The controls, and what follows from them.
const MEANINGS = {
  encoder_self: "Encoder self-attention: each source token (row) looks at all source tokens (columns).",
  decoder_self: "Decoder self-attention: what each target token is answered from (row) looks at the target before it (columns).",
  cross: "Cross-attention: each target token that is answered (row) looks at the source (columns).",
};
const byId = name => document.getElementById(name);

function update() {
  map = headMap(state.layer, state.head);
  byId("map-name").textContent = headName(state.layer, state.head);
  byId("meaning").textContent = MEANINGS[state.kind] + (state.marks ? "" : " Marks are left out, and each row is divided by what is left of it.")
    + (state.unit === "words" ? " Between words, the pieces that are looked at are added up and those that look averaged." : "");
  layOut();
  point(state.query, state.key);
  drawMapNow();
  markChosen();
  buildLines();
}

function choose(layer, head) {
  Object.assign(state, { layer, head });
  update();
}

function changeKind() {
  state.layer = Math.min(state.layer, layers().length - 1);
  if (state.head !== "mean") state.head = Math.min(state.head, data.heads[state.kind] - 1);
  buildOverview();
  buildChips();
  update();
  redrawThumbs();
}

function changeSentence() {
  decoded = new Map();
  Object.assign(state, { query: 0, key: 0 });
  byId("src").textContent = sentence().src;
  byId("tgt").textContent = sentence().tgt;
  pane.scrollTo(0, 0);
  changeKind();
}

function recolour() {
  readColours();
  buildChips();
  update();
  redrawThumbs();
}

for (const [name, then] of [["kind", changeKind], ["unit", () => { update(); redrawThumbs(); }], ["scope", buildLines]]) {
  for (const radio of document.querySelectorAll(`[name=${name}]`)) {
    radio.checked = radio.value === state[name];
    radio.addEventListener("change", () => { state[name] = radio.value; then(); });
  }
}
byId("marks").checked = state.marks;
byId("marks").addEventListener("change", event => { state.marks = event.target.checked; update(); redrawThumbs(); });
whole.addEventListener("change", update);
document.addEventListener("themechange", recolour);
byId("choice").hidden = data.sentences.length < 2;
byId("sentence").append(...data.sentences.map(({ line, src }, at) => element("option", `${line}  ${src.length > 90 ? src.slice(0, 90) + "…" : src}`, { value: at })));
byId("sentence").addEventListener("change", event => { state.sentence = Number(event.target.value); changeSentence(); });
readColours();
changeSentence();

let fitted = [];
function fit() {
  const now = [byId("panes").clientWidth, innerHeight];
  if (now.join() === fitted.join()) return;
  fitted = now;
  sizeThumbs();
  layOut();
  drawMapNow();
  drawLines();
}
// In the next frame: what changes sizes while they are observed is a complaint of the browser's.
new ResizeObserver(() => requestAnimationFrame(fit)).observe(byId("panes"));
addEventListener("resize", fit);
