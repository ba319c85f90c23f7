"use strict";
// Builds the elements of the page. Names come from events: they are set as text, never as markup.

const at = (id) => document.getElementById(id);
const known = (value) => value !== null && value !== undefined && Number.isFinite(value);
const NONE = "–";

const number = (value, digits = 4) => known(value) ?
  Number(value).toLocaleString("en", { maximumSignificantDigits: digits }).replace("-", "−") : NONE;
const count = (value) => known(value) ? Number(value).toLocaleString("en") : NONE;
const fixed = (value, places = 3) => known(value) ? value.toFixed(places).replace("-", "−") : NONE;
const signed = (value) => known(value) ? (value > 0 ? "+" : "") + number(value, 3) : NONE;

function percent(value) {
  if (!known(value)) return NONE;
  const places = value < 0.01 && value > 0 ? 2 : value < 0.1 ? 1 : 0;
  return `${(100 * value).toLocaleString("en", { maximumFractionDigits: places })}\u00a0%`;
}

const clock = (seconds) => known(seconds) ? new Date(1000 * seconds).toLocaleTimeString("en-GB") : NONE;

function make(tag, text, ...inside) {
  const element = document.createElement(tag);
  element.textContent = text;
  element.append(...inside);
  return element;
}

function withClass(name, element) {
  element.className = name;
  return element;
}

/** Words with their meaning as a tooltip. */
function withHint(words, meaning) {
  const element = make("span", words);
  element.title = meaning;
  return element;
}

function makeSvg(tag, attributes, ...inside) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...inside);
  return element;
}

/** Replaces the content of `place`. Equal content stays untouched, so that the reader keeps selection and focus. */
function put(place, ...fresh) {
  const old = [...place.childNodes];
  if (old.length === fresh.length && fresh.every((node, n) => node.isEqualNode(old[n]))) return;
  place.replaceChildren(...fresh);
}

function say(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

/** Cells are texts or elements. The first cell of a line is its heading. */
function table(title, heads, lines) {
  const scoped = (scope, cell) => {
    const head = make("th", "", cell);
    head.scope = scope;
    return head;
  };
  const line = ([first, ...others]) => make("tr", "", scoped("row", first), ...others.map((cell) => make("td", "", cell)));
  const caption = title ? [make("caption", title)] : [];
  return make("table", "", ...caption, make("thead", "", make("tr", "", ...heads.map((head) => scoped("col", head)))),
    make("tbody", "", ...lines.map(line)));
}

/** A number over a bar that starts in the middle: it goes to the right above 0, and to the left below. */
function swing(value, most, text) {
  const fill = make("span", "");
  const half = most > 0 && known(value) ? 50 * Math.min(1, Math.abs(value) / most) : 0;
  fill.style.width = `${half}%`;
  fill.style.marginInlineStart = `${value < 0 ? 50 - half : 50}%`;
  fill.className = value < 0 ? "below" : "above";
  return withClass("swing", make("span", text, withClass("track", make("span", "", fill))));
}

/** A bar from 0 to most, with its number. */
function meter(value, most, text, name) {
  const fill = make("span", "");
  fill.style.width = `${known(value) ? 100 * Math.min(1, Math.max(0, value / most)) : 0}%`;
  const track = withClass("track", make("span", "", fill));
  track.setAttribute("role", "meter");
  track.setAttribute("aria-label", name);
  track.setAttribute("aria-valuemin", 0);
  track.setAttribute("aria-valuemax", most);
  track.setAttribute("aria-valuenow", known(value) ? Math.min(most, Math.max(0, value)) : 0);
  return withClass("meter", make("span", "", track, make("span", text)));
}
