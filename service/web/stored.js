// Stored rows, which a kernel model has instead of weights.

const NAMED = 4;

/** Names a stored row by its largest values, and its tree by its size, because only hashes are stored. */
function rowName(row) {
  const parts = row.features.slice(0, NAMED).map((one) => `${brief(nameOf(one))}${collisions(one)} ${number(one.value, 3)}`);
  const more = row.features.length - parts.length + row.features_omitted;
  if (more) parts.push(`${count(more)} more`);
  if (row.tree_nodes) parts.push(`tree of ${count(row.tree_nodes)} ${row.tree_nodes === 1 ? "node" : "nodes"}`);
  return parts.join(", ") || "nothing but zeros";
}

/** A score as a sum over stored rows. */
function explainByRows(title, parts) {
  const terms = [...parts.support.map((row) => row.contribution), parts.constant, parts.omitted.contribution];
  const most = Math.max(...terms.filter(known).map(Math.abs));
  const sum = (name, value) => [name, "", "", swing(value, most, number(value))];
  const lines = parts.support.map((row) => [rowName(row), number(row.coefficient), number(row.similarity),
    swing(row.contribution, most, number(row.contribution))]);
  if (parts.constant) lines.push(sum("constant", parts.constant));
  if (parts.omitted.count) {
    lines.push(sum(`${count(parts.omitted.count)} more stored ${parts.omitted.count === 1 ? "row" : "rows"}`, parts.omitted.contribution));
  }
  const score = parts.exact ? "score" : "score, by votes: the rows only show a tendency";
  lines.push([score, "", "", make("b", number(parts.score))]);
  return table(title, ["stored row", "coefficient", "similarity", "adds"], lines);
}

/** The stored rows of one class with the largest weights. */
function supportTable(one) {
  const rows = one.support.slice(0, SHOWN);
  const most = Math.max(...rows.map((row) => size(row.contribution)));
  const lines = rows.map((row) => [rowName(row), number(row.coefficient),
    swing(row.contribution, most, number(row.contribution, 3))]);
  return table(`${one.label}: ${count(one.stored)} of ${count(one.room)} rows stored`, ["stored row", "coefficient", "weight"], lines);
}
