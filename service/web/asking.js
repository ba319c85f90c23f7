// Requests to the service: with the key of this tab, and only while the tab is visible.

const KEY = "onepass-key";
const PATIENCE = 10_000;

async function fetchJson(path, body) {
  const key = sessionStorage.getItem(KEY);
  const headers = key ? { authorization: `Bearer ${key}` } : {};
  if (body !== undefined) headers["content-type"] = "application/json";
  const signal = AbortSignal.timeout(PATIENCE);
  try {
    const reply = await fetch(path, body === undefined ? { headers, signal } : { method: "POST", body, headers, signal });
    const document = await reply.json();
    return { status: reply.status, document, message: reply.ok ? "" : document.error.message };
  } catch {
    return { status: 0, message: "the service does not answer" };
  }
}

/** Repeats `task` while the tab is visible, `milliseconds` after its last end. Returns a function that runs it at once. */
function every(milliseconds, task) {
  let timer = 0;
  let busy = false;
  async function turn() {
    if (busy || document.hidden) return;
    busy = true;
    clearTimeout(timer);
    try {
      await task();
    } finally {
      busy = false;
      timer = setTimeout(turn, milliseconds);
    }
  }
  document.addEventListener("visibilitychange", turn);
  return turn;
}
