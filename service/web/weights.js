// The heaviest weights, and how they changed while this tab was open; for a kernel model, its stored rows.

const REMEMBERED = 60;
const ASKED = 30;
const SHOWN = 10;
let remembered = [];

const collisions = (one) => one.collides_with ? ` (shares its slot with ${one.collides_with.join(", ")})` : "";
const nameOf = (heavy) => heavy.name ?? `slot ${heavy.slot}`;

/** Changes since the oldest request of the last minute. */
function changes(classes) {
  const now = performance.now() / 1000;
  const key = (label, heavy) => `${label}/${heavy.slot}`;
  const weights = new Map(classes.flatMap((one) => one.top.map((heavy) => [key(one.label, heavy), heavy.weight])));
  remembered = [...remembered.filter((look) => now - look.at <= REMEMBERED), { at: now, weights }];
  const [oldest] = remembered;
  const before = (label, heavy) => remembered.length > 1 ? oldest.weights.get(key(label, heavy)) ?? NaN : NaN;
  return { change: (label, heavy) => heavy.weight - before(label, heavy), seconds: Math.round(now - oldest.at) };
}

const size = (value) => Math.abs(value);
const topWeights = { heaviest: [], swayed: null };

/** Keeps for the first screen: the heaviest weights, the bias among them, and the one that moved most. */
function note(classes, change, seconds) {
  const all = classes.flatMap((one) => one.top.map((heavy) =>
    ({ name: nameOf(heavy), weight: heavy.weight, change: change(one.label, heavy), seconds })));
  const heaviest = all.toSorted((one, other) => size(other.weight) - size(one.weight)).map((one) => one.name);
  topWeights.heaviest = [...new Set(heaviest)].slice(0, 3);
  topWeights.swayed = all.filter((one) => known(one.change) && one.change !== 0)
    .reduce((most, one) => most === null || size(one.change) > size(most.change) ? one : most, null);
}

function weightsTable(one, change, seconds) {
  const top = one.top.slice(0, SHOWN);
  const moves = top.map((heavy) => change(one.label, heavy));
  const most = Math.max(...top.map((heavy) => size(heavy.weight)));
  const widest = Math.max(...moves.filter(known).map(size));
  const lines = top.map((heavy, n) => [nameOf(heavy) + collisions(heavy), swing(heavy.weight, most, number(heavy.weight, 3)),
    swing(moves[n], widest, signed(moves[n]))]);
  return table(String(one.label), ["feature", "weight", seconds ? `change in ${seconds} s` : "change"], lines);
}

async function loadWeights() {
  if (at("view").hidden) return;
  const seen = await fetchJson(`weights?top=${ASKED}&classes=5`);
  if (seen.status !== 200) return;
  const { classes, omitted_classes: omitted } = seen.document;
  const { change, seconds } = changes(classes);
  say(at("weights-title"), classes.some((one) => one.support) ? "Heaviest stored rows" : "Heaviest weights");
  const tables = classes.filter((one) => (one.support ?? one.top).length)
    .map((one) => one.support ? supportTable(one) : weightsTable(one, change, seconds));
  put(at("weights"), ...(tables.length ? tables : [make("p", "None yet.")]),
    ...(omitted ? [make("p", `and ${count(omitted)} more classes`)] : []));
  note(classes, change, seconds);
}
