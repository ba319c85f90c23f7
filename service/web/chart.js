// Draws the curves as SVG, with a mark for every alarm.

const SERIES = [["no_change", "no change"], ["majority", "majority"], ["cumulative", "model, all"], ["recent", "model"]];
const MEANING = { majority: "always the most frequent label so far", no_change: "the last label again" };
const MARGIN = { top: 24, right: 10, bottom: 40, left: 46 };
const LABEL = 56;

function tickStep(span, most) {
  const rough = span / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((times) => times * power >= rough * 0.999);
}

function ticks(from, to, step) {
  const first = Math.ceil(from / step);
  return Array.from({ length: Math.max(0, Math.floor(to / step + 1e-9) - first + 1) }, (_, n) => (first + n) * step);
}

/** The path of a curve, interrupted where a number is missing. */
function line(curves, name, x, y) {
  let pen = "M";
  return curves[name].map((value, n) => {
    if (!known(value)) {
      pen = "M";
      return "";
    }
    const step = `${pen}${x(curves.events[n]).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = "L";
    return step;
  }).join("");
}

function scales(curves, width, height) {
  const { events } = curves;
  const from = events.length > 1 && events[0] > WINDOW ? events[0] : 0;
  const to = Math.max(from + 1, events.at(-1));
  const highest = Math.max(0.02, ...SERIES.flatMap(([name]) => curves[name].filter(known)));
  const step = tickStep(highest * 1.05, 5);
  const top = Math.ceil(highest * 1.02 / step) * step;
  const inner = { width: width - MARGIN.left - MARGIN.right, height: height - MARGIN.top - MARGIN.bottom };
  return {
    from, to, top, step, inner,
    x: (value) => MARGIN.left + inner.width * (value - from) / (to - from),
    y: (value) => MARGIN.top + inner.height * (1 - value / top),
  };
}

const text = (words, attributes) => makeSvg("text", attributes, words);
const short = (events) => events.toLocaleString("en", { notation: "compact", maximumSignificantDigits: 4 });

function axes({ from, to, top, step, inner, x, y }, chosen) {
  const bottom = MARGIN.top + inner.height;
  const right = MARGIN.left + inner.width;
  const levels = ticks(0, top, step).flatMap((value) => [
    makeSvg("line", { class: value ? "grid" : "axis", x1: MARGIN.left, x2: right, y1: y(value), y2: y(value) }),
    text(percent(value), { class: "tick", x: MARGIN.left - 6, y: y(value) + 4, "text-anchor": "end" })]);
  const events = ticks(from, to, tickStep(to - from, Math.max(3, inner.width / 110))).map((value) =>
    text(short(value), { class: "tick", x: x(value), y: bottom + 16, "text-anchor": x(value) > right - 16 ? "end" : "middle" }));
  const below = chosen === null ? "events" : `at event ${count(chosen)}`;
  return [...levels, ...events, text("error", { class: "name", x: 4, y: 14 }),
    text(below, { class: "name", x: MARGIN.left + inner.width / 2, y: bottom + 34, "text-anchor": "middle" })];
}

/** A line at every alarm, with its name if there is room to the left. */
function marks(alarms, { from, to, inner, x }) {
  const within = alarms.filter((alarm) => alarm.event >= from && alarm.event <= to);
  return within.map((alarm) => {
    const place = x(alarm.event);
    const parts = [makeSvg("line", { x1: place, x2: place, y1: MARGIN.top, y2: MARGIN.top + inner.height }),
      text(MARKS[alarm.change] ?? MARKS.moved, { class: "sign", x: place, y: MARGIN.top - 2, "text-anchor": "middle" })];
    const met = within.some((other) => other !== alarm && x(other.event) <= place && x(other.event) > place - LABEL);
    if (isNews(alarm) && !met && place - LABEL > MARGIN.left) {
      parts.push(text(alarm.change === "moved" ? alarm.series.slice(0, 12) : alarm.detector,
        { class: "by", x: place - 9, y: MARGIN.top - 4, "text-anchor": "end" }));
    }
    const title = makeSvg("title", {}, `event ${count(alarm.event)}: ${describeAlarm(alarm)} (${alarm.detector})`);
    return makeSvg("g", { class: `drift ${alarm.change}` }, title, ...parts);
  });
}

function summary(curves, alarms, { from, to }) {
  const last = (name) => percent(curves[name].at(-1));
  const within = alarms.filter((alarm) => alarm.event >= from && alarm.event <= to)
    .map((alarm) => `at event ${count(alarm.event)} ${describeAlarm(alarm)} (${alarm.detector})`);
  return `Error from event ${count(from)} to ${count(to)}. Now: ${last("recent")} over the last ${count(curves.window)} events, ` +
    `${last("cumulative")} over all; ${last("majority")} for majority (${MEANING.majority}), ` +
    `${last("no_change")} for no change (${MEANING.no_change}). ` +
    (within.length ? `Changes found: ${within.join("; ")}.` : "No change found.");
}

function cursor(curves, chosen, { x, y, inner }) {
  if (chosen === null) return [];
  const place = x(curves.events[chosen]);
  const dots = SERIES.filter(([name]) => known(curves[name][chosen]))
    .map(([name]) => makeSvg("circle", { class: `dot ${name}`, cx: place, cy: y(curves[name][chosen]), r: 3.5 }));
  return [makeSvg("line", { class: "cursor", x1: place, x2: place, y1: MARGIN.top, y2: MARGIN.top + inner.height }), ...dots];
}

/** The picture, and a function from an event to its x in it. `chosen`: index of the point under the pointer, or null. */
function chart(curves, alarms, width, chosen) {
  const height = width < 480 ? 260 : 330;
  const scale = scales(curves, width, height);
  const lines = SERIES.map(([name]) => makeSvg("path", { class: `curve ${name}`, d: line(curves, name, scale.x, scale.y) }));
  const picture = makeSvg("svg", { role: "img", "aria-label": summary(curves, alarms, scale), width, height,
    viewBox: `0 0 ${width} ${height}`, "data-points": curves.events.length },
  ...axes(scale, chosen === null ? null : curves.events[chosen]), ...marks(alarms, scale), ...lines, ...cursor(curves, chosen, scale));
  return { picture, x: scale.x };
}
