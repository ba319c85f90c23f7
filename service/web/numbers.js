// The numbers of /status: the stream, the state, the quality and the classes.

const RATE_SECONDS = 8;
let looks = [];

/** Events per second over the last requests of this tab. It starts again when the model went back. */
function speed(events) {
  const now = performance.now() / 1000;
  if (looks.length && events < looks.at(-1).events) looks = [];
  looks = [...looks.filter((look) => now - look.at <= RATE_SECONDS), { at: now, events }];
  const passed = now - looks[0].at;
  return passed > 0.5 ? (events - looks[0].events) / passed : null;
}

/** A share of the events, or nothing while there are no events. */
const share = (status, value) => percent(status.events ? value : null);

function learning(status) {
  if (status.role === "serve") return "by another process";
  return status.frozen ? "frozen" : "on";
}

function showNumbers(status) {
  const boosted = status.drift?.boosted_events_left;
  const { generation, age_seconds: age } = status.checkpoint;
  const rate = speed(status.events);
  const numbers = {
    "events learned": count(status.events),
    "events/s": known(rate) ? count(Math.round(rate)) : NONE,
    "lag": count(status.lag),
    "error, last 1,000": share(status, status.error_rate_last_1000),
    "error, all": share(status, status.error_rate),
    "checkpoint": generation ? count(generation) : "none yet",
    "checkpoint’s age": known(age) ? `${fixed(age, age < 10 ? 1 : 0)} s` : NONE,
    "rejected": count(status.rejects),
    ...(status.support ? { "rows stored": `${count(status.support.rows)} of ${count(status.support.room)}` } : {}),
    ...(status.events_lost ? { "events lost": count(status.events_lost) } : {}),
    ...(boosted ? { "boosted": `${count(boosted)} events left` } : {}),
  };
  put(at("numbers"), ...Object.entries(numbers).map(([term, value]) => make("div", "", make("dt", term), make("dd", value))));
}

function showQuality(status) {
  const quality = status.quality;
  const shares = (...values) => values.map((value) => share(status, value));
  const lines = [["error", ...shares(status.error_rate, status.error_rate_last_1000, quality?.error_rate_fading)]];
  if (quality) {
    const { majority, no_change: noChange } = quality.baselines;
    lines.push(
      [withHint("baseline, majority", MEANING.majority), ...shares(majority.error_rate, majority.error_rate_last_1000), ""],
      [withHint("baseline, no change", MEANING.no_change), ...shares(noChange.error_rate, noChange.error_rate_last_1000), ""],
      ["kappa", fixed(quality.kappa), "", ""],
      ["kappa, majority", fixed(quality.kappa_majority), fixed(quality.kappa_majority_last_1000), ""],
      ["kappa, temporal", fixed(quality.kappa_temporal), fixed(quality.kappa_temporal_last_1000), ""],
      ["log loss", fixed(quality.log_loss), "", fixed(quality.log_loss_fading)],
      ["calibration error", fixed(quality.calibration_error), "", ""]);
  }
  put(at("quality"), table("", ["", "all", "last 1,000", "fading"], lines));
}

function showClasses(status) {
  const lines = (status.quality?.classes ?? []).map((one) => [one.label === null ? "all others" : String(one.label),
    count(one.events), count(one.predicted), percent(one.precision), percent(one.recall), fixed(one.f1, 2)]);
  put(at("classes"), lines.length ? table("", ["label", "events", "predicted", "precision", "recall", "F1"], lines) :
    make("p", "None yet."));
}

function showRejects(status) {
  const spaced = (reason) => reason.replaceAll("_", " ");
  const counts = Object.entries(status.rejects_by_reason).filter(([, rejects]) => rejects);
  const sums = counts.map(([reason, rejects]) => [spaced(reason), count(rejects)]);
  const totals = sums.length ? [table("All, by reason", ["reason", "events"], sums)] : [];
  const last = (status.last_rejects ?? []).toReversed().map((one) =>
    [spaced(one.reason), `${one.partition} / ${one.position}`, clock(one.at)]);
  const recent = last.length ? [table("The last of this process", ["reason", "partition / position", "time"], last)] : [];
  put(at("rejects"), ...totals, ...recent, ...(totals.length || recent.length ? [] : [make("p", "None.")]));
}
