// The page: a form that asks for a key, the view behind it, and news of a service that was away.

const NEWS = 15_000;
let before = null;
let away = null;
let news = { words: "", until: 0 };

function show(status) {
  say(at("name"), status.model);
  const state = status.ready ? "" : " · not ready";
  say(at("kind"), `onepass · ${status.learner.kind} · role ${status.role} · learning ${learning(status)}${state}`);
  document.title = `${status.model} · onepass`;
  answer("good", isGood(status));
  answer("changed", didChange(status));
  answer("why", whySo(status, topWeights.heaviest, topWeights.swayed));
  showNumbers(status);
  showQuality(status);
  showClasses(status);
  showDrift(status);
  showRejects(status);
  showForm(status);
}

function turn(closed, message) {
  at("door").hidden = !closed;
  at("view").hidden = closed;
  at("leave").hidden = !sessionStorage.getItem(KEY);
  say(at("trouble"), message);
}

/** Reports that the service was away, or that its model went back: it was restarted. */
function noteReturn(status) {
  const words = [];
  if (away !== null) words.push(`The service answers again, after ${Math.max(1, Math.round((Date.now() - away) / 1000))} s.`);
  if (before !== null && status.events < before) {
    words.push(`It went back from event ${count(before)} to ${count(status.events)}, its last checkpoint.`);
    remembered = [];
  }
  if (words.length) news = { words: words.join(" "), until: Date.now() + NEWS };
  away = null;
  before = status.events;
  at("view").classList.remove("stale");
  return Date.now() < news.until ? news.words : "";
}

async function loadStatus() {
  if (!at("door").hidden) return;  // a key is needed first: each request without one counts as a failure
  const seen = await fetchJson("status");
  if (seen.status === 200) {
    const words = noteReturn(seen.document);
    turn(false, [seen.document.waiting_for, words].filter(Boolean).join(" · "));
    show(seen.document);
  } else if (seen.status === 401 || seen.status === 403 || (seen.status === 429 && at("view").hidden)) {
    turn(true, sessionStorage.getItem(KEY) ? seen.message : "");
    sessionStorage.removeItem(KEY);
  } else {
    away ??= Date.now();
    at("view").classList.add("stale");
    say(at("trouble"), `${seen.message}: trying again; the numbers below are of ${clock(away / 1000)}`);
  }
}

const loadStatusNow = every(1000, loadStatus);
const loadHistoryNow = every(2000, loadHistory);
const loadWeightsNow = every(5000, loadWeights);
const begin = () => loadStatusNow().then(() => Promise.all([loadHistoryNow(), loadWeightsNow()]));

at("door").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(KEY, at("key").value);
  at("key").value = "";
  at("door").hidden = true;
  begin();
});

at("leave").addEventListener("click", () => {
  sessionStorage.removeItem(KEY);
  turn(true, "");
});

begin();
