// What the page holds: sentences, their axes, and the weights of each layer as base64, decoded when they are first looked at.
const data = JSON.parse(document.getElementById("data").textContent);
const AXES = { encoder_self: ["src", "src"], decoder_self: ["tgt_out", "tgt_in"], cross: ["tgt_out", "src"] };
const state = { sentence: 0, ...data.start, query: 0, key: 0, scope: "one", left: new Set() };

// The number behind each code: floats of 16 bits, or powers of two in steps of a sixteenth.
const NUMBERS = Float32Array.from({ length: data.bits === 16 ? 0x3c01 : 256 }, (_, code) =>
  data.bits === 8 ? (code === 0 ? 0 : 2 ** ((code - 255) / 16))
    : code < 1024 ? code * 2 ** -24 : (1 + (code & 1023) / 1024) * 2 ** ((code >> 10) - 15));

let decoded = new Map();

function sentence() {
  return data.sentences[state.sentence];
}

function layers() {
  return sentence().weights[state.kind];
}

// All heads of a layer one after the other, each query by query.
function layerWeights(layer) {
  const name = state.kind + layer;
  if (!decoded.has(name)) {
    const bytes = Uint8Array.from(atob(layers()[layer]), c => c.charCodeAt(0));
    const codes = data.bits === 16 ? new Uint16Array(bytes.buffer) : bytes;
    decoded.set(name, Float32Array.from(codes, code => NUMBERS[code]));
  }
  return decoded.get(name);
}

// The weights of a head, or their mean, as [query][key] in a row.
function headWeights(layer, head) {
  const all = layerWeights(layer), size = all.length / data.heads[state.kind];
  if (head !== "mean") return all.subarray(head * size, (head + 1) * size);
  const mean = new Float32Array(size);
  for (let at = 0; at < all.length; at++) mean[at % size] += all[at];
  return mean.map(sum => sum / data.heads[state.kind]);
}

// What is shown of an axis: labels, and for each piece the number of its label, -1 if it is hidden.
function shownAxis(axis) {
  const labels = [], places = [];
  let last = -1;
  axis.word_of.forEach((word, piece) => {
    if (axis.is_mark[piece] && !state.marks) return places.push(-1);
    if (state.unit === "pieces" || word !== last) labels.push(state.unit === "words" ? axis.words[word] : axis.pieces[piece]);
    last = word;
    places.push(labels.length - 1);
  });
  return { labels, places };
}

// As the library does: without the marks a row is divided by what it gives to the rest; between words keys are added up and
// queries averaged, but for those that look at nothing that is shown.
function headMap(layer, head) {
  const [rows, columns] = AXES[state.kind].map(name => shownAxis(sentence().axes[name]));
  const weights = headWeights(layer, head);
  const queries = rows.labels, keys = columns.labels, width = columns.places.length;
  const sums = new Float32Array(queries.length * keys.length), counts = new Uint32Array(queries.length);
  rows.places.forEach((query, row) => {
    if (query < 0) return;
    let rest = 1;
    if (!state.marks) {
      rest = 0;
      columns.places.forEach((key, column) => { if (key >= 0) rest += weights[row * width + column]; });
      if (rest === 0) return;
    }
    counts[query]++;
    columns.places.forEach((key, column) => { if (key >= 0) sums[query * keys.length + key] += weights[row * width + column] / rest; });
  });
  return { queries, keys, weights: sums.map((sum, at) => sum / Math.max(1, counts[Math.floor(at / keys.length)])) };
}

function number(weight) {
  return weight === 0 ? "0" : weight.toPrecision(data.bits === 16 ? 3 : 2);
}

function headName(layer, head) {
  const heads = data.heads[state.kind];
  return `Layer ${layer}, ${head === "mean" ? `mean of ${heads} head${heads > 1 ? "s" : ""}` : `head ${head}`}`;
}
