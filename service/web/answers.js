// The sentences of the first screen: is the model good now, did the world change, and why.

const LATELY = 5000;
const LATELY_SECONDS = 60;
const TOGETHER = 1000;
const MOVED = 0.1;
const NOTHING = "Nothing learned yet";
const MARKS = { good: "✓", fair: "≈", bad: "✕", worse: "▼", better: "▲", moved: "◆", none: "○" };
const PARTS = [[0.05, "a twentieth"], [0.1, "a tenth"], [0.2, "a fifth"], [0.25, "a quarter"], [1 / 3, "a third"],
  [0.5, "half"], [2 / 3, "two thirds"], [0.75, "three quarters"], [0.9, "nine tenths"]];

const joinWords = (names) => names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;

const brief = (name) => name.length > 40 ? `${name.slice(0, 39)}…` : name;

/** The nearest plain fraction, by ratio. */
function part(ratio) {
  const far = ([value]) => Math.abs(Math.log(ratio / value));
  return PARTS.reduce((best, one) => far(one) < far(best) ? one : best)[1];
}

/** The better of the two baselines over the last 1,000 events: its error, and what it predicts. */
function bestBaseline(status) {
  const of = status.quality?.baselines;
  if (!of) return null;
  const common = (status.quality.classes ?? []).filter((one) => one.label !== null)
    .reduce((most, one) => most === null || one.events > most.events ? one : most, null);
  const always = common ? `always saying “${brief(String(common.label))}”` : "always saying the most frequent label";
  const both = [[of.majority.error_rate_last_1000, always], [of.no_change.error_rate_last_1000, "repeating the last label"]];
  const [best] = both.filter(([error]) => known(error)).sort(([one], [other]) => one - other);
  return best ? { error: best[0], words: best[1] } : null;
}

function isGood(status) {
  const error = status.error_rate_last_1000;
  if (!status.events || !known(error)) {
    return ["none", NOTHING, "The first event that comes is predicted, counted and then learned."];
  }
  const lately = `${percent(error)} errors in the last ${count(Math.min(1000, status.events))} events`;
  const best = bestBaseline(status);
  if (best === null) return ["none", percent(error), `${lately}.`];
  if (best.error === 0) return error === 0 ? ["good", "Good", `${lately}; all their labels were the same.`] :
    ["bad", "Worse than a guess", `${lately}; ${best.words} had none.`];
  const ratio = error / best.error;
  const theirs = `${percent(best.error)} of ${best.words}`;
  if (ratio > 1.1) return ["bad", "Worse than a guess", `${lately}, more than the ${theirs}.`];
  if (ratio > 0.93) return ["fair", "No better than a guess", `${lately}, about the ${theirs}.`];
  const fraction = error === 0 ? "against the" : `${part(ratio)} of the`;
  return [ratio > 0.6 ? "fair" : "good", ratio > 0.6 ? "Fair" : "Good", `${lately}, ${fraction} ${theirs}.`];
}

const isNews = (alarm) => alarm.change !== "better";
const sinceThen = (status, alarm) => Math.max(0, status.events - alarm.event);

function describeAlarm(alarm) {
  if (alarm.change === "worse") return `error rose by ${fixed(alarm.size, 2)}`;
  if (alarm.change === "better") return `error fell by ${fixed(alarm.size, 2)}`;
  const series = { labels: "the labels", predictions: "the predictions" }[alarm.detector] ?? brief(alarm.series);
  return `${series} moved by ${fixed(alarm.size, 2)}`;
}

/**
 * All alarms except those of a falling error. Alarms of a rising error that are close together become one change, with
 * the first event and the largest size.
 */
function changesIn(alarms) {
  const found = [];
  for (const alarm of alarms.filter(isNews)) {
    const same = found.findLast((one) => one.change === "worse" && alarm.change === "worse" && alarm.event - one.event <= TOGETHER);
    if (same) {
      same.size = Math.max(same.size, alarm.size);
      same.by.add(alarm.detector);
      same.last = alarm;
    } else {
      found.push({ ...alarm, by: new Set([alarm.detector]), last: alarm });
    }
  }
  return found.map((one) => ({ ...one, detector: [...one.by].join(", ") }));
}

const isFresh = (status, alarm) => Date.now() / 1000 - alarm.at < LATELY_SECONDS || sinceThen(status, alarm) < LATELY;

/** The newest of the recent changes; a rise of the error takes precedence over what moved with it. */
function freshChange(status) {
  const fresh = changesIn(status.drift?.alarms ?? []).filter((one) => isFresh(status, one.last));
  return fresh.findLast((one) => one.change === "worse") ?? fresh.at(-1) ?? null;
}

function didChange(status) {
  if (!status.drift) return ["none", "Not known", "This service does not report drift."];
  if (!status.events) return ["none", NOTHING, "There is nothing to compare with."];
  const fresh = freshChange(status);
  const when = (one) => `${count(sinceThen(status, one))} events ago, at event ${count(one.event)}: ${describeAlarm(one)} (${one.detector}).`;
  if (fresh) return [fresh.change, "Changed", `${when(fresh)} Shown for ${count(LATELY)} events or a minute.`];
  if (!status.drift.detectors.length) return ["none", "Not watched", "No detector is configured."];
  const last = changesIn(status.drift.alarms).at(-1);
  return ["good", "Steady", last ? `The last alarm was ${when(last)}` : `No alarm in ${count(status.events)} events.`];
}

/** Inputs and labels that moved near the change, each once, the furthest first, with their PSI at the alarm. */
function movedWith(status, change) {
  const near = status.drift.alarms.filter((one) => one.change === "moved" && Math.abs(one.event - change.event) < LATELY);
  const furthest = near.toSorted((one, other) => (other.psi ?? 0) - (one.psi ?? 0));
  const then = (one) => known(one.psi) ? ` (PSI ${fixed(one.psi, 2)} then)` : "";
  const inputs = new Map();
  for (const one of furthest) {
    if (one.detector === "inputs" && !inputs.has(one.series)) inputs.set(one.series, brief(one.series) + then(one));
  }
  const labels = furthest.find((one) => one.detector === "labels");
  return { inputs: [...inputs.values()].slice(0, 3), labels: labels && then(labels) };
}

/** Whether the error rose when the inputs or labels moved. */
function errorThen(status, change) {
  if (change.change === "worse") return "The error rose with them, so the rule may have changed too.";
  const onError = status.drift.detectors.some((one) => !["inputs", "labels", "predictions"].includes(one.detector));
  return onError ? "The error has not followed." : "The error is not watched.";
}

/** For a kernel model, which has stored rows instead of weights. */
function inStore({ rows, room }) {
  return rows ? `Predictions use ${count(rows)} stored events, of at most ${count(room)}.` : "No event is stored yet.";
}

/** Explains a change by what moved with it: the inputs, the labels, or only the rule between them. */
function whySo(status, heaviest, swayed) {
  const weights = swayed ? ` The weight of ${brief(swayed.name)} moved most: ${signed(swayed.change)} in ${swayed.seconds} s.` : "";
  const fresh = status.drift && freshChange(status);
  if (!fresh) {
    const words = heaviest.length ? `Heaviest weights: ${joinWords(heaviest.map(brief))}.${weights}` : "No feature has a weight yet.";
    return ["none", "Nothing to explain", status.support ? inStore(status.support) : words];
  }
  const { inputs, labels } = movedWith(status, fresh);
  const error = errorThen(status, fresh);
  if (inputs.length) {
    const all = labels === undefined ? inputs : [...inputs, `the labels${labels}`];
    return ["moved", "The inputs moved", `${joinWords(all)}. ${error}${weights}`];
  }
  if (labels !== undefined) return ["moved", "The labels moved", `The share of each label changed${labels}. ${error}${weights}`];
  const strayed = status.drift.features.filter((one) => one.psi >= MOVED).slice(0, 3);
  if (strayed.length) {
    const now = strayed.map((one) => `${brief(one.feature)} (PSI ${fixed(one.psi, 2)} now)`);
    return ["moved", "The inputs moved", `${joinWords(now)}. ${error}${weights}`];
  }
  if (fresh.change === "moved") return ["moved", "The predictions moved", `Inputs and labels look as before. ${error}${weights}`];
  const watched = status.drift.detectors.some((one) => one.detector === "inputs");
  if (!watched) return ["none", "Not known", `The inputs are not watched.${weights}`];
  return ["moved", "The rule changed", `Inputs and labels look as before, so the relation between them changed.${weights}`];
}

function answer(id, [mood, word, sentence]) {
  const card = at(id).parentElement;
  card.dataset.mood = mood;
  put(at(`${id}-word`), hiddenMark(mood), make("span", word));
  say(at(id), sentence);
}

function hiddenMark(mood) {
  const mark = withClass("mark", make("span", MARKS[mood]));
  mark.ariaHidden = "true";
  return mark;
}
