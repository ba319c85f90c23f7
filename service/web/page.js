// The page: a door where a key is asked for, a view behind it, and what happens when the service goes away and comes back.

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
  answer("why", whySo(status, weighed.heaviest, weighed.swayed));
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

/** A service that was away, or that knows less than before, has been restarted: say so, and go on. */
function returned(status) {
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

async function look() {
  if (!at("door").hidden) return;  // it is the reader's turn: to ask on without a key would count as guessing
  const seen = await asked("status");
  if (seen.status === 200) {
    const words = returned(seen.document);
    turn(false, [seen.document.waiting_for, words].filter(Boolean).join(" · "));
    show(seen.document);
  } else if (seen.status === 401 || seen.status === 403 || (seen.status === 429 && at("view").hidden)) {
    turn(true, sessionStorage.getItem(KEY) ? seen.message : "");
    sessionStorage.removeItem(KEY);
  } else {
    away ??= Date.now();
    at("view").classList.add("stale");
    say(at("trouble"), `${seen.message}: asking again; below is what was true at ${clock(away / 1000)}`);
  }
}

const lookNow = every(1000, look);
const recallNow = every(2000, recall);
const weighNow = every(5000, weigh);
const begin = () => lookNow().then(() => Promise.all([recallNow(), weighNow()]));

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
