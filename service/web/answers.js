// The first screen in words: is the model good now, did the world change, and why.

const LATELY = 5000;
const LATELY_SECONDS = 60;
const MOVED = 0.1;
const MARKS = { good: "✓", fair: "≈", bad: "✕", worse: "▼", better: "▲", moved: "◆", none: "○" };
const PARTS = [[0.05, "a twentieth"], [0.1, "a tenth"], [0.2, "a fifth"], [0.25, "a quarter"], [1 / 3, "a third"],
  [0.5, "half"], [2 / 3, "two thirds"], [0.75, "three quarters"], [0.9, "nine tenths"]];

const listed = (names) => names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;

const brief = (name) => name.length > 40 ? `${name.slice(0, 39)}…` : name;

/** The nearest plain fraction, by ratio. */
function part(ratio) {
  const far = ([value]) => Math.abs(Math.log(ratio / value));
  return PARTS.reduce((best, one) => far(one) < far(best) ? one : best)[1];
}

/** The better of the two baselines lately, and what it would be to follow it. */
function bestBaseline(status) {
  const of = status.quality?.baselines;
  if (!of) return null;
  const common = (status.quality.classes ?? []).filter((one) => one.label !== null)
    .reduce((most, one) => most === null || one.events > most.events ? one : most, null);
  const always = common ? `always saying “${brief(String(common.label))}”` : "always saying the commonest label";
  const both = [[of.majority.error_rate_last_1000, always], [of.no_change.error_rate_last_1000, "repeating the last label"]];
  const [best] = both.filter(([error]) => known(error)).sort(([one], [other]) => one - other);
  return best ? { error: best[0], words: best[1] } : null;
}

function isGood(status) {
  const error = status.error_rate_last_1000;
  if (!status.events || !known(error)) {
    return ["none", "No events yet", "The first that comes is predicted, counted and then learned."];
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

function happened(alarm) {
  if (alarm.change === "worse") return `error rose by ${fixed(alarm.size, 2)}`;
  if (alarm.change === "better") return `error fell by ${fixed(alarm.size, 2)}`;
  const series = { label: "the labels", prediction: "the predictions" }[alarm.series] ?? brief(alarm.series);
  return `${series} moved by ${fixed(alarm.size, 2)}`;
}

/** The newest alarm of lately that is not good news; a risen error before what moved with it. */
function freshAlarm(status) {
  const young = (alarm) => Date.now() / 1000 - alarm.at < LATELY_SECONDS || sinceThen(status, alarm) < LATELY;
  const fresh = (status.drift?.alarms ?? []).filter((alarm) => isNews(alarm) && young(alarm));
  return fresh.findLast((alarm) => alarm.change === "worse") ?? fresh.at(-1) ?? null;
}

function didChange(status) {
  if (!status.drift) return ["none", "Not known", "This service does not tell of drift."];
  const fresh = freshAlarm(status);
  if (fresh) {
    return [fresh.change, "Changed", `${count(sinceThen(status, fresh))} events ago, at event ${count(fresh.event)}: ` +
      `${happened(fresh)} (${fresh.detector}).`];
  }
  if (!status.drift.detectors.length) return ["none", "Not watched", "No detector is configured."];
  const last = status.drift.alarms.findLast(isNews);
  if (!last) return ["good", "Steady", `No alarm in ${count(status.events)} events.`];
  return ["good", "Steady", `The last alarm was ${count(sinceThen(status, last))} events ago, at event ${count(last.event)}: ` +
    `${happened(last)} (${last.detector}).`];
}

/** From what moved with the alarm: the inputs, the labels, or only what the one says about the other. */
function whySo(status, heaviest, swayed) {
  const weights = swayed ? ` The weight of ${brief(swayed.name)} moved most: ${signed(swayed.change)} in ${swayed.seconds} s.` : "";
  const fresh = status.drift && freshAlarm(status);
  if (!fresh && !heaviest.length) return ["none", "Nothing to explain", "No feature has a weight yet."];
  if (!fresh) {
    const weigh = heaviest.length > 1 ? "weigh" : "weighs";
    return ["none", "What decides", `${listed(heaviest.map(brief))} ${weigh} most.${weights}`];
  }
  const watched = new Set(status.drift.detectors.map((one) => one.detector));
  const moved = status.drift.alarms.filter((one) => one.change === "moved" && Math.abs(one.event - fresh.event) < LATELY);
  const named = new Set(moved.map((one) => one.series));
  const strayed = status.drift.features.filter((one) => named.has(one.feature) || one.psi >= MOVED);
  const features = strayed.length ? strayed.slice(0, 3).map((one) => `${brief(one.feature)} (PSI ${fixed(one.psi, 2)})`) :
    [...named].filter((series) => series !== "label" && series !== "prediction").slice(0, 3).map(brief);
  if (features.length) return ["moved", "The inputs moved", `${listed(features)}.${weights}`];
  if (named.has("label")) return ["moved", "The labels moved", `They come in another mix than before.${weights}`];
  if (!watched.has("inputs")) return ["none", "Not known", `The inputs are not watched.${weights}`];
  return ["moved", "The rule changed", `Inputs and labels look as before, so what they say about each other changed.${weights}`];
}

function answer(id, [mood, word, sentence]) {
  const card = at(id).parentElement;
  card.dataset.mood = mood;
  put(at(`${id}-word`), hiddenMark(mood), made("span", word));
  say(at(id), sentence);
}

function hiddenMark(mood) {
  const mark = classed("mark", made("span", MARKS[mood]));
  mark.ariaHidden = "true";
  return mark;
}
