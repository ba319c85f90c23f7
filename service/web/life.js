// The card of the chart: choice of events, legend with the numbers under the pointer, and the curves as a table.

const LINES = 16;
let lifeData = null;
let pointer = null;

async function loadHistory() {
  if (at("view").hidden) return;
  const seen = await fetchJson("history");
  if (seen.status !== 200) {
    if (lifeData === null) say(at("chart"), seen.status === 404 ? "This service keeps no history." : seen.message);
    return;
  }
  lifeData = seen.document;
  drawLife();
}

function nearest(events, x) {
  return events.reduce((best, value, n) => Math.abs(x(value) - pointer) < Math.abs(x(events[best]) - pointer) ? n : best, 0);
}

function drawLife() {
  const width = at("chart").clientWidth;
  if (lifeData === null || width === 0) return;
  const span = document.querySelector("input[name=span]:checked").value;
  const curves = curvesOf(lifeData[span]);
  if (!curves.events.length) {
    put(at("legend"));
    put(at("points"));
    say(at("chart"), "The curves begin after the first 200 events.");
    return;
  }
  let { picture, x } = chart(curves, lifeData.alarms, width, null);
  const chosen = pointer === null ? null : nearest(curves.events, x);
  if (chosen !== null) ({ picture } = chart(curves, lifeData.alarms, width, chosen));
  put(at("chart"), picture);
  put(at("legend"), ...legend(curves, chosen));
  put(at("points"), pointsTable(curves));
}

function legend(curves, chosen) {
  const where = chosen === null ? curves.events.length - 1 : chosen;
  return SERIES.toReversed().map(([name, words]) => {
    const sample = makeSvg("svg", { width: 26, height: 10, "aria-hidden": "true" },
      makeSvg("path", { class: `curve ${name}`, d: "M1 5H25" }));
    const which = name === "recent" ? `model, last ${count(curves.window)}` : words;
    return make("li", "", sample, withHint(`${which} `, MEANING[name] ?? ""), make("b", percent(curves[name][where])));
  });
}

function pointsTable(curves) {
  const step = Math.max(1, Math.ceil(curves.events.length / LINES));
  const places = curves.events.map((_, n) => n).filter((n) => (curves.events.length - 1 - n) % step === 0).reverse();
  const heads = ["event", `last ${count(curves.window)}`, "all",
    withHint("majority", MEANING.majority), withHint("no change", MEANING.no_change)];
  return table("", heads, places.map((n) =>
    [count(curves.events[n]), ...["recent", "cumulative", "majority", "no_change"].map((name) => percent(curves[name][n]))]));
}

at("span").addEventListener("change", drawLife);
at("chart").addEventListener("pointermove", (event) => {
  pointer = event.clientX - at("chart").getBoundingClientRect().left;
  drawLife();
});
at("chart").addEventListener("pointerleave", () => {
  pointer = null;
  drawLife();
});
new ResizeObserver(drawLife).observe(at("chart"));
