// The drift card: the detectors, the features that moved, and the alarms.

const PSI_MOST = 0.5;

/** The state of a feature: its last alarm if that is recent, else how far the feature is from its reference. */
function moving(status, { feature, psi }) {
  const alarm = status.drift.alarms.findLast((one) => one.detector === "inputs" && one.series === feature && isFresh(status, one));
  if (alarm) return `moved at event ${count(alarm.event)}`;
  if (!known(psi) || psi < MOVED) return "steady";
  return psi < 0.25 ? "a little" : "moved";
}

function showDrift(status) {
  const drift = status.drift;
  showAlarms(drift?.alarms ?? []);
  if (!drift) {
    put(at("drift"), make("p", "Not watched."));
    return;
  }
  const detectors = drift.detectors.map((one) =>
    [one.detector, meter(one.score, 1, fixed(one.score, 2), `score of ${one.detector}`), count(one.alarms)]);
  const left = drift.boosted_events_left;
  const boosted = left ? [make("p", `The next ${count(left)} events count more (boost).`)] : [];
  put(at("drift"), ...boosted, detectors.length ? table("", ["detector", "score", "alarms"], detectors) :
    make("p", "No detector is configured."));
  const features = drift.features.map((one) =>
    [one.feature, meter(one.psi, PSI_MOST, fixed(one.psi, 3), `PSI of ${one.feature}`), moving(status, one)]);
  const moved = features.length ? [table("Features by how far they moved", ["feature", "PSI", ""], features)] : [];
  put(at("features-moved"), ...moved);
}

function showAlarms(alarms) {
  const entries = alarms.toReversed().map((alarm) => {
    const what = make("span", "", make("b", `event ${count(alarm.event)}`), ` ${describeAlarm(alarm)}`);
    const actions = alarm.actions.length ? `, action: ${joinWords(alarm.actions.map((action) => action.replaceAll("_", " ")))}` : "";
    const where = `${alarm.detector}${actions}; partition ${alarm.partition}, position ${alarm.position}, ${clock(alarm.at)}`;
    return withClass(alarm.change, make("li", "", hiddenMark(alarm.change), what, withClass("fine", make("span", where))));
  });
  put(at("alarms"), ...(entries.length ? entries : [withClass("fine", make("li", "None."))]));
}
