// Turns the counts of /history into error curves.

const WINDOW = 1000;
const COUNTED = ["errors", "majority", "no_change"];

/** Points of /history as rows. If the first point is one step after the model's first event, a row of zeros precedes it. */
function rowsOf(points) {
  const rows = (points?.events ?? []).map((events, n) => [events, ...COUNTED.map((name) => points[name]?.[n] ?? NaN)]);
  const step = rows.length > 1 ? rows[1][0] - rows[0][0] : 0;
  return rows.length && rows[0][0] <= Math.max(WINDOW, step) ? [[0, 0, 0, 0], ...rows] : rows;
}

/**
 * At each point: the error over all events so far, and over the last WINDOW events, or since the previous point if that
 * is further back. The baselines cover the same last events.
 */
function curvesOf(points) {
  const rows = rowsOf(points);
  const curves = { events: [], recent: [], cumulative: [], majority: [], no_change: [], window: WINDOW };
  let from = 0;
  for (let to = 1; to < rows.length; to += 1) {
    while (from + 1 < to && rows[to][0] - rows[from + 1][0] >= WINDOW) from += 1;
    const [events, errors] = rows[to];
    const apart = events - rows[from][0];
    const enough = apart >= WINDOW || rows[0][0] === 0;
    const since = (column) => enough && apart > 0 ? (rows[to][column] - rows[from][column]) / apart : NaN;
    curves.events.push(events);
    curves.cumulative.push(errors / events);
    curves.recent.push(since(1));
    curves.majority.push(since(2));
    curves.no_change.push(since(3));
    if (enough) curves.window = Math.max(WINDOW, apart);
  }
  return curves;
}
