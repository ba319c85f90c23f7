// From counts at points of the model's life to error curves.

const WINDOW = 1000;
const COUNTED = ["errors", "majority", "no_change"];

/** Points of /history as rows; a life that is shown from its begin on, one step before its first point, starts with nothing. */
function rowsOf(points) {
  const rows = (points?.events ?? []).map((events, n) => [events, ...COUNTED.map((name) => points[name]?.[n] ?? NaN)]);
  const step = rows.length > 1 ? rows[1][0] - rows[0][0] : 0;
  return rows.length && rows[0][0] <= Math.max(WINDOW, step) ? [[0, 0, 0, 0], ...rows] : rows;
}

/**
 * The error of all events up to each point, and of the last WINDOW before it; where points are further apart, since
 * the one before. The baselines are of the same last events.
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
